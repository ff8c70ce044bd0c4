//! Meshes of the tests.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mesh::mesh_config::MeshConfig;
use pilot_registry::event::{Event, Update};
use pilot_registry::hostname::Hostname;
use pilot_registry::index::Index;
use pilot_registry::labels::Labels;
use pilot_registry::locality::Locality;
use pilot_registry::pod::Pod;
use pilot_registry::protocol::Protocol;
use pilot_registry::service::{
    ExportTo, RegistryKind, Resolution, Service, ServicePort, TargetPort, TrafficDistribution,
};
use pilot_registry::slice::{Condition, Slice, SliceEndpoint, SlicePort};
use pilot_registry::snapshot::Snapshot;
use pilot_registry::workload::Workload;
use pilot_routing::authorization_policy::{AuthorizationPolicies, AuthorizationPolicy, Selection};
use pilot_routing::envoy::clusters::Clusters;
use pilot_routing::envoy::context::Context;
use pilot_routing::envoy::endpoints::Endpoints;
use pilot_routing::envoy::listeners::Listeners;
use pilot_routing::envoy::routes::Routes;
use pilot_routing::envoy::{Generator, Resource, generate, resource_version};
use pilot_routing::peer_authentication::{MtlsMode, PeerAuthentication, PeerAuthentications};
use pilot_routing::view::{MeshView, ProxyView};
use serde_json::{Value, json};

/// Objects of a mesh, and the proxy that configuration is generated for.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) services: Vec<Service>,
    pub(crate) slices: Vec<Slice>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) mesh: MeshView,
    pub(crate) policies: Vec<PeerAuthentication>,
    pub(crate) authorization: Vec<AuthorizationPolicy>,
    pub(crate) proxy: ProxyView,
}

/// All resources of a proxy by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(crate) clusters: BTreeMap<String, Resource>,
    pub(crate) endpoints: BTreeMap<String, Resource>,
    pub(crate) listeners: BTreeMap<String, Resource>,
    pub(crate) routes: BTreeMap<String, Resource>,
}

/// Port of a service: its number and protocol. Pods take it on a port that is 8000 higher.
pub(crate) type Port = (u16, Protocol);

impl World {
    /// A mesh without services; the proxy is a sidecar beside `web-1` in `shop`.
    pub(crate) fn new(addresses: &str, metadata: Value) -> Self {
        let first = addresses.split(',').next().unwrap();
        Self::of_proxy(
            &format!("sidecar~{first}~web-1.shop~shop.svc.cluster.local"),
            addresses,
            metadata,
        )
    }

    pub(crate) fn of_proxy(id: &str, addresses: &str, mut metadata: Value) -> Self {
        metadata["INSTANCE_IPS"] = addresses.into();
        metadata["NODE_NAME"] = "node-1".into();
        if metadata["HTTP_BY_METHOD"].is_null() {
            metadata["HTTP_BY_METHOD"] = "true".into();
        }
        metadata["LABELS"] = json!({"app": "web"});
        let locality = locality("eu/eu-1");
        let proxy = ProxyView::from_node(id, locality, metadata.as_object().unwrap()).unwrap();
        Self {
            services: Vec::new(),
            slices: Vec::new(),
            pods: Vec::new(),
            mesh: MeshView::new(&MeshConfig::parse("").unwrap()).unwrap(),
            policies: Vec::new(),
            authorization: Vec::new(),
            proxy,
        }
    }

    /// Adds a service `NAME.NAMESPACE` with its pods `NAME-1` and so on, and their endpoints.
    /// Without `addresses` it is headless.
    pub(crate) fn serve(
        &mut self,
        key: &str,
        ports: &[Port],
        addresses: &str,
        pods: &[&str],
    ) -> &mut Service {
        let (name, namespace) = key.split_once('.').unwrap();
        for (index, pod) in pods.iter().enumerate() {
            self.add_pod(&format!("{name}-{}.{namespace}", index + 1), name, pod);
        }
        let named = |(number, _): &Port| -> String { format!("p{number}") };
        let endpoint = |(index, address): (usize, &&str)| SliceEndpoint {
            address: address.parse().unwrap(),
            condition: Condition::Ready,
            pod: Some(format!("{name}-{}", index + 1).into()),
            node: format!("node-{}", index + 1).into(),
            zone: format!("eu-{}", index + 1).into(),
            hostname: None,
        };
        self.slices.push(Slice {
            name: format!("{name}-slice").into(),
            namespace: namespace.into(),
            service: name.into(),
            ports: ports
                .iter()
                .map(|port| SlicePort { name: named(port).into(), number: port.0 + 8000 })
                .collect(),
            endpoints: pods.iter().enumerate().map(endpoint).collect(),
        });
        let addresses: Vec<IpAddr> = addresses
            .split(',')
            .filter(|it| !it.is_empty())
            .map(|it| it.parse().unwrap())
            .collect();
        let headless = addresses.is_empty();
        let created = i64::try_from(self.services.len()).unwrap();
        self.services.push(Service {
            hostname: Hostname::for_service(name, namespace, "cluster.local").unwrap(),
            name: name.into(),
            namespace: namespace.into(),
            registry: RegistryKind::Kubernetes,
            ports: ports
                .iter()
                .map(|port| ServicePort {
                    name: named(port).into(),
                    number: port.0,
                    protocol: port.1,
                    target: TargetPort::Number(port.0 + 8000),
                })
                .collect(),
            resolution: if headless {
                Resolution::OriginalDestination
            } else {
                Resolution::ClientSide
            },
            addresses,
            export_to: ExportTo::All,
            created,
            publish_not_ready: false,
            node_local: false,
            distribution: TrafficDistribution::Any,
            client_affinity: false,
            persistent_sessions: false,
            selector: labels(&[("app", name)]),
        });
        self.services.last_mut().unwrap()
    }

