//! Pages of the connected proxies.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use pilot_xds::session::{NameView, Resources as _, TypeView, Version};
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, ROUTE};
use serde_json::{Map, Value, json};

use crate::connections::Connected;
use crate::publish::ProxyId;
use crate::source::Source;

/// The last stream of a proxy.
pub(super) fn find(source: &Source, name: &str) -> Option<Arc<Connected>> {
    find_with_id(source, name).map(|(_, connected)| connected)
}

fn find_with_id(source: &Source, name: &str) -> Option<(ProxyId, Arc<Connected>)> {
    source.connections.list().into_iter().rev().find(|(_, connected)| connected.name() == name)
}

/// Streams with their identities.
pub(super) fn connections(source: &Source) -> Value {
    let streams = source.connections.list().into_iter().map(|(id, connected)| {
        let caller = connected.caller.as_ref();
        json!({
            "stream": id.0,
            "proxy": connected.name(),
            "addresses": connected.proxy.addresses,
            "connectedAt": connected.since.to_string(),
            "identity": caller.map(|it| format!(
                "spiffe://{}/ns/{}/sa/{}", it.trust_domain, it.namespace, it.service_account
            )),
        })
    });
    streams.collect()
}

/// Versions sent to and accepted by each proxy, with the keys of Istio's page, and the policy by
/// which it takes no connection.
pub(super) async fn syncz(source: &Source) -> Value {
    let streams = source.connections.list();
    let closed = source.queue.inspect(|publisher| {
        let closed = publisher
            .proxies()
            .filter_map(|(id, _, published)| Some((id, published.own.closed_by()?.to_string())));
        closed.collect::<BTreeMap<_, _>>()
    });
    let closed = closed.await.unwrap_or_default();
    let lines = streams.iter().map(async |(id, connected)| {
        let types = connected.inspect().await;
        let mut line = Map::new();
        if let Some(policy) = closed.get(id) {
            line.insert("closed_by".to_owned(), policy.as_str().into());
        }
        line.insert("proxy".to_owned(), connected.name().into());
        line.insert("proxy_type".to_owned(), connected.proxy.kind.name().into());
        for (key, type_url) in SYNCED {
            let Some(view) = types.iter().find(|view| *view.type_url == *type_url) else {
                continue;
            };
            line.insert(format!("{key}_sent"), state(view, |name| name.sent).into());
            line.insert(format!("{key}_acked"), state(view, |name| name.acknowledged).into());
            line.insert(format!("{key}_waiting"), view.waiting.len().into());
            let rejected = view.names.iter().filter(|name| name.rejected.is_some()).count();
            line.insert(format!("{key}_rejected"), rejected.into());
            line.insert(format!("{key}_nacks"), view.nacks.into());
        }
        Value::Object(line)
    });
    join_all(lines).await.into()
}

/// One version for all resources of a type.
fn state(view: &TypeView, version: fn(&NameView) -> Option<Version>) -> String {
    let versions: Vec<_> =
        view.names.iter().filter_map(|name| Some((&*name.name, version(name)?))).collect();
    Version::new(&versions).to_string()
}

/// Resources of a proxy: the published ones, and what it did with them.
pub(super) async fn config_dump(source: &Source, proxy: &str) -> Option<Value> {
    let (id, connected) = find_with_id(source, proxy)?;
    let types = connected.inspect().await;
    let published = source.queue.inspect(move |publisher| {
        let mut proxies = publisher.proxies();
        proxies.find(|(other, ..)| *other == id).map(|(.., published)| published.clone())
    });
    let published = published.await??;
    let dump = types.iter().map(|view| {
        let resources = view.names.iter().map(|name| {
            let found = published.find(&view.type_url, &name.name);
            let rejected = name.rejected.as_ref();
            json!({
                "name": *name.name,
                "version": found.map(|entry| entry.version.to_string()),
                "sent": name.sent.map(|version| version.to_string()),
                "acknowledged": name.acknowledged.map(|version| version.to_string()),
                "rejected": rejected.map(|it| json!({
                    "version": it.version.to_string(), "reason": it.reason,
                })),
                "references": found.map(|it| it.references.iter()
                    .map(|it| it.name.to_string()).collect::<Vec<_>>()),
                // The message itself: this program has no descriptors to print it by.
                "resource": found.map(|entry| json!({
                    "@type": *view.type_url, "value": STANDARD.encode(entry.body()),
                })),
            })
        });
        json!({
            "type": *view.type_url,
            "waiting": view.waiting.iter().map(|name| &**name).collect::<Vec<_>>(),
            "nacks": view.nacks,
            "resources": resources.collect::<Value>(),
        })
    });
    Some(json!({ "proxy": proxy, "configs": dump.collect::<Value>() }))
}

const SYNCED: [(&str, &str); 4] =
    [("cluster", CLUSTER), ("endpoint", ENDPOINT), ("listener", LISTENER), ("route", ROUTE)];
