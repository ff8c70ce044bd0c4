//! Parsers of object names in command-line flags.

/// Parses the name of a namespace or a Service: a DNS label (RFC 1123).
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

/// Parses a DNS label as [`label`] does, or the empty text.
pub fn label_or_nothing(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { label(text) }
}

/// Parses a revision, which becomes part of object names; it may be empty.
///
/// [`RESERVED_REVISIONS`] are rejected: `sidecar-injector-metrics` is a Service of the default
/// revision, so a revision `metrics` would collide with it.
pub fn revision(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let is_reserved = |name: &&&str| {
        text.strip_prefix(**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    match RESERVED_REVISIONS.iter().find(is_reserved) {
        Some(name) => Err(format!(
            "want a revision that neither is `{name}` nor begins with `{name}-`: its objects would \
             have the names of another revision's objects"
        )),
        None => label(text),
    }
}

/// Names that a revision may neither have nor begin with, followed by a hyphen.
///
/// Each is a suffix of one of our objects whose name begins with the whole name of another object
/// of its kind.
pub const RESERVED_REVISIONS: [&str; 5] =
    ["ca", "certificate", "metrics", "self-signed", "sidecar-injector"];

/// Parses an object name that is a DNS subdomain: labels separated by dots.
pub fn subdomain(text: &str) -> Result<String, String> {
    if text.len() <= SUBDOMAIN && text.split('.').all(|part| label(part).is_ok()) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "want at most {SUBDOMAIN} lower case letters, digits, `-` and `.`, each part beginning and \
         ending with a letter or digit"
    ))
}

/// Maximum length of a DNS label.
const LABEL: usize = 63;
/// Maximum length of an object name.
const SUBDOMAIN: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_accepted() {
        for name in ["a", "istio-system", "1-28-0", &"a".repeat(63)] {
            assert_eq!(label(name).as_deref(), Ok(name));
        }
        assert_eq!(revision("").as_deref(), Ok(""));
        assert_eq!(subdomain("a.b-c.d").as_deref(), Ok("a.b-c.d"));
    }

    #[test]
    fn reserved_revisions_are_rejected() {
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
    fn invalid_names_are_rejected() {
        for name in ["A", "a/b", "../x", "a.b", "-a", "a-", "a b", "ä", &"a".repeat(64)] {
            assert!(label(name).is_err() && revision(name).is_err(), "{name}");
        }
        assert!(label("").is_err());
        for name in ["", ".", "a.", "a..b", "A", "a/b", &["a"; 128].join(".")] {
            assert!(subdomain(name).is_err(), "{name}");
        }
    }
}
