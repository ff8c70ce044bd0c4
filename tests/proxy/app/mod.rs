//! The application beside the proxy: what the kubelet wants to know of it, and how it is asked.

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

/// Asks the application in the kubelet's place.
#[derive(Debug)]
pub(crate) struct App {
    probes: AppProbes,
    dialer: Dialer,
    tls: Unverified,
}

impl App {
    /// The application in the pod with this address.
    pub(crate) fn new(probes: AppProbes, pod: IpAddr) -> Result<Self> {
        Ok(Self { probes, dialer: Dialer::new(pod), tls: Unverified::new()? })
    }

    /// Asks what `path` stands for, with the headers of the kubelet's own request.
    ///
    /// `None` when nothing is known of the path. An error is the application's failure, or that
    /// of the way to it.
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
