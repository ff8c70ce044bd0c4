//! Rules for endpoints: health, slices, locality.

use pilot_registry::endpoint::Health;
use pilot_registry::index::Index;
use pilot_registry::labels::Labels;

use crate::fixture::{
    WEB, endpoints, events, host, node, pod, service, slice, slice_with, snapshot,
};

#[test]
fn health_follows_conditions() {
    let persistent = service(
        "web",
        "clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]",
        "labels: {istio.io/persistent-session: cookie}",
    );
    for (conditions, health, with_sessions) in [
        ("", Some(Health::Healthy), Some(Health::Healthy)),
        ("ready: null", Some(Health::Healthy), Some(Health::Healthy)),
        ("ready: true, serving: true", Some(Health::Healthy), Some(Health::Healthy)),
        ("ready: false", Some(Health::Unhealthy), Some(Health::Unhealthy)),
        ("ready: false, serving: true", Some(Health::Unhealthy), Some(Health::Unhealthy)),
        ("ready: false, serving: true, terminating: true", None, Some(Health::Draining)),
        ("ready: false, serving: false, terminating: true", None, None),
    ] {
        let slice = slice("s", &format!("{{addresses: [10.0.0.1], conditions: {{{conditions}}}}}"));
        let found = |service: &str| {
            let found = endpoints(&snapshot(&format!("{service}{slice}")), |it| it.health);
            assert!(found.len() < 2);
            found.first().copied()
        };
        assert_eq!(found(WEB), health, "{conditions}");
        assert_eq!(found(&persistent), with_sessions, "{conditions} with persistent sessions");
    }
}

#[test]
fn new_and_terminating_pod_give_one_healthy_endpoint() {
    let slice = slice(
        "s",
        "{addresses: [10.0.0.1], conditions: {ready: false, serving: true, terminating: true}}, \
         {addresses: [10.0.0.2], conditions: {ready: true}}",
    );
    let found = endpoints(&snapshot(&format!("{WEB}{slice}")), |it| (it.address, it.health));
    assert_eq!(found, [("10.0.0.2".parse().unwrap(), Health::Healthy)]);
}

#[test]
fn slices_of_names_and_of_other_clusters_are_ignored() {
    let names = slice_with("s", "addressType: FQDN, ports: [{name: http, port: 8080}]", "");
    let names = names.replace("endpoints: []", "endpoints: [{addresses: [a.test]}]");
    let imported = slice("t", "{addresses: [10.0.0.1]}")
        .replace("labels: {", "labels: {multicluster.kubernetes.io/service-name: web, ");
    let foreign = slice("u", "{addresses: [10.0.0.2]}").replace("service-name: web", "other: web");
    let all = [WEB, &names, &imported, &foreign].concat();
    assert_eq!(endpoints(&snapshot(&all), |it| it.address.to_string()), Vec::<String>::new());
}

#[test]
fn slices_of_both_families_are_joined() {
    let six = slice_with(
        "six",
        "addressType: IPv6, ports: [{name: http, port: 8080}]",
        "{addresses: [\"fd00::1\"]}",
    );
    let both = [WEB, &slice("four", "{addresses: [10.0.0.1]}"), &six].concat();
    let found = endpoints(&snapshot(&both), |it| it.address.to_string());
    assert_eq!(found, ["10.0.0.1", "fd00::1"]);
}

#[test]
fn address_in_two_slices_is_one_endpoint_in_its_best_state() {
    let one = slice("a", "{addresses: [10.0.0.1], conditions: {ready: false}}");
    let other = slice("b", "{addresses: [10.0.0.1], conditions: {ready: true}}");
    for both in [[WEB, &one, &other].concat(), [WEB, &other, &one].concat()] {
        assert_eq!(endpoints(&snapshot(&both), |it| it.health), [Health::Healthy]);
    }
}

#[test]
fn ports_of_slices_are_matched_by_name() {
    let ports = "addressType: IPv4, ports: [{name: http, port: 8080}, {name: grpc, port: 9090}, \
                 {name: http}]";
    let slice = slice_with("s", ports, "{addresses: [10.0.0.1]}");
    let found = snapshot(&format!("{WEB}{slice}"));
    assert_eq!(endpoints(&found, |it| it.port), [8080]);
    let unnamed = service("web", "clusterIP: 10.96.0.1, ports: [{port: 80}]", "");
    let slice = slice_with(
        "s",
        "addressType: IPv4, ports: [{name: \"\", port: 8080}]",
        "{addresses: [10.0.0.1]}",
    );
    assert_eq!(endpoints(&snapshot(&format!("{unnamed}{slice}")), |it| it.port), [8080]);
}

