//! The webhook's URL path, which can carry environment for the proxy:
//! `/inject/cluster/c1/net/n1`.
//!
//! Remote clusters are told apart by it. The rules are Istio's, with what Go's HTTP server does to
//! a path before a handler sees it.

use std::collections::BTreeMap;

/// Whether a path is as Go's server would clean it: no empty, `.` or `..` segments; a trailing
/// slash is kept. Otherwise the clean path, to which the client is to be redirected.
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

/// Reads the environment that a path carries; sorted by name, each name once, the last value
/// given for it.
///
/// `path` is as it stands in the request line, without the query. A key without a value at the
/// end is left out.
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
        // What the API server takes; with any other the pod would be refused later, for reasons
        // that do not name the path.
        if !name.chars().all(|c| matches!(c, ' '..='~') && c != '=') {
            return Err(wrong(PathReason::Variable));
        }
        if value.contains(char::is_control) {
            return Err(wrong(PathReason::Value));
        }
    }
    Ok(environment.into_iter().collect())
}

/// A path that carries no environment which a container could have.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("path {path:?}: {reason}")]
pub struct PathError {
    /// The path as it was requested.
    pub path: String,
    /// What is wrong with it.
    pub reason: PathReason,
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathReason {
    /// It cannot be decoded to text.
    #[error("the percent-encoding is not valid UTF-8 text")]
    Encoding,
    /// A key cannot be the name of a variable.
    #[error("a key is not the name of a variable: want printable ASCII without `=`")]
    Variable,
    /// A value cannot be a variable's.
    #[error("a value has control characters")]
    Value,
}

/// The variable's name for a key of the path.
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

/// What starts each item of the older form, `/inject/:ENV:net=n1:ENV:cluster=c1`.
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
    fn reads_the_environment_of_a_path() {
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
    fn refuses_broken_encodings() {
        for path in ["/inject/net/%", "/inject/net/%4", "/inject/net/%zz", "/inject/net/%ff"] {
            let wrong = PathError { path: path.to_owned(), reason: PathReason::Encoding };
            assert_eq!(environment(path), Err(wrong));
        }
    }

    #[test]
    fn refuses_what_no_container_could_have() {
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
    fn cleans_as_go_does() {
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
        fn any_path_is_read_and_cleaned_once(path in "[/.a:%=ENV-]{0,40}|\\PC{0,40}") {
            let _ = environment(&path);
            if let Err(cleaned) = clean(&path) {
                prop_assert_eq!(clean(&cleaned), Ok(()));
            }
        }

        #[test]
        fn what_a_path_says_comes_back(
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
