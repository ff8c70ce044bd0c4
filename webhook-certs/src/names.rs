//! Names as the flags of programs take them: what Kubernetes or a certificate could not carry is
//! refused before anything starts, with words on what is wanted.

use crate::server_names::ServerNames;

/// A name of a namespace or a Service: a label of DNS, as RFC 1123 has it.
pub fn label(text: &str) -> Result<String, String> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = (1..=LABEL).contains(&text.len())
        && text.chars().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_label {
        return Ok(text.to_owned());
    }
    Err(format!(
        "want at most {LABEL} lower case letters, digits and `-`, beginning and ending with a \
         letter or digit"
    ))
}

/// A revision, which becomes part of the names of objects; it may be empty.
///
/// One by which an object of the revision would have the name of another one's object is refused:
/// `sidecar-injector-metrics` is a Service of the default revision.
pub fn revision(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let of_others = |name: &&&str| {
        text.strip_prefix(**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    match RESERVED_REVISIONS.iter().find(of_others) {
        Some(name) => Err(format!(
            "want a revision that neither is `{name}` nor begins with `{name}-`, since objects of it \
             would have the names of another revision's"
        )),
        None => label(text),
    }
}

/// What revisions may neither be called nor begin with, before a hyphen: each is what one of our
/// objects has in its name after the whole name of another one of its kind.
pub const RESERVED_REVISIONS: [&str; 5] =
    ["ca", "certificate", "metrics", "self-signed", "sidecar-injector"];

/// A name of an object whose names are subdomains of DNS: labels with dots between them.
pub fn subdomain(text: &str) -> Result<String, String> {
    if text.len() <= SUBDOMAIN && text.split('.').all(|part| label(part).is_ok()) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "want at most {SUBDOMAIN} lower case letters, digits, `-` and `.`, each part beginning and \
         ending with a letter or digit"
    ))
}

/// A DNS name or an IP address that a certificate can be for.
pub fn of_server(text: &str) -> Result<String, String> {
    match ServerNames::parse([text]) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("want a DNS name or an IP address".to_owned()),
    }
}

/// The DNS domain of a cluster.
pub fn domain(text: &str) -> Result<String, String> {
    match ServerNames::parse([format!("service.{text}")]) {
        Ok(_) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err("want a DNS domain such as cluster.local".to_owned()),
    }
}

/// The longest label of DNS.
const LABEL: usize = 63;
/// The longest name of an object.
const SUBDOMAIN: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_names_that_kubernetes_takes() {
        for name in ["a", "istio-system", "1-28-0", &"a".repeat(63)] {
            assert_eq!(label(name).as_deref(), Ok(name));
        }
        assert_eq!(revision("").as_deref(), Ok(""));
        assert_eq!(subdomain("a.b-c.d").as_deref(), Ok("a.b-c.d"));
        assert_eq!(of_server("*.example.com").as_deref().ok(), None);
        for name in ["a.example.com", "10.0.0.1", "::1"] {
            assert_eq!(of_server(name).as_deref(), Ok(name));
        }
        assert_eq!(domain("cluster.local").as_deref(), Ok("cluster.local"));
    }

    #[test]
    fn refuses_revisions_whose_objects_have_the_names_of_others() {
        for name in ["metrics", "metrics-1", "ca", "self-signed-b", "sidecar-injector"] {
            let error = revision(name).unwrap_err();
            assert!(error.contains("another revision's"), "{error}");
            assert_eq!(label(name).as_deref(), Ok(name));
        }
        for name in ["metrics1", "canary", "cameras", "my-metrics"] {
            assert_eq!(revision(name).as_deref(), Ok(name));
        }
    }

    #[test]
    fn refuses_what_would_be_another_path_or_no_name() {
        for name in ["A", "a/b", "../x", "a.b", "-a", "a-", "a b", "ä", &"a".repeat(64)] {
            assert!(label(name).is_err() && revision(name).is_err(), "{name}");
        }
        assert!(label("").is_err());
        for name in ["", ".", "a.", "a..b", "A", "a/b", &["a"; 128].join(".")] {
            assert!(subdomain(name).is_err(), "{name}");
        }
        for name in ["", "..", "a b", "-x-", "a/b"] {
            assert!(of_server(name).is_err(), "{name}");
            assert!(domain(name).is_err(), "{name}");
        }
    }
}
