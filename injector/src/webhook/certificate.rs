//! The certificate that the listener presents, from each of its sources.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use local_files::replace_file;
use webhook_certs::authority::{Authority, AuthorityError, Entropy, Lifetime};
use webhook_certs::server_names::{ServerNames, ServerNamesError};
use webhook_certs::serving::{Identity, IdentityError};

/// Makes a CA and a leaf for a process without a cluster; their keys never leave the memory.
///
/// The leaf is for `localhost`, the loopback addresses, `listening` and `names`. Where `write_ca`
/// is given, the CA's certificate is written there, so that a client can trust it.
pub(super) fn in_memory(
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

/// Why there is no certificate without a cluster.
#[derive(Debug, thiserror::Error)]
pub enum InMemoryError {
    /// A name cannot stand in a certificate.
    #[error("--extra-san: {0}")]
    Names(#[source] ServerNamesError),
    /// The certificates cannot be made.
    #[error("making a certificate: {0}")]
    Issue(#[source] AuthorityError),
    /// The leaf cannot be served.
    #[error("serving the certificate that was made: {0}")]
    Identity(#[source] IdentityError),
    /// The CA cannot be written.
    #[error("--writeCaFile {}: {source}", path.display())]
    WriteCa {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Long enough for any process that runs without a cluster: it makes a new one at its start.
const LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Mode of the CA's file, before the umask: it is no secret.
const CA_FILE: u32 = 0o666;
