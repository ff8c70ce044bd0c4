//! Property: after any history, each proxy has what a fresh generation for it alone gives, and the
//! reported changes name all differences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mesh::mesh_config::MeshConfig;
use pilot_registry::event::{Event, ObjectKey, Update};
use pilot_registry::files::Directory;
use pilot_registry::locality::Locality;
use pilot_registry::manifest::ObjectDefaults;
use pilot_routing::authorization_policy::{AuthorizationPolicy, Selection};
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::context::Context;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::name_tables::{NameEntries, NameTables};
use pilot_routing::envoy::routes::Routes;
use pilot_routing::envoy::{Generator, resource_version};
use pilot_routing::peer_authentication::{MtlsMode, PeerAuthentication};
use pilot_routing::view::{MeshView, ProxyView};
use pilot_xds::session::{Changes, Resources as _, Version};
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, ROUTE};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{Cause, Input, ProxyId, Publisher};
use crate::resources::{MeshState, Published};

type State = BTreeMap<(&'static str, String), Version>;

fn events(yaml: &str) -> Vec<Event> {
    let files = BTreeMap::from([("objects.yaml".to_owned(), yaml.as_bytes().to_vec())]);
    let update = Directory::new(ObjectDefaults::default()).update(&files);
    assert_eq!(update.warnings, [""; 0], "{yaml}");
    update.events
}

/// Event that adds or changes the one object of a text.
fn apply(yaml: &str) -> Event {
    let mut found = events(yaml).into_iter().filter_map(|event| match event {
        Event::Services(Update::Replace(all)) => Some(Event::Services(Update::Apply(one(all)?))),
        Event::Slices(Update::Replace(all)) => Some(Event::Slices(Update::Apply(one(all)?))),
        Event::Pods(Update::Replace(all)) => Some(Event::Pods(Update::Apply(one(all)?))),
        _ => None,
    });
    found.next().unwrap()
}

fn one<T>(mut objects: Vec<T>) -> Option<T> {
    objects.pop()
}

fn name() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b", "c"])
}

fn namespace() -> impl Strategy<Value = &'static str> {
    select(vec!["shop", "bank"])
}

fn service() -> impl Strategy<Value = Input> {
    let spec = select(vec![
        "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1]",
        "clusterIP: 10.96.0.2, clusterIPs: [10.96.0.2], internalTrafficPolicy: Local",
        "clusterIP: None, clusterIPs: [None]",
        "clusterIP: None, clusterIPs: [None], publishNotReadyAddresses: true",
        "type: ExternalName, externalName: a.shop.svc.cluster.local",
        "type: ExternalName, externalName: example.org",
    ]);
    let ports = select(vec![
        "{name: http, port: 80, targetPort: 8080}",
        "{name: tcp, port: 90, targetPort: 8080}",
        "{name: x, port: 90, targetPort: web}, {name: http-2, port: 81, targetPort: 8081}",
    ]);
    let export = select(vec!["", "annotations: {networking.istio.io/exportTo: .}, "]);
    let app = select(vec!["a", "b"]);
    (name(), namespace(), spec, ports, export, app).prop_map(
        |(name, namespace, spec, ports, export, app)| {
            Input::Registry(Box::new(apply(&format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{{export}name: {name}, namespace: \
                 {namespace}}}\nspec: {{{spec}, ports: [{ports}], selector: {{app: {app}}}}}\n"
            ))))
        },
    )
}

fn slice() -> impl Strategy<Value = Input> {
    let endpoint = (1..5_u8, any::<bool>(), name(), select(vec!["n1", "n2"]));
    let endpoint = endpoint.prop_map(|(address, ready, pod, node)| {
        format!(
            "{{addresses: [\"10.0.0.{address}\"], conditions: {{ready: {ready}}}, nodeName: {node}, \
             targetRef: {{kind: Pod, name: {pod}}}}}"
        )
    });
    let port = select(vec!["http", "tcp", "x"]);
    (name(), name(), namespace(), port, prop::collection::vec(endpoint, 0..4)).prop_map(
        |(name, service, namespace, port, endpoints)| {
            Input::Registry(Box::new(apply(&format!(
                "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\nmetadata: \
                 {{name: {name}, namespace: {namespace}, labels: {{kubernetes.io/service-name: \
                 {service}}}}}\nports: [{{name: {port}, port: 8080}}]\nendpoints: [{}]\n",
                endpoints.join(", ")
            ))))
        },
    )
}