#[test]
fn impossible_ports_of_slices_are_left_out() {
    let ports = "addressType: IPv4, ports: [{name: http, port: 0}, {name: http, port: -1}, \
                 {name: http, port: 70000}, {name: http, port: 65535}]";
    let slice = slice_with("s", ports, "{addresses: [10.0.0.1]}");
    assert_eq!(endpoints(&snapshot(&format!("{WEB}{slice}")), |it| it.port), [65535]);
}

/// The controller of slices puts pods with another number of the port, or without it, into slices
/// of their own.
#[test]
fn named_target_port_differs_between_slices() {
    let web = service(
        "web",
        "clusterIP: 10.96.0.1, ports: [{name: http, port: 80, targetPort: web}], selector: {app: web}",
        "",
    );
    let ports = |number: u16| format!("addressType: IPv4, ports: [{{name: http, port: {number}}}]");
    let slices = [
        slice_with("old", &ports(8080), "{addresses: [10.0.0.1]}"),
        slice_with("new", &ports(9090), "{addresses: [10.0.0.2]}"),
        slice_with("none", "addressType: IPv4, ports: []", "{addresses: [10.0.0.3]}"),
    ];
    let pods = [("old", "web", 8080, 1), ("new", "web", 9090, 2), ("none", "other", 8080, 3)];
    let pods = pods.map(|(name, port, number, last)| {
        let ports = format!("containers: [{{ports: [{{name: {port}, containerPort: {number}}}]}}]");
        pod(name, "labels: {app: web}", &ports, &format!("podIP: 10.0.0.{last}"))
    });
    let found = snapshot(&[web, slices.concat(), pods.concat()].concat());
    let sent = endpoints(&found, |it| (it.workload.as_ref().unwrap().name.to_string(), it.port));
    assert_eq!(sent, [("old".to_owned(), 8080), ("new".to_owned(), 9090)]);
    // Each pod's proxy takes the connections on the port to which they are sent.
    let target = |name: &str| {
        let targets = found.inbound_targets(found.workload("shop", name).unwrap());
        targets.iter().map(|target| target.port).collect::<Vec<_>>()
    };
    assert_eq!([target("old"), target("new"), target("none")], [vec![8080], vec![9090], vec![]]);
}

#[test]
fn tcp_port_stands_before_udp_port_of_the_same_number() {
    let dns = "clusterIP: 10.96.0.1, ports: [{name: dns, port: 80, protocol: UDP}, \
               {name: dns-tcp, port: 80}]";
    let ports = "addressType: IPv4, ports: [{name: dns, port: 53}, {name: dns-tcp, port: 5353}]";
    let slice = slice_with("s", ports, "{addresses: [10.0.0.1]}");
    let found = snapshot(&format!("{}{slice}", service("web", dns, "")));
    assert_eq!(endpoints(&found, |it| it.port), [5353]);
}

#[test]
fn service_without_slices_has_an_empty_set() {
    let found = snapshot(WEB);
    assert!(found.endpoints(&host("web"), 80).unwrap().endpoints.is_empty());
    assert!(found.endpoints(&host("web"), 81).is_none());
    assert!(found.endpoints(&host("db"), 80).is_none());
}

#[test]
fn alias_has_no_endpoints() {
    let alias = service(
        "web",
        "type: ExternalName, externalName: a.test, ports: [{name: http, port: 80}]",
        "",
    );
    let found = snapshot(&format!("{alias}{}", slice("s", "{addresses: [10.0.0.1]}")));
    assert!(endpoints(&found, |it| it.port).is_empty());
}

