//! Probes of the application, sent in place of the kubelet's.

mod dial;
mod grpc;
mod http_get;
mod probes;
mod redirect;
mod tls;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use hyper::{HeaderMap, StatusCode};

pub(crate) use dial::is_passthrough;
pub(crate) use probes::AppProbes;

use dial::Dialer;
use probes::{Action, AppProbe};
use tls::Unverified;

/// Sends the application's probes in place of the kubelet.
#[derive(Debug)]
pub(crate) struct App {
    probes: AppProbes,
    dialer: Dialer,
    tls: Unverified,
}

impl App {
    /// Returns the application in the pod with this address.
    pub(crate) fn new(probes: AppProbes, pod: IpAddr) -> Result<Self> {
        Ok(Self { probes, dialer: Dialer::new(pod), tls: Unverified::new()? })
    }

    /// Sends the probe that `path` stands for, with the headers of the kubelet's own request.
    ///
    /// `None` for an unknown path. The error is the application's failure, or a failed connection.
    pub(crate) async fn ask(&self, path: &str, kubelet: &HeaderMap) -> Option<Result<StatusCode>> {
        let probe = self.probes.get(path)?;
        let asked = self.act(probe, kubelet);
        Some(match probe.timeout {
            Some(patience) => within(patience, asked).await,
            None => asked.await,
        })
    }

    async fn act(&self, probe: &AppProbe, kubelet: &HeaderMap) -> Result<StatusCode> {
        match &probe.action {
            Action::Http(get) => get.ask(&self.dialer, &self.tls, kubelet).await,
            Action::Tcp { host, port } => {
                self.dialer.dial(host.as_deref(), *port).await.map(|_| StatusCode::OK)
            }
            Action::Grpc { port, service } => {
                grpc::check(&self.dialer, *port, service).await.map(|()| StatusCode::OK)
            }
        }
    }
}

async fn within<T>(patience: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(patience, answer).await {
        Ok(answer) => answer,
        Err(_) => bail!("no answer in {} s", patience.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use super::*;

    /// Starts a server that gives these answers, one per connection. Returns for each request the
    /// client's address and the head.
    fn server(answers: &'static [&'static str]) -> (u16, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer_all = move || {
            let answer = |answer: &&str| {
                let (mut stream, client) = listener.accept().unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head = lines.map(Result::unwrap).take_while(|line| !line.is_empty());
                let head: Vec<_> = [client.ip().to_string()].into_iter().chain(head).collect();
                stream.write_all(answer.as_bytes()).unwrap();
                head.join("\n")
            };
            answers.iter().map(answer).collect()
        };
        (port, thread::spawn(answer_all))
    }

    async fn ask(action: &str) -> Result<StatusCode> {
        let probes = format!(r#"{{"/app-health/web/livez":{action}}}"#);
        let app = App::new(AppProbes::parse(&probes).unwrap(), "127.0.0.1".parse().unwrap());
        app.unwrap().ask("/app-health/web/livez", &HeaderMap::new()).await.unwrap()
    }

    #[tokio::test]
    async fn redirect_within_the_application_is_followed() {
        let (port, asked) = server(&[
            "HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\n\r\n",
        ]);
        let status = ask(&format!(r#"{{"httpGet":{{"path":"/first","port":{port}}}}}"#)).await;
        assert_eq!(status.unwrap(), 418);
        let asked = asked.join().unwrap();
        assert!(asked[0].starts_with("127.0.0.6\nGET /first HTTP/1.1\n"), "{asked:?}");
        assert!(asked[1].starts_with("127.0.0.6\nGET /next HTTP/1.1\n"), "{asked:?}");
        assert!(asked[1].contains(&format!("host: 127.0.0.1:{port}")), "{asked:?}");
    }

    #[tokio::test]
    async fn endless_redirects_fail() {
        const AGAIN: &str = "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n";
        let (port, _) = server(&[AGAIN; 10]);
        let error = ask(&format!(r#"{{"httpGet":{{"port":{port}}}}}"#)).await.unwrap_err();
        assert_eq!(error.to_string(), "stopped after 10 redirects");
    }

    #[tokio::test]
    async fn silent_application_fails_at_the_timeout() {
        // The kernel completes the connections, but no process accepts them.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = ask(&format!(r#"{{"grpc":{{"port":{port}}}}}"#)).await.unwrap_err();
        assert_eq!(error.to_string(), "no answer in 1 s");
    }

    #[tokio::test]
    async fn port_without_listener_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = ask(&format!(r#"{{"tcpSocket":{{"port":{port}}}}}"#)).await.unwrap_err();
        assert_eq!(error.to_string(), format!("connecting to 127.0.0.1:{port}"));
    }

    #[tokio::test]
    async fn server_without_http2_fails_the_health_check() {
        let (port, _) = server(&["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"]);
        let error = ask(&format!(r#"{{"grpc":{{"port":{port}}}}}"#)).await.unwrap_err();
        assert!(error.to_string().contains(&format!("at port {port}")), "{error:#}");
    }
}