fn pod() -> impl Strategy<Value = Input> {
    let app = select(vec!["a", "b"]);
    let tls = select(vec!["", ", security.istio.io/tlsMode: istio"]);
    let account = select(vec!["default", "other"]);
    (name(), namespace(), 1..5_u8, app, tls, account).prop_map(
        |(name, namespace, address, app, tls, account)| {
            Input::Registry(Box::new(apply(&format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, \
                 labels: {{app: {app}{tls}}}}}\nspec: {{serviceAccountName: {account}, containers: \
                 [{{name: c, ports: [{{name: web, containerPort: 8081}}]}}]}}\nstatus: {{phase: \
                 Running, podIP: 10.0.0.{address}, podIPs: [{{ip: 10.0.0.{address}}}]}}\n"
            ))))
        },
    )
}

fn deletion() -> impl Strategy<Value = Input> {
    (0..3_u8, name(), namespace()).prop_map(|(kind, name, namespace)| {
        let key = ObjectKey::new(namespace, name);
        Input::Registry(Box::new(match kind {
            0 => Event::Services(Update::Delete(key)),
            1 => Event::Slices(Update::Delete(key)),
            _ => Event::Pods(Update::Delete(key)),
        }))
    })
}

fn settings() -> impl Strategy<Value = Input> {
    let mode = select(vec![MtlsMode::Strict, MtlsMode::Disable]);
    let selector = select(vec![vec![], vec![("app", "a")]]);
    let policies = (namespace(), mode, selector, 0..2_usize).prop_map(
        |(namespace, mode, selector, number)| {
            let policy = PeerAuthentication {
                namespace: namespace.into(),
                name: "p".into(),
                created: 1,
                selector: selector.into_iter().collect(),
                mode: Some(mode),
                ports: BTreeMap::new(),
            };
            Input::PeerAuthentications(vec![policy; number])
        },
    );
    let selector = select(vec![vec![], vec![("app", "a")]]);
    let selection = prop_oneof![
        selector.prop_map(|labels| Selection::Labels(labels.into_iter().collect())),
        name().prop_map(|name| Selection::Services(vec![name.into()])),
    ];
    let authorization =
        (namespace(), selection, 0..2_usize).prop_map(|(namespace, selection, number)| {
            let policy =
                AuthorizationPolicy { namespace: namespace.into(), name: "deny".into(), selection };
            Input::AuthorizationPolicies(vec![policy; number])
        });
    let documents = ["", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}", "enableAutoMtls: false"];
    prop_oneof![policies, authorization, select(documents.to_vec()).prop_map(mesh)]
}

fn mesh(document: &str) -> Input {
    Input::Mesh(MeshView::new(&MeshConfig::parse(document).unwrap()).unwrap())
}

fn proxies() -> Vec<ProxyView> {
    let proxy = |name: &str, metadata: Value| {
        let id = format!("sidecar~10.0.0.{}~{name}~x.svc.cluster.local", name.len() - 5);
        let metadata = metadata.as_object().unwrap();
        ProxyView::from_node(&id, Locality::default(), metadata).unwrap()
    };
    vec![
        proxy("a.shop", json!({"NODE_NAME": "n1", "NAMES_BY_HOST": "true"})),
        proxy("bb.shop", json!({"NODE_NAME": "n1"})),
        proxy("b.shop", json!({"INTERCEPTION_MODE": "TPROXY"})),
        proxy("c.bank", json!({"NODE_NAME": "n2"})),
        proxy("a.bank", json!({"INTERCEPTION_MODE": "NONE", "NODE_NAME": "n2"})),
    ]
}

/// Resources that are generated for a proxy alone.
fn expected(state: &MeshState, proxy: &ProxyView) -> State {
    fn add<G: Generator>(context: &Context<'_>, found: &mut State) {
        for name in G::names(context) {
            let inputs = G::inputs(context, &name).unwrap();
            found.insert((G::TYPE_URL, name), resource_version::<G>(&inputs));
        }
    }
    let context = state.context(proxy);
    let mut found = State::new();
    add::<Clusters>(&context, &mut found);
    add::<Endpoints>(&context, &mut found);
    add::<Listeners>(&context, &mut found);
    add::<Routes>(&context, &mut found);
    if proxy.takes_names_by_host {
        add::<NameEntries>(&context, &mut found);
    } else {
        add::<NameTables>(&context, &mut found);
    }
    found
}

fn published_state(published: &Published) -> State {
    let mut found = State::new();
    for type_url in [CLUSTER, ENDPOINT, LISTENER, ROUTE, NAME_TABLE] {
        for name in published.names(type_url) {
            let version = published.find(type_url, &name).unwrap().version;
            found.insert((type_url, name.to_string()), version);
        }
    }
    found
}

