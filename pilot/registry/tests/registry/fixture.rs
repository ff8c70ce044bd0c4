//! Snapshots of YAML.

use std::collections::BTreeMap;

use pilot_registry::endpoint::Endpoint;
use pilot_registry::event::Event;
use pilot_registry::files::Directory;
use pilot_registry::hostname::Hostname;
use pilot_registry::index::Index;
use pilot_registry::manifest::ObjectDefaults;
use pilot_registry::service::Service;
use pilot_registry::snapshot::Snapshot;

/// Events of a file with valid objects only.
pub(crate) fn events(yaml: &str) -> Vec<Event> {
    let files = BTreeMap::from([("objects.yaml".to_owned(), yaml.as_bytes().to_vec())]);
    let update = Directory::new(ObjectDefaults::default()).update(&files);
    assert_eq!(update.warnings, Vec::<String>::new(), "{yaml}");
    update.events
}

/// Snapshot of objects, equal in whichever order their kinds arrive.
pub(crate) fn snapshot(yaml: &str) -> Snapshot {
    Index::from_events(events(yaml)).snapshot()
}

pub(crate) fn host(name: &str) -> Hostname {
    Hostname::parse(&format!("{name}.shop.svc.cluster.local")).unwrap()
}

/// The service `web` of namespace `shop`, with `spec` in YAML's flow style.
pub(crate) fn web(spec: &str) -> Service {
    web_with(spec, "")
}

/// As [`web`], with further metadata.
pub(crate) fn web_with(spec: &str, metadata: &str) -> Service {
    let snapshot = snapshot(&service("web", spec, metadata));
    Service::clone(snapshot.service(&host("web")).expect("the service is known"))
}

pub(crate) fn service(name: &str, spec: &str, metadata: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop, {metadata}}}, \
         spec: {{{spec}}}}}\n"
    )
}

/// A slice of the service `web` with port `http` 8080.
pub(crate) fn slice(name: &str, endpoints: &str) -> String {
    slice_with(name, "addressType: IPv4, ports: [{name: http, port: 8080}]", endpoints)
}

pub(crate) fn slice_with(name: &str, fields: &str, endpoints: &str) -> String {
    format!(
        "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, \
         namespace: shop, labels: {{kubernetes.io/service-name: web}}}}, {fields}, \
         endpoints: [{endpoints}]}}\n"
    )
}

pub(crate) fn pod(name: &str, metadata: &str, spec: &str, status: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop, {metadata}}}, \
         spec: {{{spec}}}, status: {{{status}}}}}\n"
    )
}

pub(crate) fn node(name: &str, labels: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{labels}}}}}}}\n"
    )
}

/// Endpoints of port 80 of the service `web`, each as text.
pub(crate) fn endpoints<T>(snapshot: &Snapshot, text: impl Fn(&Endpoint) -> T) -> Vec<T> {
    let set = snapshot.endpoints(&host("web"), 80).expect("the port is known");
    set.endpoints.iter().map(text).collect()
}

/// The service `web` with port `http` 80.
pub(crate) const WEB: &str = "---\n{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, \
    spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}}\n";
