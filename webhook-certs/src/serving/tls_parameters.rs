//! TLS versions and cipher suites of a listener.

use std::fmt;
use std::str::FromStr;

use rustls::SupportedCipherSuite;
use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{ALL_CIPHER_SUITES, default_provider};
use rustls::version::{TLS12, TLS13};

/// Offered TLS versions and cipher suites; TLS 1.3 is always among them.
///
/// The default is TLS 1.2 and 1.3 with every supported suite. All of these have authenticated
/// encryption and forward secrecy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsParameters {
    minimum: MinimumVersion,
    suites: CipherSuites,
}

impl TlsParameters {
    /// Combines the minimum version and the suites of flags.
    pub fn new(minimum: MinimumVersion, suites: CipherSuites) -> Result<Self, TlsParametersError> {
        let older = suites.0.iter().find(|suite| is_older(suite));
        match (minimum, older) {
            (MinimumVersion::Tls13, Some(suite)) => Err(TlsParametersError { suite: name(*suite) }),
            _ => Ok(Self { minimum, suites }),
        }
    }

    /// Crypto provider with the offered suites, and the versions that have one.
    pub(super) fn provider(&self) -> (CryptoProvider, Vec<&'static SupportedProtocolVersion>) {
        let named = &self.suites.0;
        let names_newer = named.iter().any(|suite| !is_older(suite));
        let is_offered = |suite: &SupportedCipherSuite| {
            if is_older(suite) {
                self.minimum == MinimumVersion::Tls12 && (named.is_empty() || named.contains(suite))
            } else {
                !names_newer || named.contains(suite)
            }
        };
        let offered: Vec<_> = ALL_CIPHER_SUITES.iter().copied().filter(is_offered).collect();
        let mut versions = vec![&TLS13];
        if offered.iter().any(is_older) {
            versions.push(&TLS12);
        }
        (CryptoProvider { cipher_suites: offered, ..default_provider() }, versions)
    }
}

/// A TLS 1.2 suite conflicts with a minimum of TLS 1.3.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the cipher suite {suite} is of TLS 1.2 and conflicts with a minimum of TLS 1.3; \
     hint: omit it, or lower the minimum to TLSV1_2"
)]
pub struct TlsParametersError {
    /// Name of the suite.
    pub suite: String,
}

/// Oldest offered version.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MinimumVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3, which every maintained API server speaks.
    Tls13,
}

impl FromStr for MinimumVersion {
    type Err = MinimumVersionError;

    /// Parses Istio's spelling (`TLSV1_2`), that of Kubernetes' flags (`VersionTLS12`), and `1.2`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "TLSV1_2" | "VersionTLS12" | "1.2" => Ok(Self::Tls12),
            "TLSV1_3" | "VersionTLS13" | "1.3" => Ok(Self::Tls13),
            _ => Err(MinimumVersionError),
        }
    }
}

impl fmt::Display for MinimumVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tls12 => "TLSV1_2",
            Self::Tls13 => "TLSV1_3",
        })
    }
}

/// The text names no offered version.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("want TLSV1_2 or TLSV1_3; nothing older is offered")]
pub struct MinimumVersionError;

/// Named suites; an empty list offers all.
///
/// As with Go's servers, and so with Istio's, a list without TLS 1.3 suites restricts only TLS 1.2.
/// Any other list offers exactly the named suites; without TLS 1.2 suites, TLS 1.2 is not offered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CipherSuites(Vec<SupportedCipherSuite>);

impl CipherSuites {
    /// Finds suites by their IANA or Go names.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, CipherSuiteError> {
        let suite = |wanted: &str| {
            // Go's old name omits the hash.
            let old = wanted.strip_suffix("_CHACHA20_POLY1305");
            let full = old.map(|begin| format!("{begin}_CHACHA20_POLY1305_SHA256"));
            let full = full.as_deref().unwrap_or(wanted);
            ALL_CIPHER_SUITES.iter().copied().find(|suite| name(*suite) == full)
        };
        let find =
            |name: &str| suite(name).ok_or_else(|| CipherSuiteError { name: name.to_owned() });
        names.into_iter().map(find).collect::<Result<_, _>>().map(Self)
    }
}

/// The name is not that of a supported suite.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{name:?} is not a supported cipher suite; supported are: {}", offered())]
pub struct CipherSuiteError {
    /// Rejected name.
    pub name: String,
}

fn offered() -> String {
    ALL_CIPHER_SUITES.iter().map(|suite| name(*suite)).collect::<Vec<_>>().join(", ")
}

/// Name registered at IANA.
fn name(suite: SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    name.replacen("TLS13_", "TLS_", 1)
}

fn is_older(suite: &SupportedCipherSuite) -> bool {
    suite.version() == &TLS12
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of offered suites and versions.
    fn offered(minimum: &str, suites: &[&str]) -> (usize, usize) {
        let suites = CipherSuites::named(suites.iter().copied()).unwrap();
        let parameters = TlsParameters::new(minimum.parse().unwrap(), suites).unwrap();
        let (provider, versions) = parameters.provider();
        (provider.cipher_suites.len(), versions.len())
    }

    #[test]
    fn suite_list_restricts_the_versions_it_names() {
        let new = "TLS_AES_128_GCM_SHA256";
        let old = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        let table: [(&str, &[&str], (usize, usize)); 7] = [
            ("TLSV1_2", &[], (9, 2)),
            ("TLSV1_3", &[], (3, 1)),
            ("VersionTLS13", &[], (3, 1)),
            ("1.2", &[old], (4, 2)),
            ("TLSV1_2", &[new], (1, 1)),
            ("TLSV1_2", &[new, old], (2, 2)),
            ("TLSV1_2", &["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"], (4, 2)),
        ];
        for (minimum, suites, expected) in table {
            assert_eq!(offered(minimum, suites), expected, "{minimum} {suites:?}");
        }
    }

    #[test]
    fn error_for_an_unknown_suite_lists_supported_ones() {
        for name in ["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS13_AES_128_GCM_SHA256", ""] {
            let error = CipherSuites::named([name]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("TLS_AES_256_GCM_SHA384, "), "{error}");
        }
    }

    #[test]
    fn tls12_suites_conflict_with_minimum_tls13() {
        let suites = CipherSuites::named(["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]).unwrap();
        let error = TlsParameters::new(MinimumVersion::Tls13, suites).unwrap_err();
        assert_eq!(error.suite, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
    }

    #[test]
    fn unsupported_versions_are_rejected() {
        for text in ["", "TLSV1_1", "TLS_AUTO", "VersionTLS11", "1.4", "tlsv1_2"] {
            assert_eq!(text.parse::<MinimumVersion>(), Err(MinimumVersionError), "{text}");
        }
    }
}
