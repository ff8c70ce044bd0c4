//! Redirects that the kubelet follows.

use hyper::Response;
use hyper::header::{HeaderValue, LOCATION};
use hyper::http::uri::PathAndQuery;

use super::http_get::Scheme;
use super::location::Reference;

/// Scheme, port and path of a request to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) scheme: Scheme,
    pub(super) port: u16,
    pub(super) path: PathAndQuery,
    /// The request has the `Host` header of the probe. A redirect with a scheme replaces it.
    pub(super) keeps_host_header: bool,
    /// `Authorization` header of the redirect's user and password.
    pub(super) authorization: Option<HeaderValue>,
}

impl Target {
    /// Returns the target of a probe.
    pub(super) fn new(scheme: Scheme, port: u16, path: PathAndQuery) -> Self {
        Self { scheme, port, path, keeps_host_header: true, authorization: None }
    }
}

/// Classification of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    No,
    /// A redirect within the same host, which the kubelet follows.
    Within(Target),
    /// A redirect to another host, which the kubelet treats as success.
    Elsewhere,
    /// A redirect to text that is no URL of HTTP, which the kubelet treats as failure.
    Invalid,
}

impl Redirect {
    /// Classifies an answer of `host` to a request for `target`. As for the kubelet, the host is
    /// the one that was connected to, whatever the `Host` header.
    pub(super) fn classify<T>(answer: &Response<T>, target: &Target, host: &str) -> Self {
        if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Self::No;
        }
        let location = answer.headers().get(LOCATION).filter(|location| !location.is_empty());
        let Some(location) = location else { return Self::No };
        let reference = Reference::parse(location.as_bytes());
        reference.map_or(Self::Invalid, |reference| Self::resolve(&reference, target, host))
    }

    fn resolve(reference: &Reference, target: &Target, host: &str) -> Self {
        let Reference { scheme, authority, path, query } = reference;
        let (to, path) = match authority {
            Some(authority) if authority.host == host => {
                let scheme = match scheme.as_deref() {
                    None => target.scheme,
                    Some("http") => Scheme::Http,
                    Some("https") => Scheme::Https,
                    Some(_) => return Self::Invalid,
                };
                let port = authority.port.unwrap_or(match scheme {
                    Scheme::Http => 80,
                    Scheme::Https => 443,
                });
                let authorization = authority.authorization.clone();
                (Target { scheme, port, authorization, ..target.clone() }, without_dots(path))
            }
            // A URL without a host, as `mailto:x`, has another one than the probe.
            _ if authority.is_some() || scheme.is_some() => return Self::Elsewhere,
            _ if path.is_empty() && query.is_empty() => return Self::Within(target.clone()),
            _ => (target.clone(), resolve_path(path, target.path.path())),
        };
        let keeps_host_header = target.keeps_host_header && scheme.is_none();
        PathAndQuery::try_from(format!("{path}{query}"))
            .map_or(Self::Invalid, |path| Self::Within(Target { path, keeps_host_header, ..to }))
    }
}

/// Returns the path of a redirect to the same port of the same host, with the same scheme.
pub fn redirect_within<T>(
    answer: &Response<T>,
    host: &str,
    (scheme, port): (Scheme, u16),
    path: &PathAndQuery,
) -> Option<PathAndQuery> {
    let target = Target::new(scheme, port, path.clone());
    match Redirect::classify(answer, &target, host) {
        Redirect::Within(next) if next.scheme == scheme && next.port == port => Some(next.path),
        _ => None,
    }
}

/// Resolves a relative path against that of the request (RFC 3986, section 5.2).
fn resolve_path(path: &str, base: &str) -> String {
    let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
    match path {
        "" => without_dots(base),
        _ if path.starts_with('/') => without_dots(path),
        _ => without_dots(&format!("{folder}/{path}")),
    }
}

/// Resolves the dot segments of an absolute path.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    // A dot segment at the end names a folder.
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(location: &str) -> Redirect {
        follow_bytes(location.as_bytes())
    }

    fn follow_bytes(location: &[u8]) -> Redirect {
        let answer = Response::builder().status(302).header(LOCATION, location).body(()).unwrap();
        let path = PathAndQuery::from_static("/a/b?c=/d");
        let target = Target::new(Scheme::Http, 8080, path);
        Redirect::classify(&answer, &target, "10.0.0.1")
    }

    #[test]
    fn redirect_to_the_same_host_is_followed() {
        let to = |scheme, port, path: &str, keeps_host_header| {
            let path = path.parse().unwrap();
            let target = Target::new(scheme, port, path);
            Redirect::Within(Target { keeps_host_header, ..target })
        };
        let relative = |path| to(Scheme::Http, 8080, path, true);
        for (location, path) in [
            ("/login?x", "/login?x"),
            ("login", "/a/login"),
            ("../up/./x", "/up/x"),
            ("..", "/"),
            ("?e=f", "/a/b?e=f"),
            ("/login#top", "/login"),
            ("#top", "/a/b?c=/d"),
            ("///x//y", "///x//y"),
            ("/bad?next=http://a/x", "/bad?next=http://a/x"),
            ("/bad://x", "/bad://x"),
            ("bad?u=https://b", "/a/bad?u=https://b"),
            ("/a b?c d", "/a%20b?c%20d"),
            ("/ü", "/%C3%BC"),
        ] {
            assert_eq!(follow(location), relative(path), "{location}");
        }
        assert_eq!(follow_bytes(b"/\xff"), relative("/%FF"));
        assert_eq!(follow("https://10.0.0.1/up"), to(Scheme::Https, 443, "/up", false));
        assert_eq!(follow("HTTP://10.0.0.1:81"), to(Scheme::Http, 81, "/", false));
        assert_eq!(follow("http://10.0.0.1?x/../y"), to(Scheme::Http, 80, "/?x/../y", false));
        assert_eq!(follow("//10.0.0.1:81/x/../y"), to(Scheme::Http, 81, "/y", true));
    }

    #[test]
    fn relative_redirect_keeps_the_user_of_its_base() {
        let Redirect::Within(named) = follow("http://a:b@10.0.0.1:81/x") else { panic!() };
        assert_eq!(named.authorization.as_ref().unwrap(), "Basic YTpi");
        let answer = Response::builder().status(302).header(LOCATION, "y").body(()).unwrap();
        let next = Redirect::classify(&answer, &named, "10.0.0.1");
        let path = PathAndQuery::from_static("/y");
        assert_eq!(next, Redirect::Within(Target { path, ..named }));
    }

    #[test]
    fn redirect_to_another_host_is_not_followed() {
        for location in [
            "http://other.example/up",
            "//other.example/",
            "ftp://other.example/",
            "http://10.0.0.1@other.example/",
            "http:/up",
            "mailto:x",
            "bad:path",
        ] {
            assert_eq!(follow(location), Redirect::Elsewhere, "{location}");
        }
    }

    #[test]
    fn redirect_to_an_invalid_url_is_a_failure() {
        for location in [
            "http://[",
            "http://[::bad",
            "//[",
            "http://10.0.0.1:65536/",
            "ftp://10.0.0.1/",
            "/100%",
            "/a\tb",
        ] {
            assert_eq!(follow(location), Redirect::Invalid, "{location}");
        }
    }

    #[test]
    fn redirect_without_location_is_final() {
        assert_eq!(follow(""), Redirect::No);
    }
}
