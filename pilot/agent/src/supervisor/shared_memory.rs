//! Shared memory of Envoy's hot restart.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use local_files::remove_if_present;
use rustix::fs::{Access, access};

use super::abandoned::kill_abandoned;

/// Segment of one base id.
#[derive(Debug)]
pub(super) struct SharedMemory {
    path: PathBuf,
}

impl SharedMemory {
    /// Returns the segment of a base id, without opening it.
    pub(super) fn new(base_id: u32) -> Self {
        let path = Path::new(FOLDER).join(format!("envoy_shared_memory_{base_id}0"));
        Self { path }
    }

    /// True if Envoy can create segments.
    pub(super) fn is_writable() -> bool {
        access(FOLDER, Access::WRITE_OK).is_ok()
    }

    /// Removes the segment, and ends processes that a killed agent left with it. Call it without a
    /// living Envoy of this agent.
    pub(super) fn remove(&self) {
        if self.path.exists() {
            kill_abandoned(&self.path);
        }
        if let Err(error) = remove_if_present(&self.path) {
            tracing::warn!("removing {}: {error}", self.path.display());
        }
    }

    /// Clears the flag that a process initializes. A process that is killed in between leaves it
    /// set, and every later epoch would exit with "previous envoy process is still initializing".
    ///
    /// Call it only while no process initializes. A segment of another layout is an error.
    pub(super) fn clear_initializing(&self) -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let mut header = [0; 16];
        file.read_exact_at(&mut header, 0)?;
        if header != LAYOUT || file.metadata()?.len() != SIZE {
            return Err(io::Error::other("its layout is not that of hot restart version 11.104"));
        }
        file.write_all_at(&[0; 8], FLAGS)
    }
}

const FOLDER: &str = "/dev/shm";
/// Size in bytes and version, which `envoy --hot-restart-version` prints.
const SIZE: u64 = 104;
const LAYOUT: [u8; 16] = [104, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0];
/// Offset of the flags, after two mutexes of 40 bytes.
const FLAGS: u64 = 96;
