//! `httpGet`, with the kubelet's rules for headers, hosts, certificates and redirects.

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Request, Response, Uri};

use super::dial::Dialer;
use super::redirect::{Redirect, Target};
use super::tls::UnverifiedTls;
use super::{AppAnswer, ProbeError};
use crate::http::{FullBody, read_at_most, send};

/// A request to the application.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpGet {
    pub(super) scheme: Scheme,
    /// Host to connect to; `None` for the pod.
    pub(super) host: Option<String>,
    pub(super) port: u16,
    pub(super) path: PathAndQuery,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Scheme of a request to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plaintext.
    Http,
    /// TLS, without verification.
    Https,
}

/// The kubelet's limit of a body.
pub(super) const BODY_LIMIT: usize = 10 * 1024;

impl HttpGet {
    /// Returns the application's answer. Redirects within the same host are followed; a redirect to
    /// another host is itself the answer.
    pub(super) async fn send(
        &self,
        dialer: &Dialer,
        tls: &UnverifiedTls,
        kubelet: &HeaderMap,
    ) -> Result<AppAnswer, ProbeError> {
        let host = dialer.host(self.host.as_deref());
        let mut target = Target::new(self.scheme, self.port, self.path.clone());
        for _ in 0..REQUEST_LIMIT {
            let response = self.send_once(&target, dialer, tls, kubelet).await?;
            match Redirect::classify(&response, &target, &host) {
                Redirect::Within(next) => target = next,
                Redirect::Invalid => return Err(ProbeError::Location),
                Redirect::No | Redirect::Elsewhere => {
                    let answer = answer(response).await;
                    return answer.map_err(|source| self.failed(&target, dialer, source));
                }
            }
        }
        Err(ProbeError::Redirects { limit: REQUEST_LIMIT })
    }

    async fn send_once(
        &self,
        target: &Target,
        dialer: &Dialer,
        tls: &UnverifiedTls,
        kubelet: &HeaderMap,
    ) -> Result<Response<Incoming>, ProbeError> {
        let stream = dialer.connect(self.host.as_deref(), target.port).await?;
        let mut request = Request::new(FullBody::default());
        *request.uri_mut() = Uri::from(target.path.clone());
        *request.headers_mut() = self.headers(target, dialer, kubelet);
        let response = match target.scheme {
            Scheme::Http => send(stream, request).await,
            Scheme::Https => send(tls.handshake(stream).await?, request).await,
        };
        response.map_err(|source| self.failed(target, dialer, source))
    }

    fn failed(&self, target: &Target, dialer: &Dialer, source: hyper::Error) -> ProbeError {
        let address = dialer.authority(self.host.as_deref(), target.port);
        ProbeError::Exchange { path: target.path.to_string(), address, source }
    }

    /// Returns the kubelet's headers, overridden by those of the probe.
    fn headers(&self, target: &Target, dialer: &Dialer, kubelet: &HeaderMap) -> HeaderMap {
        let mut headers = kubelet.clone();
        for name in CONNECTION_HEADERS {
            headers.remove(name);
        }
        headers.remove(HOST);
        for (name, _) in &self.headers {
            headers.remove(name);
        }
        let sent = |name: &HeaderName| *name != HOST && !WITHOUT_BODY.contains(&name.as_str());
        for (name, value) in self.headers.iter().filter(|(name, _)| sent(name)) {
            headers.append(name, value.clone());
        }
        let own = self.headers.iter().rfind(|(name, _)| *name == HOST && target.keeps_host_header);
        let host = match own {
            Some((_, value)) => Ok(value.clone()),
            None => dialer.authority(self.host.as_deref(), target.port).try_into(),
        };
        // The table rejects a host that is no header value.
        headers.extend(host.ok().map(|host: HeaderValue| (HOST, host)));
        if let Some(authorization) = &target.authorization {
            headers.entry(AUTHORIZATION).or_insert_with(|| authorization.clone());
        }
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        headers
    }
}