#[test]
fn locality_is_the_pods_then_the_slices_zone_in_the_nodes_region() {
    let labels = "topology.kubernetes.io/region: r, topology.kubernetes.io/zone: z, \
                  topology.istio.io/subzone: s";
    let node = node("n1", labels);
    let target = "targetRef: {kind: Pod, name: web-1, namespace: shop}";
    let plain = pod("web-1", "", "nodeName: n1", "podIP: 10.0.0.1");
    let own = pod("web-1", "labels: {istio-locality: a.b.c}", "nodeName: n1", "podIP: 10.0.0.1");
    for (pod, fields, expected) in [
        (plain.as_str(), "nodeName: n1", "r/z/s"),
        (&plain, "nodeName: n1, zone: other", "r/other/s"),
        (&plain, "zone: other", "r/other/s"),
        (&own, "nodeName: n1, zone: other", "a/b/c"),
        ("", "nodeName: n1", "r/z/s"),
        ("", "nodeName: n2, zone: other", "/other/"),
        ("", "", "//"),
    ] {
        let fields = format!("{{addresses: [10.0.0.1], {target}, {fields}}}");
        let all = [WEB, &node, pod, &slice("s", &fields)].concat();
        let found = endpoints(&snapshot(&all), |it| {
            format!("{}/{}/{}", it.locality.region, it.locality.zone, it.locality.subzone)
        });
        assert_eq!(found, [expected], "{fields}");
    }
}

#[test]
fn relabelled_node_changes_the_locality_of_its_endpoints() {
    let slice = slice("s", "{addresses: [10.0.0.1], nodeName: n1}");
    let zone = |zone: &str| node("n1", &format!("topology.kubernetes.io/zone: {zone}"));
    let mut index = Index::from_events(events(&[WEB, &slice, &zone("z1")].concat()));
    let relabelled = events(&zone("z2"))
        .into_iter()
        .find(|event| matches!(event, pilot_registry::event::Event::Nodes(_)));
    let changes = index.apply(relabelled.unwrap());
    assert_eq!(changes.endpoint_sets.into_iter().collect::<Vec<_>>(), [(host("web"), 80)]);
    assert_eq!(endpoints(&index.snapshot(), |it| it.locality.zone.to_string()), ["z2"]);
}

#[test]
fn instances_are_selected_by_labels() {
    let pods = [("web-1", "v1", 1), ("web-2", "v2", 2)].map(|(name, version, last)| {
        pod(name, &format!("labels: {{v: {version}}}"), "", &format!("podIP: 10.0.0.{last}"))
    });
    let slice = slice(
        "s",
        "{addresses: [10.0.0.1], targetRef: {kind: Pod, name: web-1}}, \
         {addresses: [10.0.0.2], targetRef: {kind: Pod, name: web-2}}, {addresses: [10.0.0.3]}",
    );
    let found = snapshot(&[WEB, &pods.concat(), &slice].concat());
    let selected = |labels: &[(&str, &str)]| {
        let labels: Labels = labels.iter().copied().collect();
        let selected = found.instances(&host("web"), 80, &labels);
        selected.iter().map(|it| it.address.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(selected(&[("v", "v1")]), ["10.0.0.1"]);
    assert_eq!(selected(&[("v", "v3")]), Vec::<String>::new());
    assert_eq!(selected(&[]), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
}

#[test]
fn pods_of_headless_services_are_endpoints_until_their_slice_drops_them() {
    let headless = service("web", "clusterIP: None, ports: [{name: http, port: 80}]", "");
    for (conditions, health) in [
        ("ready: true, serving: true, terminating: true", Health::Healthy),
        ("ready: false, serving: true, terminating: true", Health::Terminating),
        ("ready: false, serving: false, terminating: true", Health::Terminating),
    ] {
        let slice = slice("s", &format!("{{addresses: [10.0.0.1], conditions: {{{conditions}}}}}"));
        let found = endpoints(&snapshot(&format!("{headless}{slice}")), |it| it.health);
        assert_eq!(found, [health], "{conditions}");
    }
}

/// The address may be a foreigner's.
#[test]
fn endpoint_waits_for_the_pod_that_its_slice_names() {
    let named = "{addresses: [10.0.0.1], targetRef: {kind: Pod, name: web-1, namespace: shop}}";
    let slice = slice("s", named);
    let health = |pods: &[(&str, &str)]| {
        let pods = pods.iter().map(|(name, ip)| {
            pod(name, "", "", &format!("phase: Running, podIP: {ip}, podIPs: [{{ip: {ip}}}]"))
        });
        let all: Vec<_> = [WEB.to_owned(), slice.clone()].into_iter().chain(pods).collect();
        endpoints(&snapshot(&all.concat()), |it| it.health)
    };
    assert_eq!(health(&[]), [Health::Waiting], "no pod");
    assert_eq!(health(&[("web-1", "10.0.0.2")]), [Health::Waiting], "another address");
    assert_eq!(health(&[("web-2", "10.0.0.1")]), [Health::Waiting], "another pod's address");
    assert_eq!(health(&[("web-1", "10.0.0.1")]), [Health::Healthy]);
}
