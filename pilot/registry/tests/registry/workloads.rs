//! Rules for pods: their addresses, identities, and the services that lead to them.

use std::net::IpAddr;

use pilot_registry::event::{Event, ObjectKey, Update};
use pilot_registry::index::Index;
use pilot_registry::snapshot::Snapshot;

use crate::fixture::{WEB, endpoints, events, host, pod, service, slice, snapshot};

fn owner(snapshot: &Snapshot, address: &str) -> Option<String> {
    let address: IpAddr = address.parse().unwrap();
    snapshot.workload_at(address).map(|workload| workload.name.to_string())
}

#[test]
fn pod_gives_labels_account_node_tls_mode_and_names() {
    let pod = pod(
        "web-1",
        "labels: {app: web, security.istio.io/tlsMode: istio}",
        "serviceAccountName: web, nodeName: n1, hostname: web-1, subdomain: web",
        "podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: \"fd00::1\"}]",
    );
    let found = snapshot(&pod);
    let workload = found.workload("shop", "web-1").unwrap();
    assert!(workload.takes_mtls);
    assert_eq!(workload.labels.get("app").map(|value| &**value), Some("web"));
    assert_eq!((&*workload.service_account, &*workload.node), ("web", "n1"));
    assert_eq!(workload.hostname.as_deref(), Some("web-1"));
    assert_eq!(workload.subdomain.as_deref(), Some("web"));
    assert_eq!(owner(&found, "10.0.0.1").as_deref(), Some("web-1"));
    assert_eq!(owner(&found, "fd00::1").as_deref(), Some("web-1"));
}

#[test]
fn workload_is_named_after_its_controller() {
    let hash = "labels: {pod-template-hash: 7d9f}";
    let owner = |kind: &str, name: &str| {
        format!("ownerReferences: [{{kind: {kind}, name: {name}, controller: true}}]")
    };
    for (metadata, expected) in [
        (String::new(), "web-1"),
        (owner("StatefulSet", "web"), "web"),
        (format!("{hash}, {}", owner("ReplicaSet", "web-7d9f")), "web"),
        (format!("{hash}, {}", owner("Rollout", "web-7d9f")), "web-7d9f"),
        (owner("ReplicaSet", "web-7d9f"), "web-7d9f"),
        ("ownerReferences: [{kind: Node, name: other}]".to_owned(), "web-1"),
    ] {
        let found = snapshot(&pod("web-1", &metadata, "", "podIP: 10.0.0.1"));
        let workload = found.workload("shop", "web-1").unwrap();
        assert_eq!(&*workload.owner, expected, "{metadata}");
    }
}

#[test]
fn only_the_label_istio_with_capture_means_mutual_tls() {
    let istio = "labels: {security.istio.io/tlsMode: istio}";
    let capture =
        |mode: &str| format!("{istio}, annotations: {{sidecar.istio.io/interceptionMode: {mode}}}");
    for (metadata, takes_mtls) in [
        ("labels: {}", false),
        ("labels: {security.istio.io/tlsMode: disabled}", false),
        (istio, true),
        (&capture("TPROXY"), true),
        // Connections reach the application.
        (&capture("NONE"), false),
    ] {
        let pod = pod("web-1", metadata, "", "podIP: 10.0.0.1");
        let found = snapshot(&pod).workload("shop", "web-1").unwrap().takes_mtls;
        assert_eq!(found, takes_mtls, "{metadata}");
    }
}

#[test]
fn pod_without_account_has_the_default_one() {
    let found = snapshot(&pod("web-1", "", "", ""));
    assert_eq!(&*found.workload("shop", "web-1").unwrap().service_account, "default");
}

#[test]
fn pods_with_the_nodes_network_own_no_address() {
    let shared = pod("agent", "", "hostNetwork: true", "podIP: 10.0.0.1");
    let found = snapshot(&shared);
    assert_eq!(owner(&found, "10.0.0.1"), None);
    // A slice names its pod, so two of a node differ.
    let other = pod("other", "", "hostNetwork: true", "podIP: 10.0.0.1");
    let slice = slice("s", "{addresses: [10.0.0.1], targetRef: {kind: Pod, name: other}}");
    let found = snapshot(&[WEB, &shared, &other, &slice].concat());
    let names = endpoints(&found, |it| it.workload.as_ref().map(|it| it.name.to_string()));
    assert_eq!(names, [Some("other".to_owned())]);
}

#[test]
fn finished_pod_frees_its_address_for_a_later_one() {
    for phase in ["Succeeded", "Failed"] {
        let finished = pod("old", "", "", &format!("podIP: 10.0.0.1, phase: {phase}"));
        let found = snapshot(&finished);
        assert_eq!(owner(&found, "10.0.0.1"), None);
        assert!(found.workload("shop", "old").is_none());
        let later = pod("new", "", "", "podIP: 10.0.0.1, phase: Running");
        let found = snapshot(&format!("{finished}{later}"));
        assert_eq!(owner(&found, "10.0.0.1").as_deref(), Some("new"));
    }
}

#[test]
fn youngest_pod_owns_a_reused_address() {
    let created = |name: &str, day: &str| {
        let metadata = format!("creationTimestamp: \"2026-01-{day}T00:00:00Z\"");
        pod(name, &metadata, "", "podIP: 10.0.0.1, phase: Running")
    };
    let found = snapshot(&[created("a", "02"), created("b", "01")].concat());
    assert_eq!(owner(&found, "10.0.0.1").as_deref(), Some("a"));
}