async fn answer(response: Response<Incoming>) -> Result<AppAnswer, hyper::Error> {
    let (mut head, body) = response.into_parts();
    let body = read_at_most(body, BODY_LIMIT).await?;
    let content_type = head.headers.remove(CONTENT_TYPE);
    Ok(AppAnswer { status: head.status, content_type, body: body.into() })
}

/// Headers about the connection to the agent, about a body, which the request does not have, and
/// about the coding of the answer's body.
const CONNECTION_HEADERS: [&str; 8] = [
    "accept-encoding",
    "connection",
    "content-length",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers about a body and a connection that the request does not have. As by Go's client, those of
/// the probe are not sent.
const WITHOUT_BODY: [&str; 4] = ["connection", "content-length", "trailer", "transfer-encoding"];

/// The kubelet's limit.
const REQUEST_LIMIT: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    }

    fn get(headers: Vec<(HeaderName, HeaderValue)>) -> HttpGet {
        let path = PathAndQuery::from_static("/");
        HttpGet { scheme: Scheme::Http, host: None, port: 8080, path, headers }
    }

    fn target(keeps_host_header: bool) -> Target {
        let target = Target::new(Scheme::Http, 8080, PathAndQuery::from_static("/"));
        Target { keeps_host_header, ..target }
    }

    #[test]
    fn authorization_of_the_probe_precedes_that_of_a_redirect() {
        let dialer = Dialer::new("10.0.0.1".parse().unwrap(), false);
        let authorization = Some(HeaderValue::from_static("Basic YTpi"));
        let redirected = Target { authorization, ..target(false) };
        let sent = |probe: HttpGet| probe.headers(&redirected, &dialer, &HeaderMap::new());
        assert_eq!(sent(get(Vec::new()))[AUTHORIZATION], "Basic YTpi");
        let own = sent(get(vec![header("authorization", "Bearer x")]));
        assert_eq!(own.get_all(AUTHORIZATION).iter().collect::<Vec<_>>(), ["Bearer x"]);
    }

    #[test]
    fn probe_headers_override_kubelet_headers() {
        let get = get(vec![header("accept", "text/plain"), header("x-probe", "yes")]);
        let kubelet = HeaderMap::from_iter([
            header("accept", "*/*"),
            header("host", "10.0.0.1:15020"),
            header("user-agent", "kube-probe/1.35"),
            header("te", "trailers"),
        ]);
        let dialer = Dialer::new("10.0.0.1".parse().unwrap(), false);
        let expected = HeaderMap::from_iter([
            header("accept", "text/plain"),
            header("connection", "close"),
            header("host", "10.0.0.1:8080"),
            header("user-agent", "kube-probe/1.35"),
            header("x-probe", "yes"),
        ]);
        assert_eq!(get.headers(&target(true), &dialer, &kubelet), expected);
    }

    #[test]
    fn probe_headers_about_a_body_are_not_sent() {
        let get = get(vec![
            header("content-length", "5"),
            header("transfer-encoding", "chunked"),
            header("connection", "keep-alive"),
            header("trailer", "x"),
            header("te", "gzip"),
        ]);
        let dialer = Dialer::new("10.0.0.1".parse().unwrap(), false);
        let expected = HeaderMap::from_iter([
            header("connection", "close"),
            header("host", "10.0.0.1:8080"),
            header("te", "gzip"),
        ]);
        assert_eq!(get.headers(&target(true), &dialer, &HeaderMap::new()), expected);
    }

    #[test]
    fn host_header_of_the_probe_is_sent_until_a_redirect_names_a_host() {
        let get = get(vec![header("host", "a.example"), header("host", "web.example")]);
        let dialer = Dialer::new("::1".parse().unwrap(), false);
        let host = |target| get.headers(&target, &dialer, &HeaderMap::new())[HOST].clone();
        assert_eq!(host(target(true)), "web.example");
        assert_eq!(host(target(false)), "[::1]:8080");
    }
}
