//! Network namespaces with veth links between them.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use rustix::process::{Gid, Uid};
use rustix::thread::{
    LinkNameSpaceType, move_into_link_name_space, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::user_namespace;

/// A network namespace, removed when the value is dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

/// Credentials of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The only group.
    pub gid: u32,
}

impl Owner {
    /// The machine's administrator.
    pub const ROOT: Self = Self { uid: 0, gid: 0 };
}

impl Namespace {
    /// Creates a network namespace with loopback up. The name contains the process. The first call
    /// in a process removes the remains of killed processes. Without root, it starts the program
    /// again in a user namespace ([`user_namespace::enter`]).
    pub fn create() -> Result<Self> {
        static PREPARED: OnceLock<Result<(), String>> = OnceLock::new();
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        if let Err(error) = PREPARED.get_or_init(prepare) {
            bail!("{error}");
        }
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        succeed(Command::new("ip").args(["netns", "add", &name]), "")?;
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Returns the name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file of the namespace.
    pub fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }

    /// Connects it with another namespace: a link named `mine` here and `theirs` there, both up.
    /// The links have no addresses from the kernel, so that the test sets all of them.
    pub fn connect(&self, mine: &str, other: &Self, theirs: &str) -> Result<()> {
        let here = &other.name;
        self.ip(&format!("link add {mine} type veth peer name {theirs} netns {here}"))?;
        self.ip(&format!("link set {mine} addrgenmode none up"))?;
        other.ip(&format!("link set {theirs} addrgenmode none up"))
    }

    /// Runs commands of `ip` in the namespace, one per line.
    pub fn ip(&self, commands: &str) -> Result<()> {
        let mut ip = Command::new("ip");
        ip.args(["-netns", &self.name, "-batch", "-"]);
        succeed(&mut ip, commands).map(drop).with_context(|| format!("ip {commands}"))
    }

    /// Runs a closure in the namespace as root, on a thread of its own.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.run_as(Owner::ROOT, work)
    }

    /// Runs a closure in the namespace as this owner, on a thread of its own.
    pub fn run_as<T: Send>(&self, owner: Owner, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                become_owner(owner)?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs a program in the namespace with this input, and returns its output. An error includes
    /// its standard error.
    pub fn output(&self, command: &mut Command, input: &str) -> Result<String> {
        self.run(|| succeed(command, input))?
    }

    /// Moves the calling thread into the namespace permanently.
    pub fn enter(&self) -> Result<()> {
        let path = self.path();
        let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(file.as_fd(), kind).context("entering a network namespace")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A panic here would hide the test's own; the next run removes the remains.
        let _ = remove(&self.name);
    }
}

/// Runs a program to its end; a failure is an error.
pub fn succeed(command: &mut Command, input: &str) -> Result<String> {
    let name = PathBuf::from(command.get_program()).display().to_string();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may end before the input is written.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().with_context(|| format!("waiting for {name}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{name}: {}: {}", output.status, complaint.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Changes user and group of this thread only. In Linux, they belong to threads.
fn become_owner(owner: Owner) -> Result<()> {
    if owner == Owner::ROOT {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    set_thread_groups(&[]).context("leaving all groups")?;
    set_thread_res_gid(gid, gid, gid).context("becoming a group")?;
    set_thread_res_uid(uid, uid, uid).context("becoming a user")
}

fn prepare() -> Result<(), String> {
    user_namespace::enter("tests in network namespaces").map_err(|error| format!("{error:#}"))?;
    remove_leftovers();
    Ok(())
}

fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(FOLDER) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(owner) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) else {
            continue;
        };
        if !Path::new("/proc").join(owner).exists() {
            let _ = remove(&name);
        }
    }
}

fn remove(name: &str) -> Result<String> {
    succeed(Command::new("ip").args(["netns", "delete", name]), "")
}

/// The folder of `ip netns`.
const FOLDER: &str = "/run/netns";
const PREFIX: &str = "outrigger-capture-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_is_deleted_when_dropped() {
        let namespace = Namespace::create().unwrap();
        let path = namespace.path();
        assert!(path.exists());
        let links = namespace.output(Command::new("ip").args(["-o", "link"]), "").unwrap();
        assert_eq!(links.lines().count(), 1, "{links}");
        drop(namespace);
        assert!(!path.exists());
    }

    #[test]
    fn owner_applies_to_the_thread_only() {
        let namespace = Namespace::create().unwrap();
        let owner = Owner { uid: 1000, gid: 2000 };
        let seen = namespace.run_as(owner, || {
            (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
        });
        assert_eq!(seen.unwrap(), (1000, 2000));
        assert_eq!(rustix::process::geteuid(), Uid::ROOT);
    }
}