/// Routes of listeners that are hidden from a proxy stay; no listener refers to them.
fn without_unused_routes(mut state: State, published: &Published) -> State {
    let mut used = BTreeSet::new();
    for name in published.names(LISTENER) {
        let references = &published.find(LISTENER, &name).unwrap().references;
        used.extend(references.iter().map(|it| (it.type_url, it.name.to_string())));
    }
    state.retain(|key, _| key.0 != ROUTE || used.contains(key));
    state
}

fn check(publisher: &Publisher) {
    let state = publisher.state().unwrap();
    for ((_, proxy, published), view) in publisher.proxies().zip(proxies()) {
        assert_eq!(*proxy, view);
        let found = without_unused_routes(published_state(published), published);
        let expected = expected(state, proxy);
        let differing = found.keys().chain(expected.keys());
        let differing = differing.filter(|key| found.get(*key) != expected.get(*key));
        let differing: Vec<_> = differing.collect();
        assert!(differing.is_empty(), "{}: {differing:?}", proxy.pod);
    }
}

fn start() -> Publisher {
    let mut publisher = Publisher::new();
    for event in events("") {
        publisher.apply(Input::Registry(Box::new(event)));
    }
    publisher.apply(Input::PeerAuthentications(Vec::new()));
    publisher.apply(Input::AuthorizationPolicies(Vec::new()));
    publisher.apply(mesh(""));
    publisher.publish();
    publisher
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_publishes_a_fresh_generation(
        history in prop::collection::vec(
            (prop_oneof![4 => service(), 4 => slice(), 4 => pod(), 2 => deletion(), 1 => settings()],
             any::<bool>()),
            1..24,
        )
    ) {
        let mut publisher = start();
        let mut known = BTreeMap::new();
        for (id, proxy) in (0..).map(ProxyId).zip(proxies()) {
            known.insert(id, publisher.connect(id, proxy));
        }
        for (input, publishes) in history {
            publisher.apply(input);
            if !publishes {
                continue;
            }
            for (id, published) in publisher.publish() {
                let older = known.insert(id, published.clone()).unwrap();
                let (before, after) = (published_state(&older), published_state(&published));
                let Changes::Names(named) = published.changes_since(&older) else { continue };
                for key in before.keys().chain(after.keys()) {
                    let named = named.contains(&(Arc::from(key.0), key.1.as_str().into()));
                    prop_assert!(named || before.get(key) == after.get(key), "{key:?}");
                }
            }
            check(&publisher);
        }
        publisher.publish();
        check(&publisher);
    }
}

#[test]
fn nothing_is_published_before_all_is_listed() {
    let mut publisher = Publisher::new();
    let proxy = proxies().swap_remove(0);
    let published = publisher.connect(ProxyId(0), proxy);
    assert_eq!(published_state(&published), State::new());
    let inputs = events("").into_iter().map(|event| Input::Registry(Box::new(event)));
    let inputs = inputs.chain([
        Input::PeerAuthentications(Vec::new()),
        Input::AuthorizationPolicies(Vec::new()),
        mesh(""),
    ]);
    let inputs: Vec<_> = inputs.collect();
    let last = inputs.len() - 1;
    for (number, input) in inputs.into_iter().enumerate() {
        publisher.apply(input);
        assert_eq!(publisher.publish().len(), usize::from(number == last));
        assert_eq!(publisher.state().is_some(), number == last);
    }
}

#[test]
fn endpoint_change_concerns_one_resource() {
    let mut publisher = start();
    let web = "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: shop}\nspec: \
               {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{name: http, port: 80}]}\n";
    publisher.apply(Input::Registry(Box::new(apply(web))));
    publisher.publish();
    let proxy = proxies().swap_remove(0);
    let before = publisher.connect(ProxyId(0), proxy);
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
                 metadata: {name: a-1, namespace: shop, labels: {kubernetes.io/service-name: a}}\n\
                 ports: [{name: http, port: 80}]\nendpoints: [{addresses: [\"10.0.0.9\"]}]\n";
    publisher.apply(Input::Registry(Box::new(apply(slice))));
    let cause = publisher.pending();
    assert_eq!(cause.triggers, ["endpoint"]);
    assert_eq!(cause.first, ["endpoints of a.shop.svc.cluster.local:80"]);
    let published = publisher.publish().pop().unwrap().1;
    assert_eq!(publisher.pending(), Cause::default());
    let name = "outbound|80||a.shop.svc.cluster.local";
    let expected = BTreeSet::from([(ENDPOINT.into(), name.into())]);
    assert_eq!(published.changes_since(&before), Changes::Names(expected));
}
