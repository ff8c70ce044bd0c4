//! URL path of the webhook, which can carry environment variables for the proxy:
//! `/inject/cluster/c1/net/n1`.
//!
//! It distinguishes remote clusters. The rules are Istio's, after the path cleaning of Go's HTTP
//! server.

use std::collections::BTreeMap;

/// Checks that a path is clean, as Go's server defines it: no empty, `.` or `..` segments; a
/// trailing slash is kept. The error is the clean path, to which the client is redirected.
pub fn clean(path: &str) -> Result<(), String> {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let (inner, slash) = match inner.strip_suffix('/') {
        Some(inner) => (inner, "/"),
        None => (inner, ""),
    };
    let is_clean = path.starts_with('/')
        && (path == "/" || inner.split('/').all(|s| !matches!(s, "" | "." | "..")));
    if is_clean {
        return Ok(());
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in inner.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    if kept.is_empty() {
        return Err("/".to_owned());
    }
    Err(format!("/{}{slash}", kept.join("/")))
}

/// Parses the environment variables of a path. They are sorted by name; for a repeated name the
/// last value counts.
///
/// `path` is the path in the request line, without the query and still percent-encoded. A last key
/// without a value is ignored.
pub fn environment(path: &str) -> Result<Vec<(String, String)>, PathError> {
    let decoded = decode(path)?;
    let inner = decoded.strip_suffix('/').unwrap_or(&decoded);
    let Some(rest) = inner.splitn(3, '/').nth(2) else {
        return Ok(Vec::new());
    };
    let mut environment = BTreeMap::new();
    if rest.starts_with(ENV_MARK) {
        let pairs = rest.split(ENV_MARK).filter_map(|item| item.split_once('='));
        for (key, value) in pairs.filter(|(key, _)| !key.is_empty()) {
            environment.insert(variable(key), value.to_owned());
        }
    } else {
        let mut segments = rest.split('/');
        while let (Some(key), Some(value)) = (segments.next(), segments.next()) {
            environment.insert(variable(key), value.replace("--slash--", "/"));
        }
    }
    let wrong = |reason| PathError { path: path.to_owned(), reason };
    for (name, value) in &environment {
        // The API server accepts only such names and values. It would reject the pod later, with
        // reasons that do not mention the path.
        if !name.chars().all(|c| matches!(c, ' '..='~') && c != '=') {
            return Err(wrong(PathReason::Variable));
        }
        if value.contains(char::is_control) {
            return Err(wrong(PathReason::Value));
        }
    }
    Ok(environment.into_iter().collect())
}

/// Path with invalid environment variables.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("path {path:?}: {reason}")]
pub struct PathError {
    /// Requested path.
    pub path: String,
    /// Kind of error.
    pub reason: PathReason,
}

/// Kind of error in a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathReason {
    /// The path cannot be decoded to text.
    #[error("the percent-encoding is not valid UTF-8 text")]
    Encoding,
    /// A key is no valid variable name.
    #[error("a key is not the name of a variable: want printable ASCII without `=`")]
    Variable,
    /// A value contains control characters.
    #[error("a value has control characters")]
    Value,
}

/// Returns the variable name for a key of the path.
fn variable(key: &str) -> String {
    match key {
        "cluster" => "ISTIO_META_CLUSTER_ID".to_owned(),
        "net" => "ISTIO_META_NETWORK".to_owned(),
        other => other.to_uppercase(),
    }
}

