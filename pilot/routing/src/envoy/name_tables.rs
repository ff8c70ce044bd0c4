//! Names for the agent's DNS proxy (NDS).

use std::collections::BTreeSet;
use std::sync::Arc;

use pilot_registry::hostname::Hostname;
use pilot_registry::names::{NameEntry, NameTable};
use pilot_registry::service::RegistryKind;
use pilot_xds::name_table::{NameInfo, NameTable as NameTableMessage};
use pilot_xds::session::Reference;
use pilot_xds::type_urls::NAME_TABLE;

use super::Generator;
use super::context::{Context, Origin};

/// Generator of single entries, each named by its host: for delta xDS, in which a changed host is
/// sent alone.
#[derive(Clone, Copy, Debug)]
pub struct NameEntries;

/// Generator of the whole table as one resource: for state of the world, in which resources have
/// no names.
#[derive(Clone, Copy, Debug)]
pub struct NameTables;

impl Generator for NameEntries {
    type Inputs = NameEntry;
    type Message = NameTableMessage;
    const TYPE_URL: &'static str = NAME_TABLE;

    fn names(context: &Context<'_>) -> BTreeSet<String> {
        context.names().keys().map(ToString::to_string).collect()
    }

    fn inputs(context: &Context<'_>, name: &str) -> Option<NameEntry> {
        context.names().get(name).cloned()
    }

    fn build(inputs: &NameEntry) -> NameTableMessage {
        NameTableMessage { name_info: Some(info(inputs)), ..NameTableMessage::default() }
    }

    fn references(_: &NameEntry) -> Vec<Reference> {
        Vec::new()
    }

    fn why(context: &Context<'_>, name: &str) -> BTreeSet<Origin> {
        let Some(entry) = context.names().get(name) else { return BTreeSet::new() };
        // The name of a pod is that of its service with one more label.
        let service = name.split_once('.').map_or(name, |(_, rest)| rest);
        let candidates = [name, service].into_iter().filter_map(|name| Hostname::parse(name).ok());
        let service = candidates.filter_map(|host| context.scope.service(&host));
        let mut origins: BTreeSet<_> =
            service.take(1).map(|service| Origin::service(service)).collect();
        let owners = entry.addresses.iter().filter_map(|ip| context.snapshot.workload_at(*ip));
        origins.extend(owners.map(|it| Origin::new("Pod", &it.namespace, &it.name)));
        origins
    }
}

impl Generator for NameTables {
    type Inputs = Arc<NameTable>;
    type Message = NameTableMessage;
    const TYPE_URL: &'static str = NAME_TABLE;

    fn names(_: &Context<'_>) -> BTreeSet<String> {
        [String::new()].into()
    }

    fn inputs(context: &Context<'_>, name: &str) -> Option<Arc<NameTable>> {
        name.is_empty().then(|| Arc::clone(context.names()))
    }

    fn build(inputs: &Arc<NameTable>) -> NameTableMessage {
        let table = inputs.iter().map(|(name, entry)| (name.to_string(), info(entry)));
        NameTableMessage { table: table.collect(), ..NameTableMessage::default() }
    }

    fn references(_: &Arc<NameTable>) -> Vec<Reference> {
        Vec::new()
    }

    fn why(context: &Context<'_>, _: &str) -> BTreeSet<Origin> {
        context.scope.services().map(|service| Origin::service(service)).collect()
    }
}

fn info(entry: &NameEntry) -> NameInfo {
    let registry = match entry.registry {
        RegistryKind::Kubernetes => "Kubernetes",
        RegistryKind::External => "External",
    };
    NameInfo {
        ips: entry.addresses.iter().map(ToString::to_string).collect(),
        registry: registry.to_owned(),
        shortname: entry.short_name.to_string(),
        namespace: entry.namespace.to_string(),
    }
}
