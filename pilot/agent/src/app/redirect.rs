//! Redirects that the kubelet follows.

use hyper::header::LOCATION;
use hyper::http::uri::PathAndQuery;
use hyper::{Response, Uri};

use super::http_get::Scheme;

/// Scheme, port and path of a request to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) scheme: Scheme,
    pub(super) port: u16,
    pub(super) path: PathAndQuery,
    /// The request has the `Host` header of the probe. A redirect that names a host replaces it.
    pub(super) keeps_host_header: bool,
}

/// Classification of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    No,
    /// A redirect within the same host, which the kubelet follows.
    Within(Target),
    /// A redirect to another host, which the kubelet treats as success.
    Elsewhere,
    /// A redirect to text that is no URL, which the kubelet treats as failure.
    Invalid,
}

impl Redirect {
    /// Classifies an answer of `host` to a request for `target`. As for the kubelet, the host is
    /// the one that was connected to, whatever the `Host` header.
    pub(super) fn classify<T>(answer: &Response<T>, target: &Target, host: &str) -> Self {
        if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Self::No;
        }
        let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let Some(location) = location.filter(|location| !location.is_empty()) else {
            return Self::No;
        };
        let location = location.split('#').next().unwrap_or_default();
        let scheme = match target.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        let Some(location) = location.strip_prefix("//") else {
            return Self::resolve(location, target, host);
        };
        Self::resolve(&format!("{scheme}://{location}"), target, host)
    }

    fn resolve(location: &str, target: &Target, host: &str) -> Self {
        if !location.contains("://") {
            let path = resolve_path(location, target.path.path());
            return path
                .parse()
                .map_or(Self::Elsewhere, |path| Self::Within(Target { path, ..target.clone() }));
        }
        let Ok(uri) = location.parse::<Uri>() else { return Self::Invalid };
        let own = uri.host().map(|host| host.trim_start_matches('[').trim_end_matches(']'));
        if own != Some(host) {
            return Self::Elsewhere;
        }
        let (scheme, port) = match uri.scheme_str() {
            Some("http") => (Scheme::Http, 80),
            Some("https") => (Scheme::Https, 443),
            _ => return Self::Elsewhere,
        };
        let path = uri.path_and_query().cloned();
        Self::Within(Target {
            scheme,
            port: uri.port_u16().unwrap_or(port),
            path: path.unwrap_or_else(|| PathAndQuery::from_static("/")),
            keeps_host_header: false,
        })
    }
}

/// Returns the path of a redirect to the same port of the same host, over plain HTTP.
pub fn redirect_within<T>(
    answer: &Response<T>,
    host: &str,
    port: u16,
    path: &PathAndQuery,
) -> Option<PathAndQuery> {
    let target = Target { scheme: Scheme::Http, port, path: path.clone(), keeps_host_header: true };
    match Redirect::classify(answer, &target, host) {
        Redirect::Within(next) if next.scheme == Scheme::Http && next.port == port => {
            Some(next.path)
        }
        _ => None,
    }
}

/// Resolves a relative reference against the path of the request (RFC 3986, section 5.2).
fn resolve_path(location: &str, base: &str) -> String {
    let (path, query) = match location.find('?') {
        Some(at) => location.split_at(at),
        None => (location, ""),
    };
    if path.is_empty() {
        return format!("{base}{query}");
    }
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    let joined = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    let mut kept: Vec<&str> = Vec::new();
    for segment in joined.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    // A dot segment at the end names a folder.
    if joined.ends_with("/.") || joined.ends_with("/..") {
        kept.push("");
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(location: &'static str) -> Redirect {
        let answer = Response::builder().status(302).header(LOCATION, location).body(()).unwrap();
        let path = PathAndQuery::from_static("/a/b?c=/d");
        let target = Target { scheme: Scheme::Http, port: 8080, path, keeps_host_header: true };
        Redirect::classify(&answer, &target, "10.0.0.1")
    }

    #[test]
    fn redirect_to_the_same_host_is_followed() {
        let to = |scheme, port, path, keeps_host_header| {
            let path = PathAndQuery::from_static(path);
            Redirect::Within(Target { scheme, port, path, keeps_host_header })
        };
        let relative = |path| to(Scheme::Http, 8080, path, true);
        assert_eq!(follow("/login?x"), relative("/login?x"));
        assert_eq!(follow("login"), relative("/a/login"));
        assert_eq!(follow("../up/./x"), relative("/up/x"));
        assert_eq!(follow(".."), relative("/"));
        assert_eq!(follow("?e=f"), relative("/a/b?e=f"));
        assert_eq!(follow("/login#top"), relative("/login"));
        assert_eq!(follow("https://10.0.0.1/up"), to(Scheme::Https, 443, "/up", false));
        assert_eq!(follow("http://10.0.0.1:81"), to(Scheme::Http, 81, "/", false));
        assert_eq!(follow("//10.0.0.1:81/x"), to(Scheme::Http, 81, "/x", false));
    }

    #[test]
    fn redirect_to_another_host_is_not_followed() {
        for location in ["http://other.example/up", "//other.example/", "ftp://10.0.0.1/", "/a b"] {
            assert_eq!(follow(location), Redirect::Elsewhere, "{location}");
        }
    }

    #[test]
    fn redirect_to_an_invalid_url_is_a_failure() {
        for location in ["http://[", "http://[::bad", "//["] {
            assert_eq!(follow(location), Redirect::Invalid, "{location}");
        }
    }

    #[test]
    fn redirect_without_location_is_final() {
        assert_eq!(follow(""), Redirect::No);
    }
}
