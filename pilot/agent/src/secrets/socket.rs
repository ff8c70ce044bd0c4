//! SDS sockets: the one that Envoy uses, and the one that the agent serves.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use local_files::remove_if_present;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixListener;

use super::conditions::{Conditions, Subject};

/// SDS sockets of the pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sockets {
    /// Socket for Envoy's cluster `sds-grpc`.
    pub envoy: PathBuf,
    /// Socket that the agent serves; `None` if another program serves it.
    pub own: Option<PathBuf>,
}

impl Sockets {
    /// Chooses the sockets in a folder.
    ///
    /// Another program, such as SPIRE's agent, provides the workload certificate if `is_foreign`
    /// says so of the default socket, or if `file` names another one.
    pub fn choose(folder: &Path, file: &str, is_foreign: impl Fn(&Path) -> bool) -> Self {
        let default = folder.join(DEFAULT);
        // A bare file name: a path would lead out of the folder.
        let named = Path::new(file).file_name().map(|name| folder.join(name));
        let own = (!is_foreign(&default)).then(|| default.clone());
        Self { envoy: named.unwrap_or(default), own }
    }

    /// True if another program provides the workload certificate.
    pub fn is_foreign(&self) -> bool {
        self.own.as_ref() != Some(&self.envoy)
    }
}

/// True if another program serves the socket, or will: the agent cannot in a read-only folder, as
/// SPIRE's CSI driver mounts it.
pub(super) fn is_foreign(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    is_served(path) || access(folder, Access::WRITE_OK) == Err(Errno::ROFS)
}

/// True if a program listens on the socket. The socket of an ended program does not count.
pub fn is_served(path: &Path) -> bool {
    let connect = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // A hanging program with a full backlog must not block the agent.
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(path)?)
    };
    match connect() {
        Ok(()) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        }
    }
}

/// Reports it when the socket for Envoy is not served by the program that was chosen.
pub(super) async fn monitor(sockets: Sockets, conditions: Arc<Conditions>) {
    let path = sockets.envoy.display();
    let file = || fs::metadata(&sockets.envoy).map(|found| (found.dev(), found.ino())).ok();
    let own = file();
    loop {
        let message = if sockets.is_foreign() {
            (!is_served(&sockets.envoy)).then(|| {
                format!("no program serves {path}, where Envoy gets the workload certificate")
            })
        } else {
            (file() != own).then(|| {
                format!(
                    "another program has removed or replaced the agent's SDS socket {path}: \
                     create a new pod while that program runs"
                )
            })
        };
        let wait = if message.is_some() { UNTIL_SERVED } else { WHILE_SERVED };
        match message {
            Some(message) => _ = conditions.set(Subject::Socket, message),
            None => conditions.clear(&Subject::Socket),
        }
        tokio::time::sleep(wait).await;
    }
}

/// Listens on a socket, for programs of the same user. Replaces the socket of an ended program.
pub(super) fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let error = |cause| SocketError { path: path.to_owned(), cause };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(error)?;
    }
    remove_if_present(path).map_err(error)?;
    let listener = UnixListener::bind(path).map_err(error)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(error)?;
    Ok(listener)
}

/// Error of the SDS socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on the SDS socket {}: {cause}", path.display())]
pub struct SocketError {
    path: PathBuf,
    cause: io::Error,
}

/// Name of the agent's own socket.
const DEFAULT: &str = "socket";
/// Time between two looks at a socket that is not served.
const UNTIL_SERVED: Duration = Duration::from_secs(1);
/// Time between two looks at a served socket: each is a connection to the other program.
const WHILE_SERVED: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn foreign_socket_is_used_by_envoy() {
        let folder = Path::new("/uds");
        let choose = |file, served: &str| {
            let sockets = Sockets::choose(folder, file, |path| path == Path::new(served));
            (sockets.envoy.display().to_string(), sockets.own.is_some(), sockets.is_foreign())
        };
        let socket = |name: &str| format!("/uds/{name}");
        assert_eq!(choose("socket", ""), (socket("socket"), true, false));
        assert_eq!(choose("", ""), (socket("socket"), true, false));
        assert_eq!(choose("socket", "/uds/socket"), (socket("socket"), false, true));
        // The agent serves files beside it.
        assert_eq!(choose("spire.sock", "/uds/spire.sock"), (socket("spire.sock"), true, true));
        assert_eq!(choose("../../etc/other", ""), (socket("other"), true, true));
    }

    #[tokio::test]
    async fn socket_of_an_ended_program_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("uds/socket");
        assert!(!is_served(&path));
        let listener = listen(&path).unwrap();
        assert!(is_served(&path));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(listener);
        assert!(!is_served(&path));
        let _listener = listen(&path).unwrap();
        assert!(is_served(&path));
    }

    #[test]
    fn hanging_program_with_a_full_backlog_blocks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        socket.listen(0).unwrap();
        // Connections of before fill the backlog.
        for _ in 0..4 {
            assert!(is_served(&path));
        }
    }
}
