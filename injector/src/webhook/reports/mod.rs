//! Reports on the pods of the cluster: pods without a sidecar although both gates select them, and
//! pods whose sidecar differs from a fresh injection.
//!
//! The reports run on a thread of their own with a client of their own, and no other task waits for
//! them. Their errors are logged and counted, and do not affect injection. No pod is kept.

pub(super) mod events;
pub(super) mod metrics;
mod round;
pub(super) mod state;

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use kube::Client;
use kube_access::with_causes;
use tokio::time::sleep;

use self::events::Events;
use self::round::round;
use self::state::{ReportState, SharedReport};
use super::config::args::Args;
use super::config::options::{self, ClusterAccess, Options};
use super::reload::Configuration;
use super::telemetry::metrics::Metrics;
use crate::settings::Settings;

/// Configured reports.
#[derive(Debug)]
pub(super) struct Reports {
    every: Duration,
    access: ClusterAccess,
    scope: Scope,
    telling: SharedReport,
}

/// Scope of the reports.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Webhook configurations of this injector.
    pub(super) configurations: Vec<String>,
    /// Revision of this injector.
    pub(super) revision: String,
}

/// Reports that cannot be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReportsError {
    /// There is no cluster.
    #[error(
        "--report-interval: no cluster is configured; \
         hint: use it in a cluster or with --kubeconfig"
    )]
    NoCluster,
}

impl Reports {
    /// Returns the reports that the flags ask for, if any. Their metrics exist from the start.
    pub(super) fn new(
        args: &Args,
        options: &Options,
        metrics: &mut Metrics,
    ) -> Result<Option<Self>, ReportsError> {
        let Some(every) = args.reports.interval else { return Ok(None) };
        let (access, _) = options.cluster_watch.clone().ok_or(ReportsError::NoCluster)?;
        let scope = Scope {
            configurations: options::webhook_configurations(args),
            revision: options::process(args).revision_name().to_owned(),
        };
        let telling = SharedReport::default();
        metrics.collect(Box::new(self::metrics::ReportMetrics(telling.clone())));
        Ok(Some(Self { every, access, scope, telling }))
    }

    /// Starts the reports, which run until the process ends.
    pub(super) fn start(self, configuration: Arc<Configuration>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("reports".to_owned());
        thread.spawn(move || runtime.block_on(self.run(&configuration)))?;
        Ok(())
    }

    async fn run(self, configuration: &Configuration) {
        let Self { every, access, scope, telling } = self;
        let client = match super::connect(access).await {
            Ok(client) => client,
            Err(error) => {
                telling.failed(ReportState::FAILING);
                tracing::error!(%error, "reports are disabled");
                return;
            }
        };
        let mut events = Events::default();
        loop {
            // A report needs settings. The first ones arrive a moment after the start.
            let settings = configuration.first().await;
            let report = report(&client, &scope, settings, &telling, &mut events);
            guarded(report, &telling).await;
            sleep(every).await;
        }
    }
}

/// Makes one report.
async fn report(
    client: &Client,
    scope: &Scope,
    settings: Arc<Settings>,
    telling: &SharedReport,
    events: &mut Events,
) {
    match round(client, scope, settings).await {
        Ok(tally) => {
            if telling.completed(&tally, Timestamp::now()) {
                tracing::info!(pods = tally.pods, "reporting on pods");
            }
            events.tell(client, &tally, telling).await;
        }
        Err(failed) => {
            if telling.failed(failed.state()) {
                let error = with_causes(&failed);
                let hint = failed.hint();
                tracing::warn!(error, hint, "the report failed; injection continues");
            }
        }
    }
}

/// Catches a panic, so that the thread survives and makes the next reports. Records the panic,
/// because the last result would otherwise stay current for ever.
async fn guarded(report: impl Future<Output = ()>, telling: &SharedReport) {
    // A panic leaves at most an Event that the next round attempts again.
    if AssertUnwindSafe(report).catch_unwind().await.is_err()
        && telling.failed(ReportState::FAILING)
    {
        tracing::error!("a report panicked; injection continues");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tally::Tally;

    #[tokio::test]
    async fn panic_is_logged_and_the_next_report_is_made() {
        let telling = SharedReport::default();
        telling.completed(&Tally::default(), Timestamp::UNIX_EPOCH);
        guarded(async { panic!("a pod of a kind that nobody thought of") }, &telling).await;
        assert_eq!(telling.latest().state, ReportState::FAILING);
        let next = async { assert!(telling.completed(&Tally::default(), Timestamp::UNIX_EPOCH)) };
        guarded(next, &telling).await;
        assert_eq!(telling.latest().state, ReportState::CURRENT);
    }
}
