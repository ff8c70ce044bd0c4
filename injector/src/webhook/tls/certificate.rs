//! In-memory CA and serving certificate of a process without a cluster.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use local_files::replace_file;
use webhook_certs::authority::{Authority, AuthorityError, Entropy, Lifetime};
use webhook_certs::server_names::{ServerNames, ServerNamesError};
use webhook_certs::serving::{Identity, IdentityError};

/// Creates a CA and a leaf for a process without a cluster. Their keys never leave the memory.
///
/// The leaf is valid for `localhost`, the loopback addresses, `listening` (unless unspecified) and
/// `names`. If `write_ca` is given, the CA certificate is written to that file, so that a client
/// can trust it.
pub(in crate::webhook) fn in_memory(
    listening: IpAddr,
    names: &[String],
    write_ca: Option<PathBuf>,
) -> Result<Identity, InMemoryError> {
    let now = Timestamp::now();
    let lifetime = Lifetime::starting(now, LIFETIME);
    let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let listening = (!listening.is_unspecified()).then(|| listening.to_string());
    let names = ServerNames::parse(own.iter().chain(&listening).chain(names))
        .map_err(InMemoryError::Names)?;
    let entropy = || Entropy::draw().map_err(InMemoryError::Issue);
    let authority = Authority::create("sidecar-injector", 1, lifetime, entropy()?)
        .map_err(InMemoryError::Issue)?;
    let leaf = authority.issue(&names, lifetime, entropy()?).map_err(InMemoryError::Issue)?;
    if let Some(path) = write_ca {
        replace_file(&path, CA_FILE, &[authority.certificate_pem()])
            .map_err(|source| InMemoryError::WriteCa { path, source })?;
    }
    Identity::from_leaf(&leaf).map_err(InMemoryError::Identity)
}

/// Error while creating the certificate of a process without a cluster.
#[derive(Debug, thiserror::Error)]
pub enum InMemoryError {
    /// A name is invalid in a certificate.
    #[error("--extra-san: {0}")]
    Names(#[source] ServerNamesError),
    /// The CA or the leaf cannot be created.
    #[error("making a certificate: {0}")]
    Issue(#[source] AuthorityError),
    /// The leaf cannot be served.
    #[error("serving the generated certificate: {0}")]
    Identity(#[source] IdentityError),
    /// The CA certificate cannot be written to its file.
    #[error("--writeCaFile {}: {source}", path.display())]
    WriteCa {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// Validity of the CA and the leaf. It is longer than any such process runs, and every start
/// creates new ones.
const LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Mode of the CA file before the umask. The file is no secret.
const CA_FILE: u32 = 0o666;
