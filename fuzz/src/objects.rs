//! Objects of a mesh.

use std::collections::BTreeMap;

use mesh::mesh_config::MeshConfig;
use pilot_registry::files::Directory;
use pilot_registry::index::Index;
use pilot_registry::locality::Locality;
use pilot_registry::manifest::ObjectDefaults;
use pilot_registry::snapshot::Snapshot;
use pilot_routing::authorization_policy::AuthorizationPolicies;
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::context::Context;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::name_tables::{NameEntries, NameTables};
use pilot_routing::envoy::routes::Routes;
use pilot_routing::envoy::{Generator, generate, resource_version};
use pilot_routing::peer_authentication::PeerAuthentications;
use pilot_routing::view::{MeshView, ProxyView};
use serde_json::json;

/// Fuzzes a directory of objects that grows from half of them to all: every resource of a proxy can
/// be generated in both states.
pub fn objects(data: &[u8]) {
    let mut directory = Directory::new(ObjectDefaults::default());
    let mut index = Index::default();
    let half = data.len() / 2;
    let cut = data[half..].iter().position(|byte| *byte == b'\n').map_or(half, |at| half + at);
    for content in [&data[..cut], data] {
        let files = BTreeMap::from([("objects.yaml".to_owned(), content.to_vec())]);
        for event in directory.update(&files).events {
            index.apply(event);
        }
        let snapshot = index.snapshot();
        for mode in ["REDIRECT", "NONE"] {
            generate_all(&snapshot, mode);
        }
    }
}

fn generate_all(snapshot: &Snapshot, mode: &str) {
    let metadata = json!({
        "INSTANCE_IPS": "10.0.0.1,fd00::1",
        "INTERCEPTION_MODE": mode,
        "LABELS": {"app": "web"},
    });
    let id = "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local";
    let metadata = metadata.as_object().expect("an object");
    let proxy = ProxyView::from_node(id, Locality::default(), metadata).expect("a valid node");
    let mesh = MeshView::new(&MeshConfig::parse("").expect("the defaults")).expect("the defaults");
    let policies = PeerAuthentications::new(&mesh.root_namespace, Vec::new());
    let authorization = AuthorizationPolicies::default();
    let context = Context::new(snapshot, &mesh, &policies, &authorization, &proxy);
    all::<Clusters>(&context);
    all::<Endpoints>(&context);
    all::<Listeners>(&context);
    all::<Routes>(&context);
    all::<NameEntries>(&context);
    all::<NameTables>(&context);
}

fn all<G: Generator>(context: &Context<'_>) {
    for name in G::names(context) {
        let inputs = G::inputs(context, &name);
        let inputs = inputs.unwrap_or_else(|| panic!("{name} has no inputs"));
        generate::<G>(&inputs, resource_version::<G>(&inputs));
    }
}
