//! SDS sockets: the one that Envoy uses, and the one that the agent serves.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

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
    /// Another program, such as SPIRE's agent, provides the workload certificate if it serves the
    /// default socket already, or if `file` names another one.
    pub fn choose(folder: &Path, file: &str, is_served: impl Fn(&Path) -> bool) -> Self {
        let default = folder.join(DEFAULT);
        // A bare file name: a path would lead out of the folder.
        let named = Path::new(file).file_name().map(|name| folder.join(name));
        let own = (!is_served(&default)).then(|| default.clone());
        Self { envoy: named.unwrap_or(default), own }
    }

    /// True if another program provides the workload certificate.
    pub fn is_foreign(&self) -> bool {
        self.own.as_ref() != Some(&self.envoy)
    }
}

/// True if a program listens on the socket. The socket of an ended program does not count.
pub fn is_served(path: &Path) -> bool {
    match UnixStream::connect(path) {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        }
    }
}

/// Listens on a socket, for programs of the same user. Replaces the socket of an ended program.
pub(super) fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let error = |cause| SocketError { path: path.to_owned(), cause };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(error)?;
    }
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(error(cause)),
        _ => {}
    }
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
}
