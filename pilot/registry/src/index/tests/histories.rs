//! Property: after any history the index equals one of the final objects, and the reported changes
//! are exactly the differences of the snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::changes::Changes;
use crate::event::{Event, ObjectKey, Update};
use crate::hostname::Hostname;
use crate::index::Index;
use crate::locality::Locality;
use crate::namespace::Namespace;
use crate::node::Node;
use crate::pod::Pod;
use crate::protocol::Protocol;
use crate::service::{
    ExportTo, RegistryKind, Resolution, Service, ServicePort, TargetPort, TrafficDistribution,
};
use crate::slice::{Condition, Slice, SliceEndpoint, SlicePort};
use crate::snapshot::Snapshot;
use crate::workload::{Workload, WorkloadPort};

fn service() -> impl Strategy<Value = Service> {
    let target = || {
        prop_oneof![
            (8080_u16..8082).prop_map(TargetPort::Number),
            Just(TargetPort::Name("http".into())),
        ]
    };
    let protocol = select(vec![Protocol::Http, Protocol::Udp]);
    let port = (select(vec!["", "http", "grpc"]), 80_u16..83, protocol, target());
    let port = port.prop_map(|(name, number, protocol, target)| ServicePort {
        name: name.into(),
        number,
        protocol,
        target,
    });
    let resolution = prop_oneof![
        4 => Just(Resolution::ClientSide),
        1 => Just(Resolution::OriginalDestination),
        1 => Just(Resolution::Alias(Hostname::parse("other.test").unwrap())),
    ];
    let selector = select(vec![vec![], vec![("app", "web")], vec![("app", "db")]]);
    let options = (any::<bool>(), 0_i64..2);
    (name(), name(), vec(port, 0..3), resolution, selector, options).prop_map(
        |(name, namespace, ports, resolution, selector, (persistent_sessions, created))| Service {
            hostname: Hostname::for_service(name, namespace, "cluster.local").unwrap(),
            name: name.into(),
            namespace: namespace.into(),
            registry: RegistryKind::Kubernetes,
            ports,
            resolution,
            addresses: Vec::new(),
            export_to: ExportTo::All,
            created,
            publish_not_ready: false,
            node_local: false,
            distribution: TrafficDistribution::Any,
            client_affinity: false,
            persistent_sessions,
            selector: selector.into_iter().collect(),
        },
    )
}

fn slice() -> impl Strategy<Value = Slice> {
    let condition = select(vec![
        Condition::Ready,
        Condition::NotReady,
        Condition::ServingTerminating,
        Condition::Terminating,
    ]);
    let endpoint = (address(), condition, proptest::option::of(name()), node_name(), zone());
    let endpoint = endpoint.prop_map(|(address, condition, pod, node, zone)| SliceEndpoint {
        address,
        condition,
        pod: pod.map(Arc::from),
        node: node.into(),
        zone: zone.into(),
        hostname: None,
    });
    let port = (select(vec!["", "http"]), 8080_u16..8082)
        .prop_map(|(name, number)| SlicePort { name: name.into(), number });
    (name(), name(), name(), vec(port, 0..3), vec(endpoint, 0..4)).prop_map(
        |(name, namespace, service, ports, endpoints)| Slice {
            name: name.into(),
            namespace: namespace.into(),
            service: service.into(),
            ports,
            endpoints,
        },
    )
}

fn pod() -> impl Strategy<Value = Pod> {
    let labels = select(vec![vec![], vec![("app", "web")], vec![("app", "db"), ("v", "1")]]);
    let own_locality = proptest::option::weighted(0.2, Just(locality("own")));
    let options = (labels, own_locality, 0_i64..3, bool_weighted(), bool_weighted());
    (name(), name(), vec(address(), 0..3), node_name(), options).prop_map(
        |(name, namespace, addresses, node, options)| {
            let (labels, own_locality, created, is_finished, host_network) = options;
            let workload = Workload {
                name: name.into(),
                namespace: namespace.into(),
                owner: name.into(),
                addresses,
                labels: labels.into_iter().collect(),
                service_account: "default".into(),
                node: node.into(),
                locality: Locality::default(),
                takes_mtls: false,
                host_network,
                hostname: None,
                subdomain: None,
                ports: [WorkloadPort { name: "http".into(), number: 8081, is_udp: false }].into(),
            };
            Pod { workload, own_locality, created, is_finished }
        },
    )
}

fn node() -> impl Strategy<Value = Node> {
    (node_name(), zone())
        .prop_map(|(name, zone)| Node { name: name.into(), locality: locality(zone) })
}

fn namespace() -> impl Strategy<Value = Namespace> {
    (name(), zone()).prop_map(|(name, value)| Namespace {
        name: name.into(),
        labels: [("zone", value)].into_iter().collect(),
    })
}

fn name() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b", "c"])
}

fn node_name() -> impl Strategy<Value = &'static str> {
    select(vec!["", "n1", "n2"])
}

fn zone() -> impl Strategy<Value = &'static str> {
    select(vec!["", "z1", "z2"])
}

fn bool_weighted() -> impl Strategy<Value = bool> {
    proptest::bool::weighted(0.15)
}

fn address() -> impl Strategy<Value = IpAddr> {
    (1_u8..5).prop_map(|last| Ipv4Addr::new(10, 0, 0, last).into())
}

