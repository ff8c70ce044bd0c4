//! The names that a serving certificate is valid for.

use std::fmt;

use rustls_pki_types::ServerName;

/// The subject alternative names of a leaf, most important first, never empty.
///
/// An API server verifies exactly `<service>.<namespace>.svc` and ignores the common name
/// (kube-apiserver, `util/webhook/client.go`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNames(Vec<ServerName<'static>>);

impl ServerNames {
    /// Parses names and addresses, keeping their order and dropping repetitions.
    pub fn parse<I>(names: I) -> Result<Self, ServerNamesError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut parsed = Vec::new();
        for name in names {
            let name = server_name(name.as_ref())?;
            if !parsed.contains(&name) {
                parsed.push(name);
            }
        }
        if parsed.is_empty() {
            return Err(ServerNamesError::Empty);
        }
        Ok(Self(parsed))
    }

    /// Lists the names of a Service: the one that API servers ask for, then the shorter ones and
    /// the one with the cluster's domain, then `extra`.
    pub fn from_service(
        service: &str,
        namespace: &str,
        cluster_domain: &str,
        extra: &[String],
    ) -> Result<Self, ServerNamesError> {
        let own = [
            format!("{service}.{namespace}.svc"),
            service.to_owned(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc.{cluster_domain}"),
        ];
        Self::parse(own.iter().chain(extra))
    }

    /// The name that the certificate is called by.
    pub fn first(&self) -> String {
        self.0[0].to_str().into_owned()
    }

    /// Iterates over the names, most important first.
    pub fn iter(&self) -> impl Iterator<Item = &ServerName<'static>> {
        self.0.iter()
    }
}

impl fmt::Display for ServerNames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, name) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(formatter, "{separator}{}", name.to_str())?;
        }
        Ok(())
    }
}

/// Reason for which a list of names cannot be in a certificate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerNamesError {
    /// A name is neither a DNS name nor an IP address.
    #[error("`{name}` is neither a DNS name nor an IP address")]
    Name {
        /// The name as given.
        name: String,
    },
    /// No name was given.
    #[error("a serving certificate needs at least one name")]
    Empty,
}

/// Parses a DNS name or an IP address in a command-line flag.
pub fn parse_name(text: &str) -> Result<String, String> {
    match server_name(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("want a DNS name or an IP address".to_owned()),
    }
}

/// Parses the DNS domain of a cluster in a command-line flag.
pub fn parse_domain(text: &str) -> Result<String, String> {
    match server_name(&format!("service.{text}")) {
        Ok(_) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err("want a DNS domain such as cluster.local".to_owned()),
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, ServerNamesError> {
    ServerName::try_from(name)
        .map(|parsed| parsed.to_owned())
        .map_err(|_| ServerNamesError::Name { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_api_servers_call_comes_first() {
        let names = ServerNames::from_service(
            "sidecar-injector",
            "istio-system",
            "cluster.local",
            &["10.0.0.1".to_owned(), "sidecar-injector".to_owned()],
        )
        .unwrap();
        assert_eq!(names.first(), "sidecar-injector.istio-system.svc");
        assert_eq!(
            names.to_string(),
            "sidecar-injector.istio-system.svc, sidecar-injector, \
             sidecar-injector.istio-system, sidecar-injector.istio-system.svc.cluster.local, \
             10.0.0.1"
        );
    }

    #[test]
    fn flags_accept_only_names_that_certificates_can_carry() {
        assert_eq!(parse_name("*.example.com").ok(), None);
        for name in ["a.example.com", "10.0.0.1", "::1"] {
            assert_eq!(parse_name(name).as_deref(), Ok(name));
        }
        assert_eq!(parse_domain("cluster.local").as_deref(), Ok("cluster.local"));
        for name in ["", "..", "a b", "-x-", "a/b"] {
            assert!(parse_name(name).is_err() && parse_domain(name).is_err(), "{name}");
        }
    }

    #[test]
    fn invalid_names_are_quoted_in_errors() {
        let error = ServerNames::parse(["in valid"]).unwrap_err();
        assert_eq!(error.to_string(), "`in valid` is neither a DNS name nor an IP address");
        assert_eq!(ServerNames::parse(Vec::<String>::new()), Err(ServerNamesError::Empty));
    }
}
