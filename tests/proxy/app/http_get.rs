//! `httpGet`, with the kubelet's rules for headers, hosts, certificates and redirects.

use anyhow::{Context, Result, bail};
use hyper::header::{CONNECTION, HOST, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Response, StatusCode};

use super::dial::Dialer;
use super::redirect::{Redirect, Target};
use super::tls::Unverified;
use crate::http::{Whole, ask};

/// A request to the application.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpGet {
    pub(super) scheme: Scheme,
    /// The host to connect to; `None` for the pod.
    pub(super) host: Option<String>,
    pub(super) port: u16,
    /// The path with its leading slash and its query.
    pub(super) path: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl HttpGet {
    /// Returns the status of the application's answer. Redirects within the same host are followed;
    /// a redirect to another host is itself the answer.
    pub(super) async fn ask(
        &self,
        dialer: &Dialer,
        tls: &Unverified,
        kubelet: &HeaderMap,
    ) -> Result<StatusCode> {
        let mut target = Target { scheme: self.scheme, port: self.port, path: self.path.clone() };
        for _ in 0..MOST_REQUESTS {
            let answer = self.ask_once(&target, dialer, tls, kubelet).await?;
            let host = self.authority(&target, dialer)?;
            match Redirect::of(&answer, &target, &host) {
                Redirect::Within(next) => target = next,
                Redirect::No | Redirect::Elsewhere => return Ok(answer.status()),
            }
        }
        bail!("stopped after {MOST_REQUESTS} redirects")
    }

    async fn ask_once(
        &self,
        target: &Target,
        dialer: &Dialer,
        tls: &Unverified,
        kubelet: &HeaderMap,
    ) -> Result<Response<hyper::body::Incoming>> {
        let stream = dialer.dial(self.host.as_deref(), target.port).await?;
        let mut request = Request::get(&target.path).body(Whole::default())?;
        *request.headers_mut() = self.headers(kubelet, self.authority(target, dialer)?);
        let answer = match target.scheme {
            Scheme::Http => ask(stream, request).await,
            Scheme::Https => ask(tls.handshake(stream).await?, request).await,
        };
        answer.with_context(|| format!("GET {} at port {}", target.path, target.port))
    }

    /// Returns the value of `Host`: the probe's own header, or else the destination.
    fn authority(&self, target: &Target, dialer: &Dialer) -> Result<HeaderValue> {
        let own = self.headers.iter().rfind(|(name, _)| *name == HOST);
        match own {
            Some((_, value)) => Ok(value.clone()),
            None => Ok(dialer.authority(self.host.as_deref(), target.port).try_into()?),
        }
    }

    /// Returns the kubelet's headers, overridden by those of the probe.
    fn headers(&self, kubelet: &HeaderMap, host: HeaderValue) -> HeaderMap {
        let mut headers = kubelet.clone();
        for name in OF_THE_CONNECTION {
            headers.remove(name);
        }
        for (name, _) in &self.headers {
            headers.remove(name);
        }
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        headers.insert(HOST, host);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        headers
    }
}

/// Headers about the connection to the agent, and about a body, which the request does not have.
const OF_THE_CONNECTION: [&str; 7] =
    ["connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// The kubelet's limit.
const MOST_REQUESTS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_headers_override_kubelet_headers() {
        let header = |name: &'static str, value: &'static str| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let get = HttpGet {
            scheme: Scheme::Http,
            host: None,
            port: 8080,
            path: "/".to_owned(),
            headers: vec![header("accept", "text/plain"), header("x-probe", "yes")],
        };
        let kubelet = HeaderMap::from_iter([
            header("accept", "*/*"),
            header("user-agent", "kube-probe/1.35"),
            header("te", "trailers"),
        ]);
        let sent = get.headers(&kubelet, HeaderValue::from_static("10.0.0.1:8080"));
        let expected = HeaderMap::from_iter([
            header("accept", "text/plain"),
            header("connection", "close"),
            header("host", "10.0.0.1:8080"),
            header("user-agent", "kube-probe/1.35"),
            header("x-probe", "yes"),
        ]);
        assert_eq!(sent, expected);
    }
}
