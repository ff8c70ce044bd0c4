//! Names of the secrets that the agent serves.

use std::fmt;
use std::path::PathBuf;

/// A secret.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum SecretName {
    /// `default`: workload certificate and key.
    Workload,
    /// `ROOTCA`: trusted roots of the mesh.
    Roots,
    /// `file-cert:CERTIFICATE~KEY`: a certificate and its key in files.
    FileCertificate {
        /// Path of the certificate chain.
        certificate: PathBuf,
        /// Path of the private key.
        key: PathBuf,
    },
    /// `file-root:CA`: trusted roots in a file.
    FileRoots(PathBuf),
    /// `file-root:system`: trusted roots of the system.
    SystemRoots,
}

impl SecretName {
    /// Parses the name of an SDS resource.
    pub fn parse(name: &str) -> Result<Self, SecretNameError> {
        let error = |reason| SecretNameError { name: name.to_owned(), reason };
        match name {
            WORKLOAD => return Ok(Self::Workload),
            ROOTS => return Ok(Self::Roots),
            SYSTEM_ROOTS => return Ok(Self::SystemRoots),
            _ => {}
        }
        if let Some(files) = name.strip_prefix(FILE_CERTIFICATE) {
            return match files.split('~').collect::<Vec<_>>()[..] {
                [certificate, key] if !certificate.is_empty() && !key.is_empty() => {
                    Ok(Self::FileCertificate { certificate: certificate.into(), key: key.into() })
                }
                _ => Err(error("expected file-cert:CERTIFICATE~KEY, two paths")),
            };
        }
        match name.strip_prefix(FILE_ROOTS) {
            Some("") => Err(error("expected file-root:CA, a path")),
            Some(file) => Ok(Self::FileRoots(file.into())),
            None => Err(error("expected default, ROOTCA, file-cert:… or file-root:…")),
        }
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload => formatter.write_str(WORKLOAD),
            Self::Roots => formatter.write_str(ROOTS),
            Self::FileCertificate { certificate, key } => {
                write!(formatter, "{FILE_CERTIFICATE}{}~{}", certificate.display(), key.display())
            }
            Self::FileRoots(file) => write!(formatter, "{FILE_ROOTS}{}", file.display()),
            Self::SystemRoots => formatter.write_str(SYSTEM_ROOTS),
        }
    }
}

/// Error of a name that the agent does not serve.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("secret {name:?} is not served: {reason}")]
pub struct SecretNameError {
    name: String,
    reason: &'static str,
}

const WORKLOAD: &str = "default";
const ROOTS: &str = "ROOTCA";
const FILE_CERTIFICATE: &str = "file-cert:";
const FILE_ROOTS: &str = "file-root:";
const SYSTEM_ROOTS: &str = "file-root:system";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_names_round_trip() {
        for name in [
            "default",
            "ROOTCA",
            "file-root:system",
            "file-root:/etc/certs/root-cert.pem",
            "file-cert:/etc/certs/cert-chain.pem~/etc/certs/key.pem",
            "file-cert:relative/cert~key",
        ] {
            assert_eq!(SecretName::parse(name).unwrap().to_string(), name);
        }
    }

    #[test]
    fn other_names_are_rejected_with_a_reason() {
        let reasons = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| SecretName::parse(name).unwrap_err().to_string()).collect()
        };
        insta::assert_snapshot!(reasons(&[
            "", "Default", "kubernetes://shop/tls", "file-cert:", "file-cert:/cert",
            "file-cert:~/key", "file-cert:/cert~", "file-cert:/a~/b~/c", "file-root:",
        ]).join("\n"), @r#"
        secret "" is not served: expected default, ROOTCA, file-cert:… or file-root:…
        secret "Default" is not served: expected default, ROOTCA, file-cert:… or file-root:…
        secret "kubernetes://shop/tls" is not served: expected default, ROOTCA, file-cert:… or file-root:…
        secret "file-cert:" is not served: expected file-cert:CERTIFICATE~KEY, two paths
        secret "file-cert:/cert" is not served: expected file-cert:CERTIFICATE~KEY, two paths
        secret "file-cert:~/key" is not served: expected file-cert:CERTIFICATE~KEY, two paths
        secret "file-cert:/cert~" is not served: expected file-cert:CERTIFICATE~KEY, two paths
        secret "file-cert:/a~/b~/c" is not served: expected file-cert:CERTIFICATE~KEY, two paths
        secret "file-root:" is not served: expected file-root:CA, a path
        "#);
    }
}
