//! Resources for outbound connections, equal for all proxies of a view.

use std::collections::BTreeSet;
use std::sync::Arc;

use pilot_registry::changes::Changes;
use pilot_registry::hostname::Hostname;
use pilot_registry::service::Resolution;
use pilot_registry::snapshot::Snapshot;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::context::Context;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::listeners::outbound::Conflict;
use pilot_routing::envoy::name_tables::{NameEntries, NameTables};
use pilot_routing::envoy::routes::Routes;
use pilot_routing::envoy::{Generator, names};
use pilot_routing::view::ProxyView;
use pilot_xds::session::Name;

use super::own::is_own;
use super::{EncodedResources, MeshState, Table};

/// Resources of a view by type. Clones share the content.
#[derive(Clone, Debug, Default)]
pub struct Outbound {
    pub(super) clusters: Table,
    pub(super) endpoints: Table,
    pub(super) listeners: Table,
    pub(super) routes: Table,
    pub(super) names: Table,
    conflicts: Arc<[Conflict]>,
}

impl Outbound {
    /// Generates all resources anew.
    pub fn rebuild(
        &mut self,
        state: &MeshState,
        proxy: &ProxyView,
        entries: &mut EncodedResources,
    ) {
        let context = state.context(proxy);
        rebuild::<Clusters>(&mut self.clusters, &context, entries);
        rebuild::<Endpoints>(&mut self.endpoints, &context, entries);
        self.rebuild_layout(proxy, &context, entries);
    }

    /// Generates the resources that changes of the registry may have changed.
    pub fn update(
        &mut self,
        state: &MeshState,
        proxy: &ProxyView,
        changes: &Changes,
        entries: &mut EncodedResources,
    ) {
        let context = state.context(proxy);
        for name in cluster_names(&state.snapshot, changes) {
            set::<Clusters>(&mut self.clusters, &context, &name, entries);
            set::<Endpoints>(&mut self.endpoints, &context, &name, entries);
        }
        let is_headless = |hostname: &Hostname| {
            let service = state.snapshot.service(hostname);
            service.is_none_or(|it| it.resolution == Resolution::OriginalDestination)
        };
        // Listeners and names of headless services have the addresses of their endpoints.
        if !changes.services.is_empty()
            || changes.endpoint_sets.iter().any(|(hostname, _)| is_headless(hostname))
        {
            self.rebuild_layout(proxy, &context, entries);
        }
    }

    /// Service ports whose address and port an older service or the proxy itself has.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// True if both are the same state: one of them is a clone of the other.
    pub fn is_same(&self, other: &Self) -> bool {
        let generations = |it: &Self| {
            [&it.clusters, &it.endpoints, &it.listeners, &it.routes, &it.names]
                .map(Table::generation)
        };
        generations(self) == generations(other)
    }

    fn rebuild_layout(
        &mut self,
        proxy: &ProxyView,
        context: &Context<'_>,
        entries: &mut EncodedResources,
    ) {
        self.conflicts = context.outbound().conflicts().into();
        rebuild::<Listeners>(&mut self.listeners, context, entries);
        rebuild::<Routes>(&mut self.routes, context, entries);
        if proxy.takes_names_by_host {
            rebuild::<NameEntries>(&mut self.names, context, entries);
        } else {
            rebuild::<NameTables>(&mut self.names, context, entries);
        }
    }
}

/// Names of clusters that changes may concern.
fn cluster_names(snapshot: &Snapshot, changes: &Changes) -> BTreeSet<String> {
    let sets = changes.endpoint_sets.iter();
    let mut found: BTreeSet<_> =
        sets.map(|(hostname, port)| names::outbound(*port, hostname)).collect();
    if changes.services.is_empty() {
        return found;
    }
    // The cluster of an alias depends on the service that it leads to.
    let is_alias = |hostname: &Hostname, resolution: &Resolution| {
        matches!(resolution, Resolution::Alias(_)) && !changes.services.contains(hostname)
    };
    let aliases = snapshot.services().filter(|it| is_alias(&it.hostname, &it.resolution));
    let changed = changes.services.iter().filter_map(|hostname| snapshot.service(hostname));
    for service in changed.chain(aliases) {
        let ports = service.ports.iter();
        found.extend(ports.map(|port| names::outbound(port.number, &service.hostname)));
    }
    found
}

fn rebuild<G: Generator>(table: &mut Table, context: &Context<'_>, entries: &mut EncodedResources) {
    let names = G::names(context);
    let names = names.iter().map(String::as_str).filter(|name| !is_own(name));
    let mut names: Vec<_> = names.collect();
    // Sessions go through resources in the order of their names: neighbours in memory are faster.
    names.sort_by_cached_key(|name| Name::from(*name));
    let generated = entries.get_all::<G>(&names, |name| G::inputs(context, name));
    table.replace(generated);
}

fn set<G: Generator>(
    table: &mut Table,
    context: &Context<'_>,
    name: &str,
    entries: &mut EncodedResources,
) {
    let inputs = G::inputs(context, name);
    table.set(&name.into(), inputs.map(|inputs| entries.get::<G>(name, &inputs)));
}
