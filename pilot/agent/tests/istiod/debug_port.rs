//! The debug port, with istiod.

use anyhow::{Result, ensure};
use e2e::http;
use pilot_agent::relay::DebugServer;

use crate::fixture::{Fixture, NAMESPACE};
use crate::relayed::{block_on, istiod};

pub(crate) fn istiod_answers_or_denies(fixture: &Fixture) -> Result<()> {
    block_on(async {
        let node = format!("sidecar~192.0.2.7~web-1.{NAMESPACE}~{NAMESPACE}.svc.cluster.local");
        let server = DebugServer::new(istiod(fixture, "istio-ca")?, node);
        let listener = DebugServer::bind(0).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(server.serve(listener));
        let get = |path| tokio::task::spawn_blocking(move || http::get(address, path));
        let dump = get("/debug/config_dump").await??;
        ensure!(dump.status == 200 && dump.body.contains("proxyID"), "{dump:?}");
        // istiod answers questions about all proxies to its own namespace only.
        let denied = get("/debug/syncz").await??;
        ensure!(denied.status == 403 && denied.body.contains("not available"), "{denied:?}");
        task.abort();
        Ok(())
    })
}
