//! How many files the process may have open, of which each connection is one.
//!
//! Service managers and newer container runtimes give 1,024, and allow hundreds of thousands to
//! who asks. With as many connections as that, none could be accepted that an idle one makes room
//! for, and neither configuration nor certificate could be read again.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::connection_slots::closing;

/// Raises the limit to the highest that is allowed, as Go's runtime does, and returns what it
/// is then; `None` for no limit.
pub(in crate::webhook) fn allow_all() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files stays as it is");
            current
        }
    }
}

/// As many connections as there are files for, beside those that everything else needs.
pub(in crate::webhook) fn connections(wanted: usize, files: Option<u64>) -> usize {
    let Some(files) = files.and_then(|files| usize::try_from(files).ok()) else { return wanted };
    let most = files.saturating_sub(OWN).max(1);
    if wanted > most {
        tracing::warn!(
            "--max-connections {wanted}: {most} are served, since no more than {files} files may \
             be open; hint: raise the limit of the container or unit (ulimit -n)"
        );
    }
    wanted.min(most)
}

/// Connections to the plain listeners and those that are being closed on each listener, connections
/// to the API server, files that are read, and what the runtimes have.
const OWN: usize = 2 * (PLAIN_CONNECTIONS + closing(PLAIN_CONNECTIONS)) + closing(usize::MAX) + 64;

/// The connections of a listener of plain HTTP.
pub(in crate::webhook) const PLAIN_CONNECTIONS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_files_for_everything_else() {
        assert_eq!(connections(1024, None), 1024);
        assert_eq!(connections(1024, Some(1 << 20)), 1024);
        assert_eq!(connections(1024, Some(1024)), 1024 - OWN);
        assert_eq!(connections(1024, Some(0)), 1);
    }
}
