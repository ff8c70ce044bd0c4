//! Redirects that the kubelet follows.

use hyper::header::{HeaderValue, LOCATION};
use hyper::{Response, Uri};

use super::http_get::Scheme;

/// Scheme and path of a request to a host.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) scheme: Scheme,
    pub(super) port: u16,
    pub(super) path: String,
}

/// Classification of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    No,
    /// A redirect within the same host, which the kubelet follows.
    Within(Target),
    /// A redirect to another host, which the kubelet treats as success.
    Elsewhere,
}

impl Redirect {
    /// Classifies an answer of `host` to a request for `target`.
    pub(super) fn of<T>(answer: &Response<T>, target: &Target, host: &HeaderValue) -> Self {
        if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Self::No;
        }
        let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let Some(location) = location.filter(|location| !location.is_empty()) else {
            return Self::No;
        };
        let Ok(uri) = resolve(location, &target.path).parse::<Uri>() else {
            return Self::Elsewhere;
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let asked = host.to_str().ok().and_then(|host| host.parse::<Uri>().ok());
        match (uri.scheme_str(), uri.host()) {
            (None, _) => Self::Within(Target { path, ..*target }),
            (Some(scheme), own) if own == asked.as_ref().and_then(Uri::host) => {
                let (scheme, port) = match scheme {
                    "https" => (Scheme::Https, 443),
                    _ => (Scheme::Http, 80),
                };
                Self::Within(Target { scheme, port: uri.port_u16().unwrap_or(port), path })
            }
            _ => Self::Elsewhere,
        }
    }
}

/// Returns an absolute reference for one that is relative to the folder of the request.
fn resolve(location: &str, path: &str) -> String {
    if location.starts_with('/') || location.contains("://") {
        return location.to_owned();
    }
    let path = path.split('?').next().unwrap_or(path);
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/{location}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(location: &'static str) -> Redirect {
        let answer = Response::builder().status(302).header(LOCATION, location).body(()).unwrap();
        let target = Target { scheme: Scheme::Http, port: 8080, path: "/a/b?c=/d".to_owned() };
        Redirect::of(&answer, &target, &HeaderValue::from_static("web.example:8080"))
    }

    #[test]
    fn redirect_to_the_same_host_is_followed() {
        let to = |scheme, port, path: &str| {
            Redirect::Within(Target { scheme, port, path: path.to_owned() })
        };
        assert_eq!(follow("/login?x"), to(Scheme::Http, 8080, "/login?x"));
        assert_eq!(follow("login"), to(Scheme::Http, 8080, "/a/login"));
        assert_eq!(follow("https://web.example/up"), to(Scheme::Https, 443, "/up"));
        assert_eq!(follow("http://web.example:81"), to(Scheme::Http, 81, "/"));
    }

    #[test]
    fn redirect_to_another_host_is_not_followed() {
        assert_eq!(follow("http://other.example/up"), Redirect::Elsewhere);
    }

    #[test]
    fn redirect_without_location_is_final() {
        assert_eq!(follow(""), Redirect::No);
    }
}
