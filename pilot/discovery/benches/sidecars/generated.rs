//! Envoys with this program's configuration, started by agents. Each pod has a control plane of its
//! own, since plaintext is for loopback; both read the same files.

use std::net::{Ipv4Addr, SocketAddr};

use e2e::http;
use e2e::netns::Namespace;
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::run_folder::RunFolder;
use serde_json::json;

use crate::certificates::Certificates;
use crate::pair::{self, Hosts, Pair};

pub(crate) fn start(folder: &RunFolder, hosts: &Hosts, certificates: &Certificates) -> Pair {
    folder.write("mesh/mesh.yaml", mesh()).unwrap();
    let pods = [
        Pod {
            name: "client",
            address: pair::CLIENT,
            // The application addresses its sidecar's listener itself.
            interception: "NONE",
            identity: pair::CLIENT_IDENTITY,
        },
        Pod {
            name: "web",
            address: pair::SERVER,
            interception: "REDIRECT",
            identity: pair::SERVER_IDENTITY,
        },
    ];
    let (mut servers, mut sidecars) = (Vec::new(), Vec::new());
    for (namespace, pod) in [&hosts.client, &hosts.server].into_iter().zip(pods) {
        servers.push(pod.start_control_plane(folder, namespace));
        sidecars.push(pod.start_agent(folder, namespace, certificates));
        pod.wait_until_ready(namespace, sidecars.last_mut().unwrap());
    }
    let listener = SocketAddr::from((Ipv4Addr::LOCALHOST, SERVICE_PORT));
    Pair { listener, admin: ADMIN_PORT, sidecars, _servers: servers }
}

struct Pod {
    name: &'static str,
    address: Ipv4Addr,
    interception: &'static str,
    identity: &'static str,
}

impl Pod {
    fn start_control_plane(&self, folder: &RunFolder, namespace: &Namespace) -> Process {
        let arguments = [
            env!("CARGO_BIN_EXE_pilot-discovery").to_owned(),
            "discovery".to_owned(),
            "--registries=Files".to_owned(),
            format!("--configDir={}", folder.node().join("mesh").display()),
            format!("--grpcAddr=127.0.0.1:{GRPC_PORT}"),
            "--httpAddr=".to_owned(),
            "--monitoringAddr=".to_owned(),
        ];
        let name = format!("pilot-discovery-{}", self.name);
        pair::start_in(namespace, folder, &name, &arguments)
    }

    fn start_agent(
        &self,
        folder: &RunFolder,
        namespace: &Namespace,
        certificates: &Certificates,
    ) -> Process {
        let container = folder.folder(self.name).unwrap();
        for name in ["etc/istio/proxy", "etc/istio/pod", "var/run/secrets/workload-spiffe-uds"] {
            folder.folder(&format!("{}/{name}", self.name)).unwrap();
        }
        let mounted = format!("{}/var/run/secrets/workload-spiffe-credentials", self.name);
        certificates.write(&folder.folder(&mounted).unwrap(), self.identity);
        let config = json!({
            "binaryPath": Programs::find().unwrap().envoy().unwrap(),
            "discoveryAddress": format!("127.0.0.1:{GRPC_PORT}"),
            "concurrency": 1,
        });
        let account = self.identity.rsplit('/').next().unwrap();
        let arguments = [
            "/usr/bin/env".to_owned(),
            format!("--chdir={}", container.display()),
            format!("POD_NAME={}-1", self.name),
            "POD_NAMESPACE=shop".to_owned(),
            format!("INSTANCE_IP={}", self.address),
            format!("SERVICE_ACCOUNT={account}"),
            "TRUST_DOMAIN=cluster.local".to_owned(),
            "ISTIO_META_CLUSTER_ID=Kubernetes".to_owned(),
            format!("ISTIO_META_INTERCEPTION_MODE={}", self.interception),
            "FILE_MOUNTED_CERTS=true".to_owned(),
            format!("PROXY_CONFIG={config}"),
            std::env::current_exe().unwrap().display().to_string(),
            "proxy".to_owned(),
            "sidecar".to_owned(),
            "--domain=shop.svc.cluster.local".to_owned(),
        ];
        let name = format!("pilot-agent-{}", self.name);
        pair::start_in(namespace, folder, &name, &arguments)
    }

    fn wait_until_ready(&self, namespace: &Namespace, agent: &mut Process) {
        let status = SocketAddr::from((self.address, STATUS_PORT));
        let probe = || namespace.run(|| http::get(status, "/healthz/ready"))??.expect_ok();
        agent.wait_until("the agent's readiness", probe).unwrap();
    }
}

/// A service with one endpoint, whose pod takes mutual TLS.
fn mesh() -> String {
    let (server, port) = (pair::SERVER, pair::APPLICATION.port());
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: shop}}\n\
         spec: {{clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], selector: {{app: web}},\n\
         \x20 ports: [{{name: http, port: {SERVICE_PORT}, targetPort: {port}}}]}}\n\
         ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
         metadata: {{name: web-1, namespace: shop, labels: {{kubernetes.io/service-name: web}}}}\n\
         ports: [{{name: http, port: {port}}}]\n\
         endpoints: [{{addresses: [\"{server}\"], conditions: {{ready: true}},\n\
         \x20 targetRef: {{kind: Pod, name: web-1, namespace: shop}}}}]\n\
         ---\napiVersion: v1\nkind: Pod\n\
         metadata: {{name: web-1, namespace: shop,\n\
         \x20 labels: {{app: web, security.istio.io/tlsMode: istio}}}}\n\
         spec: {{serviceAccountName: web}}\n\
         status: {{phase: Running, podIP: {server}, podIPs: [{{ip: {server}}}]}}\n"
    )
}

const SERVICE_PORT: u16 = 8000;
/// Port on which agents expect plaintext.
const GRPC_PORT: u16 = 15010;
const ADMIN_PORT: u16 = 15000;
const STATUS_PORT: u16 = 15020;