    /// Adds an `ExternalName`.
    pub(crate) fn alias(&mut self, key: &str, ports: &[Port], target: &str) {
        let service = self.serve(key, ports, "", &[]);
        service.resolution = Resolution::Alias(Hostname::parse(target).unwrap());
        service.selector = Labels::default();
    }

    pub(crate) fn add_pod(&mut self, key: &str, app: &str, address: &str) -> &mut Pod {
        let (name, namespace) = key.split_once('.').unwrap();
        self.pods.push(Pod {
            workload: Workload {
                name: name.into(),
                namespace: namespace.into(),
                owner: app.into(),
                addresses: address.split(',').map(|it| it.parse().unwrap()).collect(),
                labels: labels(&[("app", app)]),
                service_account: app.into(),
                node: "node-1".into(),
                locality: Locality::default(),
                takes_mtls: true,
                host_network: false,
                hostname: None,
                subdomain: None,
                ports: [].into(),
            },
            own_locality: None,
            created: 0,
            is_finished: false,
        });
        self.pods.last_mut().unwrap()
    }

    /// Adds a `PeerAuthentication` for the namespace, or for the pods of an application.
    pub(crate) fn authenticate(
        &mut self,
        namespace: &str,
        app: &str,
        mode: MtlsMode,
        ports: &[(u16, MtlsMode)],
    ) {
        self.policies.push(PeerAuthentication {
            namespace: namespace.into(),
            name: format!("policy-{}", self.policies.len()).into(),
            created: 0,
            selector: if app.is_empty() { Labels::default() } else { labels(&[("app", app)]) },
            mode: Some(mode),
            ports: ports.iter().map(|(port, mode)| (*port, Some(*mode))).collect(),
        });
    }

    /// Adds an `AuthorizationPolicy` for the pods of an application in `shop`.
    pub(crate) fn authorize(&mut self, app: &str) {
        self.authorization.push(AuthorizationPolicy {
            namespace: "shop".into(),
            name: "deny".into(),
            selection: Selection::Labels(labels(&[("app", app)])),
        });
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Index::from_events([
            Event::Services(Update::Replace(self.services.clone())),
            Event::Slices(Update::Replace(self.slices.clone())),
            Event::Pods(Update::Replace(self.pods.clone())),
        ])
        .snapshot()
    }

    /// Runs a closure with the context of the proxy.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Context<'_>) -> T) -> T {
        let snapshot = self.snapshot();
        let root = self.mesh.root_namespace.clone();
        let policies = PeerAuthentications::new(&root, self.policies.clone());
        let authorization = AuthorizationPolicies::new(self.authorization.clone());
        work(&Context::new(&snapshot, &self.mesh, &policies, &authorization, &self.proxy))
    }

    /// Generates all resources of the proxy.
    pub(crate) fn resources(&self) -> Resources {
        self.with(|context| Resources {
            clusters: all::<Clusters>(context),
            endpoints: all::<Endpoints>(context),
            listeners: all::<Listeners>(context),
            routes: all::<Routes>(context),
        })
    }

    /// Generates one message.
    pub(crate) fn build<G: Generator>(&self, name: &str) -> G::Message {
        self.with(|context| {
            let inputs = G::inputs(context, name);
            G::build(&inputs.unwrap_or_else(|| panic!("{name} is no resource of the proxy")))
        })
    }

    /// Names of the resources of a type.
    pub(crate) fn names<G: Generator>(&self) -> Vec<String> {
        self.with(|context| G::names(context).into_iter().collect())
    }
}

fn all<G: Generator>(context: &Context<'_>) -> BTreeMap<String, Resource> {
    let resource = |name: String| {
        let inputs = G::inputs(context, &name).unwrap_or_else(|| panic!("{name} has no inputs"));
        (name, generate::<G>(&inputs, resource_version::<G>(&inputs)))
    };
    G::names(context).into_iter().map(resource).collect()
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

pub(crate) fn locality(text: &str) -> Locality {
    let (region, zone) = text.split_once('/').unwrap();
    Locality { region: region.into(), zone: zone.into(), subzone: "".into() }
}
