//! Connection without a socket, for the fuzz target of HTTP. It stands here because the module that
//! serves connections is private.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::Builder;

use super::admission::handler::{self, Webhook};
use super::admission::verdict::Admission;
use super::cluster_state::ClusterWatch;
use super::reload::Configuration;
use super::server::body_memory::BodyBudget;
use super::server::connection::{self, Terms};
use super::server::connection_slots::Slots;
use super::server::limits::Limits;
use super::server::run_queue::RunQueue;
use super::server::shutdown::ShutdownPhase;
use super::server::turns::Turns;
use super::telemetry::metrics::Metrics;

/// Returns everything that a webhook with this configuration sends in response to `bytes`, after
/// which the client closes its side.
pub fn answers(configuration: Arc<Configuration>, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let webhook = Webhook {
        configuration,
        cluster_watch: ClusterWatch::default(),
        admission: Admission::new(crate::inject::inject),
        metrics: Arc::new(Metrics::new()),
        turns: Turns::new(1),
        body_budget: BodyBudget::new(1 << 20)?,
        body_limit: 1 << 20,
        time_limit: Duration::from_secs(10),
    };
    let router = handler::redirect_unclean(handler::router(webhook));
    Builder::new_current_thread().enable_time().build()?.block_on(async {
        let (mut client, server) = duplex(4 << 20);
        client.write_all(bytes).await?;
        client.shutdown().await?;
        let (_stage, phases) = ShutdownPhase::channel();
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let terms = Terms {
            router,
            limits: Limits::default(),
            peer,
            slot: Arc::new(Slots::new(1).take(peer.ip().into(), || {}).await),
            queue: RunQueue::new(1),
            phases,
            is_last: || false,
        };
        // Only the responses matter, not the result of the connection.
        let _ = connection::serve(server, terms).await;
        let mut answers = Vec::new();
        client.read_to_end(&mut answers).await?;
        Ok(answers)
    })
}
