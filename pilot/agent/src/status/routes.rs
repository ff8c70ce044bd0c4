//! Routes of the status port.

use std::net::IpAddr;

use hyper::Method;

use crate::passthrough::is_passthrough;

/// Handler of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Route {
    /// Readiness of the proxy.
    Ready,
    /// Merged metrics.
    Metrics,
    /// A probe or handler of the application.
    App,
    /// Termination without draining.
    Quit,
    /// Draining.
    Drain,
    /// Name table of the DNS proxy.
    Names,
}

/// Rejected request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rejection {
    /// 404.
    UnknownPath,
    /// 405, with the value of `Allow`.
    Method(&'static str),
    /// 403.
    Remote,
}

/// Clients that may use a route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Access {
    All,
    Loopback,
    /// Loopback with `METRICS_LOCALHOST_ACCESS_ONLY`.
    Metrics,
}

/// All routes: path, methods, clients.
const ROUTES: [(&str, Route, &str, Access); 8] = [
    ("/healthz/ready", Route::Ready, READ, Access::All),
    ("/stats/prometheus", Route::Metrics, READ, Access::Metrics),
    ("/metrics", Route::Metrics, READ, Access::Metrics),
    ("/app-health/*", Route::App, "GET", Access::All),
    ("/app-lifecycle/*", Route::App, "GET", Access::All),
    ("/quitquitquit", Route::Quit, "POST", Access::Loopback),
    ("/drain", Route::Drain, "POST", Access::Loopback),
    ("/debug/ndsz", Route::Names, READ, Access::Loopback),
];

/// Returns the handler of a request.
pub(super) fn route(
    method: &Method,
    path: &str,
    peer: IpAddr,
    metrics_on_loopback_only: bool,
) -> Result<Route, Rejection> {
    let matches = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == pattern,
    };
    let found = ROUTES.iter().find(|(pattern, ..)| matches(pattern));
    let (_, route, methods, access) = *found.ok_or(Rejection::UnknownPath)?;
    if !methods.split(", ").any(|allowed| method == allowed) {
        return Err(Rejection::Method(methods));
    }
    let restricted = match access {
        Access::All => false,
        Access::Loopback => true,
        Access::Metrics => metrics_on_loopback_only,
    };
    if restricted && !is_own_loopback(peer) { Err(Rejection::Remote) } else { Ok(route) }
}

/// True for a client in this pod. A connection that the proxy passes on comes from 127.0.0.6 or
/// `::6`.
pub(super) fn is_own_loopback(peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    peer.is_loopback() && !is_passthrough(peer)
}

const READ: &str = "GET, HEAD";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &Method, path: &str, peer: &str) -> Result<Route, Rejection> {
        route(method, path, peer.parse().unwrap(), false)
    }

    #[test]
    fn each_path_has_its_route() {
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, expected) in [
            (&get, "/healthz/ready", Route::Ready),
            (&Method::HEAD, "/healthz/ready", Route::Ready),
            (&get, "/stats/prometheus", Route::Metrics),
            (&get, "/metrics", Route::Metrics),
            (&get, "/app-health/web/livez", Route::App),
            (&get, "/app-lifecycle/web/prestopz", Route::App),
            (&post, "/quitquitquit", Route::Quit),
            (&post, "/drain", Route::Drain),
            (&get, "/debug/ndsz", Route::Names),
        ] {
            assert_eq!(of(method, path, "127.0.0.1"), Ok(expected), "{method} {path}");
        }
    }

    #[test]
    fn other_methods_and_paths_are_rejected() {
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, expected) in [
            (&get, "/", Rejection::UnknownPath),
            (&get, "/healthz", Rejection::UnknownPath),
            (&get, "/healthz/ready/", Rejection::UnknownPath),
            (&get, "/app-healthy/web", Rejection::UnknownPath),
            (&post, "/healthz/ready", Rejection::Method("GET, HEAD")),
            (&post, "/app-health/web/livez", Rejection::Method("GET")),
            // Before the client is checked.
            (&get, "/drain", Rejection::Method("POST")),
            (&Method::PUT, "/quitquitquit", Rejection::Method("POST")),
        ] {
            assert_eq!(of(method, path, "10.0.0.1"), Err(expected), "{method} {path}");
        }
    }

    #[test]
    fn proxied_and_remote_clients_are_not_loopback() {
        for (peer, own) in [
            ("127.0.0.1", true),
            ("127.0.0.9", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("127.0.0.6", false),
            ("::ffff:127.0.0.6", false),
            ("::6", false),
            ("10.0.0.1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            let paths = [
                (Method::POST, "/drain"),
                (Method::POST, "/quitquitquit"),
                (Method::GET, "/debug/ndsz"),
            ];
            for (method, path) in paths {
                let expected = if own { None } else { Some(Rejection::Remote) };
                assert_eq!(of(&method, path, peer).err(), expected, "{peer} {path}");
            }
            let metrics = route(&Method::GET, "/metrics", peer.parse().unwrap(), true);
            assert_eq!(metrics.is_ok(), own, "{peer}");
        }
    }
}
