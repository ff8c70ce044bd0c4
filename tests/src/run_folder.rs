//! Folder with all files of a run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{env, io};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// The folder of a run.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    _held: Held,
}

#[derive(Debug)]
enum Held {
    /// The lock of the machine's only node.
    Lock { _lock: File },
    /// A folder of this process, removed at its end.
    Folder { _folder: TempDir },
}

impl RunFolder {
    /// Returns the folder of the running node after waiting for its lock. A machine runs one node
    /// at a time, since bridge, cgroup and packet filter tables belong to the machine. The lock is
    /// held until the value is dropped.
    ///
    /// `node/` is removed after the run, or by the next one if the run was killed. `logs/` stays
    /// until the next run, for the investigation of failures.
    pub fn claim() -> Result<Self> {
        let root = env::temp_dir().join("outrigger-e2e");
        fs::create_dir_all(&root).with_context(|| format!("creating {}", root.display()))?;
        let path = root.join("lock");
        let lock = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            say_that_it_waits();
            flock(&lock, FlockOperation::LockExclusive)
                .with_context(|| format!("locking {}", path.display()))?;
        }
        Ok(Self { root, _held: Held::Lock { _lock: lock } })
    }

    /// Creates a folder of this process, for programs that share nothing with another run. It is
    /// removed when the value is dropped. Remains of killed processes are removed first.
    pub fn of_process() -> Result<Self> {
        clear_what_killed_runs_left();
        let folder = tempfile::Builder::new()
            .prefix(&format!("{OF_PROCESS}{}-", std::process::id()))
            .tempdir()
            .context("making a folder for this run")?;
        let run = Self { root: folder.path().to_owned(), _held: Held::Folder { _folder: folder } };
        for folder in [run.node(), run.logs()] {
            fs::create_dir_all(&folder)
                .with_context(|| format!("creating {}", folder.display()))?;
        }
        Ok(run)
    }

    /// Returns the folder with the state of the run. It exists only during the run, or after a
    /// killed one.
    pub fn node(&self) -> PathBuf {
        self.root.join("node")
    }

    /// Returns the folder with the logs of the programs (`NAME.log`), and of a node's pods
    /// (`pods/`).
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Starts a run with empty `node/` and `logs/`.
    pub(crate) fn begin(&self) -> Result<()> {
        remove(&self.logs())?;
        for folder in [self.node(), self.logs()] {
            fs::create_dir_all(&folder)
                .with_context(|| format!("creating {}", folder.display()))?;
        }
        let is_new = |folder: &&str| !Path::new(folder).exists();
        let new: Vec<&str> = FOLDERS_WITHOUT_OPTION.into_iter().filter(is_new).collect();
        self.write(NEW_FOLDERS, new.join("\n")).map(drop)
    }

    /// Creates a folder below `node/`.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.node().join(name);
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(path)
    }

    /// Writes a file below `node/`; its folder is created.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.node().join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// Ends a run: removes `node/`, and those folders of the machine that did not exist before.
    pub(crate) fn end(&self) -> Result<()> {
        let new = fs::read_to_string(self.node().join(NEW_FOLDERS)).unwrap_or_default();
        for folder in new.lines() {
            remove(Path::new(folder))?;
        }
        remove(&self.node())
    }
}

#[expect(clippy::print_stderr, reason = "a test that waits for another run says so")]
fn say_that_it_waits() {
    eprintln!("another run has a node on this machine: waiting until it ends");
}

/// Removes the folders of killed runs, named after their processes. The kernel has ended their
/// programs.
fn clear_what_killed_runs_left() {
    for folder in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        let name = folder.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(OF_PROCESS));
        let process = process.and_then(|rest| rest.split_once('-'));
        if process.is_some_and(|(id, _)| !Path::new("/proc").join(id).exists()) {
            // Another run may be removing it too.
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Folders into which the kubelet, containerd and its network plugins write, regardless of options.
const FOLDERS_WITHOUT_OPTION: [&str; 4] =
    ["/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers"];
const OF_PROCESS: &str = "outrigger-run-";
const NEW_FOLDERS: &str = "new-folders";
