//! HTTP requests to a port of a pod, through the API server's port forwarding, or to an address. The
//! port may be one of the pod's loopback address.

use std::net::SocketAddr;

use anyhow::{Context as _, anyhow, ensure};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Asks for a path, and returns the body of an answer with status 200.
pub(super) async fn get(
    client: Client,
    namespace: &str,
    pod: &str,
    port: u16,
    path: &str,
) -> anyhow::Result<Vec<u8>> {
    let asked = || format!("pod {namespace}/{pod}: port {port}: GET {path}");
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    let mut forwarder = pods.portforward(pod, &[port]).await.with_context(asked)?;
    let stream = forwarder.take_stream(port).ok_or_else(|| anyhow!("no stream"));
    let stream = stream.with_context(asked)?;
    let failure = forwarder.take_error(port);
    let exchanged = exchange(stream, path).await;
    match (exchanged, failure) {
        (Ok(body), _) => Ok(body),
        // The kubelet's reason says more than that of the broken connection.
        (Err(error), Some(failure)) => {
            drop(forwarder);
            Err(failure.await.map_or(error, |reason| anyhow!(reason))).with_context(asked)
        }
        (Err(error), None) => Err(error).with_context(asked),
    }
}

/// Asks for a path of an address without TLS, as [`get`] does.
pub(super) async fn get_at(address: SocketAddr, path: &str) -> anyhow::Result<Vec<u8>> {
    let asked = || format!("{address}: GET {path}");
    let stream = TcpStream::connect(address).await.with_context(asked)?;
    exchange(stream, path).await.with_context(asked)
}

/// Sends a request on a connection of its own.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    path: &str,
) -> anyhow::Result<Vec<u8>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, "localhost");
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
    let body = body.map_err(|error| anyhow!(error))?.to_bytes();
    drop(sender);
    // What the connection still has to say is of no interest after the answer.
    connection.abort();
    ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body).trim_end());
    Ok(body.to_vec())
}

/// Limit of an answer: a dump of 10,000 services has about 200 MB.
const MOST_BYTES: usize = 1 << 30;
