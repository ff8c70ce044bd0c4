//! From start to ready: certificates, names, metrics, and the other commands.

use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use e2e::mesh_authority::MeshAuthority;
use e2e::netns::Namespace;
use envoy_types::pb::envoy::config::core::v3::TrafficDirection;
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use serde_json::json;

use crate::control_plane::resources::{Port, Tls};
use crate::control_plane::{Configuration, ControlPlane};
use crate::fixture::{BACKEND_PORT, Pod};
use crate::load::start_backend;
use crate::tests;

tests![
    agent_serves_with_delta_xds,
    agent_serves_with_state_of_the_world_xds,
    envoys_of_two_pods_speak_mtls,
    waiting_envoy_is_explained,
];

fn agent_serves_with_delta_xds() -> Result<()> {
    agent_serves("true")
}

fn agent_serves_with_state_of_the_world_xds() -> Result<()> {
    agent_serves("false")
}

fn agent_serves(delta: &str) -> Result<()> {
    let mut configuration = Configuration::http(8080, BACKEND_PORT);
    configuration.names = vec![("db.example", "192.0.2.7")];
    let mut pod = Pod::with_configuration(configuration.clone())?;
    start_backend(&pod.namespace)?;
    pod.environment.extend([
        ("ISTIO_DELTA_XDS", delta.to_owned()),
        ("ISTIO_META_DNS_CAPTURE", "true".to_owned()),
        ("ISTIO_PROMETHEUS_ANNOTATIONS", metrics_of_application()),
    ]);
    pod.start()?;
    pod.run(&["wait", "--timeoutSeconds", "60"]).with_context(|| pod.log())?;
    pod.wait_until_ready()?;
    ensure!(pod.get(15021, "/healthz/ready")?.status == 200);
    pod.wait_for_answer(8080)?;

    ensure!(resolve(&pod, "db.example.")? == ["192.0.2.7"]);
    let page = pod.get(15020, "/stats/prometheus")?.body;
    let at = |text: &str| page.find(text).with_context(|| format!("no {text} in {page}"));
    let order =
        [at("istio_agent_envoy_epoch 0")?, at("\nenvoy_server_live")?, at("\norders_total 7")?];
    ensure!(order.is_sorted(), "{order:?}");
    let info = pod.run(&["request", "GET", "server_info"])?;
    ensure!(info.contains("\"state\": \"LIVE\""), "{info}");
    let ready = pod.run(&["request", "--debug-port", "15021", "GET", "healthz/ready"])?;
    ensure!(ready == "ready\n", "{ready:?}");
    ensure!(pod.run(&["version"])?.starts_with("pilot-agent version: "));

    // A pushed configuration arrives without restart.
    configuration.version = 2;
    configuration.ports.extend(Configuration::http(8081, BACKEND_PORT).ports);
    configuration.names = vec![("db.example", "192.0.2.8")];
    pod.plane.push(configuration);
    pod.wait_for_answer(8081)?;
    e2e::wait::until("the name has another address", || {
        let addresses = resolve(&pod, "db.example.")?;
        ensure!(addresses == ["192.0.2.8"], "{addresses:?}");
        Ok::<_, anyhow::Error>(())
    })?;
    ensure!(pod.envoys().len() == 1 && pod.envoys()[0].0 == 0);
    pod.stop()
}

fn metrics_of_application() -> String {
    json!({ "scrape": "true", "path": "/metrics", "port": BACKEND_PORT.to_string() }).to_string()
}

/// Asks the agent's DNS proxy for the addresses of a name.
fn resolve(pod: &Pod, name: &str) -> Result<Vec<String>> {
    let mut query = Message::new(7, MessageType::Query, OpCode::Query);
    query.add_query(Query::query(Name::from_ascii(name)?, RecordType::A));
    let query = query.to_vec()?;
    let answer = pod.namespace.run(|| {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(e2e::wait::TIMEOUT))?;
        socket.send_to(&query, "127.0.0.1:15053")?;
        let mut answer = vec![0; 512];
        let length = socket.recv(&mut answer)?;
        answer.truncate(length);
        Ok::<_, std::io::Error>(answer)
    })??;
    let answer = Message::from_vec(&answer)?;
    Ok(answer.answers.iter().map(|record| record.data.to_string()).collect())
}

fn envoys_of_two_pods_speak_mtls() -> Result<()> {
    let authority = Arc::new(MeshAuthority::create()?);
    let [client, server] = [Namespace::create()?, Namespace::create()?].map(Rc::new);
    client.connect("eth0", &server, "eth0")?;
    client.ip("address add 10.7.0.1/24 dev eth0")?;
    server.ip("address add 10.7.0.2/24 dev eth0")?;
    start_backend(&server)?;
    let port = |listen: &str, to: &str, tls| Configuration {
        version: 1,
        ports: vec![Port {
            listen: listen.parse().unwrap(),
            to: to.parse().unwrap(),
            tls,
            direction: TrafficDirection::Inbound,
        }],
        ..Configuration::default()
    };
    let remote = "10.7.0.2:8443";
    let backend = SocketAddr::from(([127, 0, 0, 1], BACKEND_PORT)).to_string();
    let pod = |namespace: &Rc<Namespace>, account, configuration| {
        let authority = Arc::clone(&authority);
        let plane = ControlPlane::start(namespace, authority, configuration)?;
        Pod::prepare(Rc::clone(namespace), Rc::new(plane), account)?.started()
    };
    let mut server =
        pod(&server, "web-server", port(remote, &backend, Tls::Downstream("web-client")))?;
    let outbound = port("127.0.0.1:8080", remote, Tls::Upstream("web-server"));
    let mut client = pod(&client, "web-client", outbound.clone())?;
    client.wait_for_answer(8080)?;
    let certificates = client.get(15000, "/certs")?.body;
    ensure!(
        certificates.contains("spiffe://cluster.local/ns/shop/sa/web-client"),
        "{certificates}"
    );
    client.stop()?;

    // The server admits one identity.
    let plane = Rc::clone(&client.plane);
    let mut stranger = Pod::prepare(Rc::clone(&client.namespace), plane, "other")?.started()?;
    let answer = stranger.get(8080, "/")?;
    ensure!(answer.status == 503, "{answer:?}");
    stranger.stop()?;
    server.stop()
}

fn waiting_envoy_is_explained() -> Result<()> {
    let mut pod = Pod::new()?;
    pod.plane.stop();
    pod.start()?;
    pod.wait_for_readiness(503, "no connection to the control plane")?;
    pod.wait_for_readiness(503, "Envoy has not received configuration from the control plane")?;
    pod.plane.resume();
    pod.wait_until_ready()?;
    pod.wait_for_no_condition()?;
    pod.stop()
}