#[test]
fn endpoint_gets_its_workload_when_the_pod_arrives_later() {
    let slice = slice("s", "{addresses: [10.0.0.1], targetRef: {kind: Pod, name: web-1}}");
    let mut index = Index::from_events(events(&format!("{WEB}{slice}")));
    let names = |index: &Index| {
        endpoints(&index.snapshot(), |it| it.workload.as_ref().map(|it| it.name.to_string()))
    };
    assert_eq!(names(&index), [None]);
    let pods = events(&pod("web-1", "", "", "podIP: 10.0.0.1"));
    let pods = pods.into_iter().find(|event| matches!(event, Event::Pods(_))).unwrap();
    let changes = index.apply(pods);
    assert!(changes.endpoint_sets.contains(&(host("web"), 80)));
    assert_eq!(names(&index), [Some("web-1".to_owned())]);
    let gone = index.apply(Event::Pods(Update::Delete(ObjectKey::new("shop", "web-1"))));
    assert!(gone.endpoint_sets.contains(&(host("web"), 80)));
    assert_eq!(names(&index), [None]);
}

#[test]
fn recreated_pod_lends_its_labels_to_its_own_address_only() {
    // The slice still has the address of the pod's predecessor.
    let slice = slice("s", "{addresses: [10.0.0.1], targetRef: {kind: Pod, name: web-1}}");
    let found = snapshot(&[WEB, &slice, &pod("web-1", "", "", "podIP: 10.0.0.2")].concat());
    assert!(endpoints(&found, |it| it.workload.is_none())[0]);
}

#[test]
fn hand_written_endpoint_has_the_pod_at_its_address() {
    let slice = slice("s", "{addresses: [10.0.0.1]}");
    let found = snapshot(&[WEB, &slice, &pod("web-1", "", "", "podIP: 10.0.0.1")].concat());
    let names = endpoints(&found, |it| it.workload.as_ref().map(|it| it.name.to_string()));
    assert_eq!(names, [Some("web-1".to_owned())]);
}

#[test]
fn service_accounts_are_those_behind_the_port() {
    let pods = [("web-1", "web", 1), ("web-2", "new", 2), ("db-1", "db", 3)].map(
        |(name, account, last)| {
            pod(
                name,
                "",
                &format!("serviceAccountName: {account}"),
                &format!("podIP: 10.0.0.{last}"),
            )
        },
    );
    let slice = slice("s", "{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}");
    let found = snapshot(&[WEB, &pods.concat(), &slice].concat());
    let accounts = found.service_accounts(&host("web"), 80);
    let accounts: Vec<_> =
        accounts.iter().map(|(namespace, name)| (&**namespace, &**name)).collect();
    assert_eq!(accounts, [("shop", "new"), ("shop", "web")]);
}

#[test]
fn inbound_targets_are_those_of_selecting_services_oldest_first() {
    let spec =
        |port: &str, selector: &str| format!("ports: [{{{port}}}], selector: {{{selector}}}");
    let age = |day: &str| format!("creationTimestamp: \"2026-01-{day}T00:00:00Z\"");
    let objects = [
        service("young", &spec("port: 80, targetPort: 8080", "app: web"), &age("02")),
        service("old", &spec("port: 81, targetPort: 8080", "app: web, v: v1"), &age("01")),
        service("low", &spec("port: 82, targetPort: 7070", "app: web"), &age("03")),
        service("other", &spec("port: 83", "app: db"), &age("01")),
        service("all", "ports: [{port: 84}]", &age("01")),
        service(
            "alias",
            &format!("type: ExternalName, externalName: a.test, {}", spec("port: 85", "app: web")),
            "",
        ),
        service("pay", &spec("port: 86", "app: web"), "")
            .replace("namespace: shop", "namespace: pay"),
        pod("web-1", "labels: {app: web, v: v1}", "", "podIP: 10.0.0.1"),
    ];
    let found = snapshot(&objects.concat());
    let targets = found.inbound_targets(found.workload("shop", "web-1").unwrap());
    let targets: Vec<_> = targets
        .iter()
        .map(|target| (target.port, target.service.as_str(), target.service_port.number))
        .collect();
    assert_eq!(
        targets,
        [
            (7070, "low.shop.svc.cluster.local", 82),
            (8080, "old.shop.svc.cluster.local", 81),
            (8080, "young.shop.svc.cluster.local", 80),
        ]
    );
}

#[test]
fn named_target_port_is_resolved_on_the_pods_containers() {
    let web = service(
        "web",
        "ports: [{name: http, port: 80, targetPort: web}, {name: none, port: 81, targetPort: none}, \
         {name: dns, port: 53, protocol: UDP, targetPort: web}], selector: {app: web}",
        "",
    );
    let containers = |spec: &str| {
        let found = snapshot(&format!("{web}{}", pod("p", "labels: {app: web}", spec, "")));
        let targets = found.inbound_targets(found.workload("shop", "p").unwrap());
        targets.iter().map(|it| (it.service_port.number, it.port)).collect::<Vec<_>>()
    };
    let port = |number: u16| format!("ports: [{{name: web, containerPort: {number}}}]");
    assert_eq!(containers(&format!("containers: [{{}}, {{{}}}]", port(8080))), [(80, 8080)]);
    let sidecar = format!("initContainers: [{{restartPolicy: Always, {}}}]", port(9090));
    assert_eq!(containers(&sidecar), [(80, 9090)]);
    assert_eq!(containers(&format!("initContainers: [{{{}}}]", port(9090))), []);
    let udp = "containers: [{ports: [{name: web, containerPort: 5353, protocol: UDP}]}]";
    assert_eq!(containers(udp), [(53, 5353)]);
}