fn locality(zone: &str) -> Locality {
    Locality { region: "r".into(), zone: zone.into(), subzone: "".into() }
}

fn update<T: Clone + Debug>(
    object: impl Strategy<Value = T> + Clone,
    key: impl Strategy<Value = ObjectKey>,
) -> impl Strategy<Value = Update<T>> {
    prop_oneof![
        6 => object.clone().prop_map(Update::Apply),
        3 => key.prop_map(Update::Delete),
        1 => vec(object, 0..4).prop_map(Update::Replace),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let key = || (name(), name()).prop_map(|(namespace, name)| ObjectKey::new(namespace, name));
    let node_key = node_name().prop_map(|name| ObjectKey::new("", name));
    let namespace_key = name().prop_map(|name| ObjectKey::new("", name));
    prop_oneof![
        3 => update(service().boxed(), key()).prop_map(Event::Services),
        4 => update(slice().boxed(), key()).prop_map(Event::Slices),
        4 => update(pod().boxed(), key()).prop_map(Event::Pods),
        2 => update(node().boxed(), node_key).prop_map(Event::Nodes),
        1 => update(namespace().boxed(), namespace_key).prop_map(Event::Namespaces),
    ]
}

/// Objects that are left after a history.
#[derive(Default)]
struct Final {
    services: BTreeMap<ObjectKey, Service>,
    slices: BTreeMap<ObjectKey, Slice>,
    pods: BTreeMap<ObjectKey, Pod>,
    nodes: BTreeMap<ObjectKey, Node>,
    namespaces: BTreeMap<ObjectKey, Namespace>,
}

impl Final {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Services(update) => keep(&mut self.services, update, Service::key),
            Event::Slices(update) => keep(&mut self.slices, update, Slice::key),
            Event::Pods(update) => keep(&mut self.pods, update, Pod::key),
            Event::Nodes(update) => {
                keep(&mut self.nodes, update, |node| ObjectKey::new("", node.name.clone()));
            }
            Event::Namespaces(update) => {
                keep(&mut self.namespaces, update, |it| ObjectKey::new("", it.name.clone()));
            }
        }
    }

    /// Index of the objects, in an order that depends on `first`.
    fn index(&self, first: usize) -> Index {
        let mut events = [
            Event::Services(Update::Replace(self.services.values().cloned().collect())),
            Event::Slices(Update::Replace(self.slices.values().cloned().collect())),
            Event::Pods(Update::Replace(self.pods.values().cloned().collect())),
            Event::Nodes(Update::Replace(self.nodes.values().cloned().collect())),
            Event::Namespaces(Update::Replace(self.namespaces.values().cloned().collect())),
        ];
        events.rotate_left(first % 5);
        Index::from_events(events)
    }
}

fn keep<T>(known: &mut BTreeMap<ObjectKey, T>, update: Update<T>, key: fn(&T) -> ObjectKey) {
    match update {
        Update::Apply(object) => {
            known.insert(key(&object), object);
        }
        Update::Delete(key) => {
            known.remove(&key);
        }
        Update::Replace(listed) => {
            *known = listed.into_iter().map(|object| (key(&object), object)).collect();
        }
    }
}

fn differences(before: &Snapshot, after: &Snapshot) -> Changes {
    let hosts = |snapshot: &Snapshot| {
        snapshot.services().map(|service| service.hostname.clone()).collect::<BTreeSet<_>>()
    };
    let mut changes = Changes::default();
    for hostname in hosts(before).union(&hosts(after)) {
        if before.service(hostname) != after.service(hostname) {
            changes.services.insert(hostname.clone());
        }
        for port in 80..83 {
            if before.endpoints(hostname, port) != after.endpoints(hostname, port) {
                changes.endpoint_sets.insert((hostname.clone(), port));
            }
        }
    }
    let workloads = |snapshot: &Snapshot| {
        let keyed = snapshot.workloads().map(|it| (it.namespace.clone(), it.name.clone()));
        keyed.collect::<BTreeSet<_>>()
    };
    for (namespace, name) in workloads(before).union(&workloads(after)) {
        if before.workload(namespace, name) != after.workload(namespace, name) {
            changes.workloads.insert(ObjectKey::new(namespace.clone(), name.clone()));
        }
    }
    for name in ["a", "b", "c"] {
        if before.namespace(name) != after.namespace(name) {
            changes.namespaces.insert(name.into());
        }
    }
    changes
}

/// Number of histories: `OUTRIGGER_HISTORIES`, or what fits into some seconds.
fn histories() -> u32 {
    let asked = std::env::var("OUTRIGGER_HISTORIES").ok();
    asked.map_or(10_000, |number| number.parse().expect("OUTRIGGER_HISTORIES is a number"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: histories(), ..ProptestConfig::default() })]

    #[test]
    fn index_equals_final_objects_and_reports_differences(
        history in vec(event(), 1..16),
        first in 0_usize..5,
    ) {
        let mut index = Index::default();
        let mut objects = Final::default();
        for event in history {
            let before = index.snapshot();
            let changes = index.apply(event.clone());
            objects.apply(event);
            let after = index.snapshot();
            prop_assert_eq!(&changes, &differences(&before, &after));
            prop_assert_eq!(changes.is_empty(), before.generation() == after.generation());
        }
        prop_assert_eq!(index.snapshot(), objects.index(first).snapshot());
    }
}