fn decode(path: &str) -> Result<String, PathError> {
    let wrong = || PathError { path: path.to_owned(), reason: PathReason::Encoding };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(rest.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Start of each item in the older form, `/inject/:ENV:net=n1:ENV:cluster=c1`.
const ENV_MARK: &str = ":ENV:";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(path: &str) -> String {
        let pairs = environment(path).unwrap();
        pairs.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn environment_is_parsed_from_the_path() {
        let table = [
            ("/inject", ""),
            ("/inject/", ""),
            ("/inject/cluster", ""),
            ("/inject/cluster/c1", "ISTIO_META_CLUSTER_ID=c1"),
            ("/inject/net/n1/", "ISTIO_META_NETWORK=n1"),
            ("/inject/net/n1/cluster/c1", "ISTIO_META_CLUSTER_ID=c1 ISTIO_META_NETWORK=n1"),
            ("/inject/cluster/c1/net", "ISTIO_META_CLUSTER_ID=c1"),
            ("/inject/custom_env/v", "CUSTOM_ENV=v"),
            ("/inject/A--slash--b/c", "A--SLASH--B=c"),
            ("/inject/url/a--slash--b--slash--c", "URL=a/b/c"),
            ("/inject/net/one/net/two", "ISTIO_META_NETWORK=two"),
            ("/inject/net/n%201", "ISTIO_META_NETWORK=n 1"),
            ("/inject/net/a%2Fcluster/c1", "ISTIO_META_CLUSTER_ID=c1 ISTIO_META_NETWORK=a"),
            (
                "/inject/:ENV:net=n1:ENV:cluster=c1",
                "ISTIO_META_CLUSTER_ID=c1 ISTIO_META_NETWORK=n1",
            ),
            ("/inject/:ENV:net=a/b", "ISTIO_META_NETWORK=a/b"),
            ("/inject/:ENV:net=a--slash--b", "ISTIO_META_NETWORK=a--slash--b"),
            ("/inject/:ENV:empty=:ENV:=v:ENV:=:ENV:bare:ENV:k=a=b", "EMPTY= K=a=b"),
            ("/inject/%3AENV%3Anet=n1", "ISTIO_META_NETWORK=n1"),
        ];
        for (path, expected) in table {
            assert_eq!(read(path), expected, "{path}");
        }
    }

    #[test]
    fn invalid_percent_encoding_is_rejected() {
        for path in ["/inject/net/%", "/inject/net/%4", "/inject/net/%zz", "/inject/net/%ff"] {
            let wrong = PathError { path: path.to_owned(), reason: PathReason::Encoding };
            assert_eq!(environment(path), Err(wrong));
        }
    }

    #[test]
    fn invalid_variable_names_and_values_are_rejected() {
        let table = [
            ("/inject/a=b/c", PathReason::Variable),
            ("/inject/%F0%9F%98%80/x", PathReason::Variable),
            ("/inject/a%0Ab/x", PathReason::Variable),
            ("/inject/net/a%00b", PathReason::Value),
            ("/inject/:ENV:net=a%0Ab", PathReason::Value),
        ];
        for (path, reason) in table {
            assert_eq!(environment(path), Err(PathError { path: path.to_owned(), reason }));
        }
    }

    #[test]
    fn paths_are_cleaned_as_in_go() {
        for path in ["/", "/inject", "/inject/", "/inject/net/n1/", "/inject/..a", "/inject/%2F"] {
            assert_eq!(clean(path), Ok(()), "{path}");
        }
        let table = [
            ("", "/"),
            ("//", "/"),
            ("//inject", "/inject"),
            ("/inject//", "/inject/"),
            ("/inject/cluster//net/n1", "/inject/cluster/net/n1"),
            ("/inject/./net/../x", "/inject/x"),
            ("/../..", "/"),
        ];
        for (path, expected) in table {
            assert_eq!(clean(path), Err(expected.to_owned()), "{path}");
        }
    }

    proptest! {
        #[test]
        fn cleaning_a_path_is_idempotent(path in "[/.a:%=ENV-]{0,40}|\\PC{0,40}") {
            let _ = environment(&path);
            if let Err(cleaned) = clean(&path) {
                prop_assert_eq!(clean(&cleaned), Ok(()));
            }
        }

        #[test]
        fn environment_round_trips_through_a_path(
            pairs in proptest::collection::btree_map("[a-z]{1,8}_", "[a-z/]{0,8}[a-z]", 0..4),
        ) {
            let segments = pairs.iter().map(|(k, v)| format!("/{k}/{}", v.replace('/', "--slash--")));
            let path = format!("/inject{}", segments.collect::<String>());
            let expected: BTreeMap<_, _> =
                pairs.iter().map(|(k, v)| (k.to_uppercase(), v.clone())).collect();
            prop_assert_eq!(environment(&path), Ok(expected.into_iter().collect()));
        }
    }
}
