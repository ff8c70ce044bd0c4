//! Requests that last longer than the start of a drain.

use anyhow::{Result, ensure};
use e2e::wait;

use crate::fixture::Pod;
use crate::load::{Clients, Protocol};

/// Sends slow requests over both versions of HTTP, and waits until Envoy has passed them on.
pub(crate) fn start(pod: &Pod) -> Result<Clients> {
    let protocols = [Protocol::Http1, Protocol::Http2];
    let clients = Clients::start(&pod.namespace, 8080, &protocols, "/slow")?;
    wait::until("both requests are in flight", || {
        let stats = pod.get(15000, "/clusters")?.body;
        ensure!(stats.contains("127.0.0.1:9090::rq_active::2"), "{stats}");
        Ok::<_, anyhow::Error>(())
    })?;
    Ok(clients)
}

/// Stops the clients, and fails unless all their requests were answered.
pub(crate) fn are_answered(clients: Clients) -> Result<()> {
    for (protocol, report) in clients.finish()? {
        ensure!(report.lost.is_empty() && report.answered > 0, "{protocol:?}: {report:?}");
    }
    Ok(())
}
