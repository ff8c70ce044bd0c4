//! Objects of the compared mesh.

use serde_json::{Value, json};

/// Objects and their statuses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    objects: Vec<Value>,
    statuses: Vec<Value>,
}

/// Port of a service: name, number, and the port of its pods.
type Port = (&'static str, u16, u16);

impl Objects {
    /// Adds the mesh: Services of all kinds with pods of all kinds.
    pub(crate) fn mesh(self) -> Self {
        self.places().services().headless().aliases().families().placement().health().policies()
    }

    /// Documents with all objects.
    pub(crate) fn list(&self) -> String {
        json!({"apiVersion": "v1", "kind": "List", "items": self.objects}).to_string()
    }

    /// Documents with all statuses.
    pub(crate) fn statuses(&self) -> String {
        json!({"apiVersion": "v1", "kind": "List", "items": self.statuses}).to_string()
    }

    fn places(mut self) -> Self {
        for namespace in ["shop", "other"] {
            self.objects.push(object("v1", "Namespace", namespace));
        }
        for (name, zone) in ZONES {
            let mut node = object("v1", "Node", name);
            node["metadata"]["labels"] = json!({
                "topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": zone,
            });
            self.objects.push(node);
        }
        self.pod("web-1", "web", &["10.0.0.1"], true, "")
            .pod("web-2", "web", &["10.0.0.2"], true, "")
            .pod("api-1", "api", &["10.0.0.3"], false, "")
            .pod("api-2", "api", &["10.0.0.4"], true, "")
            .pod("db-1", "db", &["10.0.0.5"], true, "")
            .pod("dual-1", "dual", &["10.0.0.20", "fd00::20"], true, "")
    }

    fn services(self) -> Self {
        self.service(
            "web",
            "10.96.0.10",
            &[("http", 80, 8080), ("https", 8443, 8443)],
            WEB,
            json!({}),
        )
        .service(
            "raw",
            "10.96.0.11",
            &[("tcp-admin", 9090, 9090), ("odd", 9091, 9091)],
            WEB,
            json!({}),
        )
        .service(
            "api",
            "10.96.0.12",
            &[("grpc", 9000, 9000), ("http2-x", 9003, 9003), ("grpc-web", 9500, 9500)],
            API,
            json!({}),
        )
        .service(
            "db",
            "10.96.0.13",
            &[("mysql", 3306, 3306), ("redis", 6379, 6379), ("pg", 5432, 5432)],
            DB,
            json!({}),
        )
        .service("bare", "10.96.0.14", &[("", 3306, 3306)], DB, json!({}))
        .service(
            "sticky",
            "10.96.0.22",
            &[("http", 8090, 8080), ("tcp", 6392, 6392)],
            WEB,
            json!({"sessionAffinity": "ClientIP"}),
        )
        .service(
            "empty",
            "10.96.0.26",
            &[("http", 8094, 8080), ("tcp", 6393, 6393)],
            &[],
            json!({}),
        )
        .service("other/web", "10.96.0.33", &[("http", 80, 8080)], &[], json!({}))
        .protocols()
        .exported("other/private", "10.96.0.34", ".")
        .exported("other/hidden", "10.96.0.35", "~")
    }

    /// Adds a service with `appProtocol` and one with UDP.
    fn protocols(self) -> Self {
        let port = |name: &str, port: u16, app: &str| json!({"name": name, "port": port, "appProtocol": app});
        let declared = json!({"clusterIP": "10.96.0.38", "ports": [
            port("a", 9600, "kubernetes.io/h2c"),
            port("b", 9601, "kubernetes.io/ws"),
            port("c", 9602, "kubernetes.io/wss"),
            port("d", 9603, "HTTP"),
            port("tcp-e", 9604, "other.io/x"),
        ]});
        let dns = json!({"clusterIP": "10.96.0.29", "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53},
        ]});
        self.with("declared", |service| service["spec"] = declared)
            .with("dns", |service| service["spec"] = dns)
    }

    /// Adds a service that is exported to these namespaces. Like all, it has an address: one that the
    /// API server chooses may be that of a later service.
    fn exported(self, key: &str, address: &str, to: &str) -> Self {
        self.with(key, |service| {
            service["metadata"]["annotations"] = json!({"networking.istio.io/exportTo": to});
            service["spec"] =
                json!({"clusterIP": address, "ports": [{"name": "http", "port": 80}]});
        })
    }

    /// Adds a service of `shop`, or `NAMESPACE/NAME`.
    fn with(mut self, key: &str, fill: impl FnOnce(&mut Value)) -> Self {
        let mut service = object("v1", "Service", key);
        fill(&mut service);
        self.objects.push(service);
        self
    }

    fn headless(self) -> Self {
        let ports: &[Port] = &[("tcp-peer", 6380, 6380), ("http", 8081, 8081), ("any", 7001, 7001)];
        self.pod("nodes-0", "nodes", &["10.0.0.6"], true, "")
            .pod("nodes-1", "nodes", &["10.0.0.7"], true, "")
            .service("nodes", "None", ports, &["10.0.0.6 nodes-0", "10.0.0.7 nodes-1"], json!({}))
            .pod("mix-0", "mix", &["10.0.0.8"], true, "")
            .pod("mix-1", "mix", &["10.0.0.9"], false, "")
            .service(
                "mix",
                "None",
                &[("tcp-peer", 6381, 6381), ("http", 8082, 8082)],
                &["10.0.0.8 mix-0", "10.0.0.9 mix-1 unready"],
                json!({"publishNotReadyAddresses": true}),
            )
            .pod("off-0", "off", &["10.0.0.10"], true, "NONE")
            .pod("off-1", "off", &["10.0.0.11"], true, "NONE")
            .service(
                "off",
                "None",
                &[("tcp-peer", 6382, 6382), ("http", 8083, 8083)],
                &["10.0.0.10 off-0", "10.0.0.11 off-1 unready"],
                json!({}),
            )
            .service("lonely", "None", &[("tcp", 6384, 6384), ("http", 8085, 8085)], &[], json!({}))
    }

    fn aliases(self) -> Self {
        let to = |host: &str| json!({"type": "ExternalName", "externalName": host});
        self.service(
            "ext",
            "",
            &[("http", 80, 80), ("tcp", 5000, 5000)],
            &[],
            to("www.example.com"),
        )
        .service(
            "alias",
            "",
            &[("http", 80, 80), ("tcp", 9090, 9090), ("http-no", 12345, 12345)],
            &[],
            to("web.shop.svc.cluster.local"),
        )
    }

    fn families(self) -> Self {
        let ports: &[Port] = &[("http", 80, 8080), ("tcp", 6390, 6390)];
        let both = json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"],
            "clusterIPs": ["10.96.0.20", "fd96::20"]});
        let second = json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"], "clusterIPs": ["fd96::21"]});
        let ports6: &[Port] = &[("http", 80, 8080), ("tcp", 6391, 6391)];
        self.service("dual", "10.96.0.20", ports, &["10.0.0.20 dual-1", "fd00::20 dual-1"], both)
            .service("six", "fd96::21", ports6, &["fd00::20 dual-1"], second)
    }

    fn placement(self) -> Self {
        self.service(
            "local",
            "10.96.0.23",
            &[("http", 8091, 8080)],
            WEB,
            json!({"internalTrafficPolicy": "Local"}),
        )
        .service(
            "zonal",
            "10.96.0.24",
            &[("http", 8092, 8080)],
            WEB,
            json!({"trafficDistribution": "PreferSameZone"}),
        )
        .service(
            "near",
            "10.96.0.25",
            &[("http", 8093, 8080)],
            WEB,
            json!({"trafficDistribution": "PreferSameNode"}),
        )
    }

    fn health(self) -> Self {
        self.pod("sick-1", "sick", &["10.0.0.30"], true, "")
            .pod("sick-2", "sick", &["10.0.0.31"], true, "")
            .service(
                "sick",
                "10.96.0.27",
                &[("http", 8095, 8080)],
                &["10.0.0.30 sick-1 unready", "10.0.0.31 sick-2"],
                json!({}),
            )
    }

    fn policies(mut self) -> Self {
        let mut policy = |name: &str, spec: Value| {
            let mut policy = object("security.istio.io/v1", "PeerAuthentication", name);
            policy["spec"] = spec;
            policy["spec"]["selector"] = json!({"matchLabels": {"app": name}});
            self.objects.push(policy);
        };
        let ports = json!({"3306": {"mode": "DISABLE"}, "4444": {"mode": "PERMISSIVE"}});
        policy("db", json!({"mtls": {"mode": "STRICT"}, "portLevelMtls": ports}));
        let ports = json!({"8080": {"mode": "STRICT"}, "5555": {"mode": "STRICT"}});
        policy("web", json!({"portLevelMtls": ports}));
        self
    }

    /// Adds a pod on the node of its number.
    fn pod(
        mut self,
        name: &str,
        app: &str,
        addresses: &[&str],
        labelled: bool,
        mode: &str,
    ) -> Self {
        let mut pod = object("v1", "Pod", name);
        pod["metadata"]["labels"] = json!({"app": app});
        if labelled {
            pod["metadata"]["labels"]["security.istio.io/tlsMode"] = "istio".into();
        }
        if !mode.is_empty() {
            pod["metadata"]["annotations"] = json!({"sidecar.istio.io/interceptionMode": mode});
        }
        let mut status = object("v1", "Pod", name);
        pod["spec"] = json!({
            "serviceAccountName": app, "nodeName": node(name), "hostname": name, "subdomain": app,
            "containers": [{"name": "app", "image": "app"}],
        });
        self.objects.push(pod);
        let ready = if UNREADY.contains(&name) { "False" } else { "True" };
        let addresses: Vec<_> = addresses.iter().map(|address| json!({"ip": address})).collect();
        status["status"] = json!({
            "phase": "Running", "podIP": addresses[0]["ip"], "podIPs": addresses,
            "conditions": [{"type": "Ready", "status": ready}],
        });
        self.statuses.push(status);
        self
    }

    /// Adds a service of `shop`, or `NAMESPACE/NAME`, and a slice per family with its endpoints:
    /// address, pod and possibly `unready`.
    fn service(
        mut self,
        key: &str,
        address: &str,
        ports: &[Port],
        endpoints: &[&str],
        more: Value,
    ) -> Self {
        let listed = ports
            .iter()
            .map(|(name, port, target)| json!({"name": name, "port": port, "targetPort": target}));
        let mut service = object("v1", "Service", key);
        service["spec"] = more;
        service["spec"]["ports"] = listed.collect();
        if !address.is_empty() {
            service["spec"]["clusterIP"] = address.into();
        }
        if let Some(app) = endpoints.first().and_then(|it| it.split(' ').nth(1)) {
            service["spec"]["selector"] = json!({"app": app.split_once('-').unwrap().0});
        }
        self.objects.push(service);
        for (family, sign) in [("IPv4", '.'), ("IPv6", ':')] {
            let members = endpoints.iter().filter(|it| it.contains(sign));
            let members: Vec<_> = members.map(|it| endpoint(it)).collect();
            if !members.is_empty() {
                let name = format!("{key}-{}", family.to_lowercase());
                let mut slice = object("discovery.k8s.io/v1", "EndpointSlice", &name);
                slice["metadata"]["labels"] = json!({"kubernetes.io/service-name": key});
                slice["addressType"] = family.into();
                let ports = ports.iter();
                slice["ports"] =
                    ports.map(|(name, _, target)| json!({"name": name, "port": target})).collect();
                slice["endpoints"] = members.into();
                self.objects.push(slice);
            }
        }
        self
    }
}

