//! One examination of all pods of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use serde_json::Value;

use super::Scope;
use super::state::ReportState;
use crate::cluster::error::ClusterError;
use crate::cluster::{hooks, namespaces, pods, proxy_configs};
use crate::report::inspection::{Injector, Injectors};
use crate::report::sidecar_state::SidecarState;
use crate::report::tally::Tally;
use crate::settings::Settings;

/// Counts the pods that the webhook configurations of `scope` select.
pub(super) async fn round(
    client: &Client,
    scope: &Scope,
    settings: Arc<Settings>,
) -> Result<Tally, RoundError> {
    let failed = |what| move |source| RoundError { what, source };
    let (mut configurations, wrong) = hooks::named(client.clone(), &scope.configurations)
        .await
        .map_err(failed("get mutatingwebhookconfigurations"))?;
    for error in wrong {
        tracing::debug!(%error, "omitted from the report");
    }
    // They belong to this injector, whatever their labels say.
    for configuration in &mut configurations {
        configuration.revision.clone_from(&scope.revision);
    }
    // Without the permission to list them, injection ignores them as well, and the cluster watch
    // has logged it.
    let proxy_configs = proxy_configs::usable(client.clone(), &scope.revision).await;
    let proxy_configs = proxy_configs.unwrap_or_default();
    let known = BTreeMap::from([(scope.revision.clone(), Injector { settings, proxy_configs })]);
    let injectors = Injectors { configurations: &configurations, known: &known };
    let namespaces = namespaces::labels(client.clone()).await.map_err(failed("list namespaces"))?;
    let mut tally = Tally::default();
    let count = |pod: Value| {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        // A namespace created since then is for the next round.
        if let Some(labels) = namespaces.get(namespace) {
            let sidecar_state = SidecarState::new(&injectors, labels, &pod);
            tally.add(&pod, sidecar_state);
        }
    };
    pods::each(client.clone(), pods::Selection::default(), PAGE, count)
        .await
        .map_err(failed("list pods"))?;
    Ok(tally)
}

/// Error that prevented the completion of a round.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct RoundError {
    /// Verb and resource of the failed request.
    what: &'static str,
    source: ClusterError,
}

impl RoundError {
    pub(super) fn state(&self) -> &'static str {
        if self.is_forbidden() { ReportState::FORBIDDEN } else { ReportState::FAILING }
    }

    /// Returns the hint for the user.
    pub(super) fn hint(&self) -> &'static str {
        if self.is_forbidden() {
            "grant the service account this verb in the whole cluster, or remove --report-interval"
        } else {
            "retrying at the next interval"
        }
    }

    fn is_forbidden(&self) -> bool {
        self.source.is_forbidden()
    }
}

/// Largest number of pods in memory. A pod may be as large as etcd allows, and takes several times
/// as much when it is parsed.
const PAGE: u32 = 20;
