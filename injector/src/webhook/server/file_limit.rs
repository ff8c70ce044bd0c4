//! Limit of open files (`RLIMIT_NOFILE`). Each connection is one file.
//!
//! Service managers and newer container runtimes set a soft limit of 1,024, and a hard limit of
//! hundreds of thousands. If connections used up the limit, the process could not accept the
//! connection that displaces an idle one. It could not read configuration and certificate again
//! either.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::connection_slots::closing;

/// Raises the soft limit to the hard limit, as Go's runtime does. Returns the resulting limit;
/// `None` is no limit.
pub(in crate::webhook) fn allow_all() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files is unchanged");
            current
        }
    }
}

/// Returns the number of connections to allow: `wanted`, or less if there are too few files for it
/// and for everything else.
pub(in crate::webhook) fn connections(wanted: usize, files: Option<u64>) -> usize {
    let Some(files) = files.and_then(|files| usize::try_from(files).ok()) else { return wanted };
    let most = files.saturating_sub(OWN).max(1);
    if wanted > most {
        tracing::warn!(
            "--max-connections {wanted}: serving only {most}, because at most {files} files may be \
             open; hint: raise the limit of the container or unit (ulimit -n)"
        );
    }
    wanted.min(most)
}

/// Files for everything else: connections to the plain listeners, connections that are being closed
/// on each listener, connections to the API server, files that are read, and those of the runtimes.
const OWN: usize = 2 * (PLAIN_CONNECTIONS + closing(PLAIN_CONNECTIONS)) + closing(usize::MAX) + 64;

/// The connections of a listener of plain HTTP.
pub(in crate::webhook) const PLAIN_CONNECTIONS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_limit_reserves_file_descriptors() {
        assert_eq!(connections(1024, None), 1024);
        assert_eq!(connections(1024, Some(1 << 20)), 1024);
        assert_eq!(connections(1024, Some(1024)), 1024 - OWN);
        assert_eq!(connections(1024, Some(0)), 1);
    }
}