/// Object of `shop`, or `NAMESPACE/NAME`. Namespaces and nodes have no namespace.
fn object(version: &str, kind: &str, key: &str) -> Value {
    let (namespace, name) = key.split_once('/').unwrap_or(("shop", key));
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    if !["Namespace", "Node"].contains(&kind) {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn endpoint(text: &str) -> Value {
    let parts: Vec<_> = text.split(' ').collect();
    let (address, pod, ready) = (parts[0], parts[1], parts.len() == 2);
    let zone = ZONES.iter().find(|it| it.0 == node(pod)).unwrap().1;
    json!({"addresses": [address], "hostname": pod, "nodeName": node(pod), "zone": zone,
        "conditions": {"ready": ready, "serving": ready},
        "targetRef": {"kind": "Pod", "name": pod, "namespace": "shop"}})
}

/// Node of a pod: the first ones are on `node-a`.
fn node(pod: &str) -> &'static str {
    if pod.ends_with("-2") { "node-b" } else { "node-a" }
}

const UNREADY: [&str; 3] = ["mix-1", "off-1", "sick-1"];
const ZONES: [(&str, &str); 2] = [("node-a", "z1"), ("node-b", "z2")];
const WEB: &[&str] = &["10.0.0.1 web-1", "10.0.0.2 web-2"];
const API: &[&str] = &["10.0.0.3 api-1", "10.0.0.4 api-2"];
const DB: &[&str] = &["10.0.0.5 db-1"];
