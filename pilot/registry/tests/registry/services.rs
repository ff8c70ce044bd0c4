//! Rules for services: protocol, resolution, addresses, traffic, visibility.

use pilot_registry::hostname::Hostname;
use pilot_registry::protocol::Protocol;
use pilot_registry::service::{ExportTo, Resolution, TargetPort, TrafficDistribution};

use crate::fixture::{service, snapshot, web, web_with};

#[test]
fn protocol_follows_transport_app_protocol_name_and_number() {
    for (port, protocol) in [
        ("name: http, port: 53, protocol: UDP, appProtocol: http", Protocol::Udp),
        ("name: tcp, port: 80, appProtocol: kubernetes.io/h2c", Protocol::Http2),
        ("name: tcp, port: 80, appProtocol: kubernetes.io/ws", Protocol::Http),
        ("name: tcp, port: 80, appProtocol: kubernetes.io/wss", Protocol::Https),
        ("name: tcp, port: 80, appProtocol: GRPC", Protocol::Grpc),
        ("name: tcp, port: 80, appProtocol: http-alt", Protocol::Http),
        ("name: http, port: 80, appProtocol: example.com/own", Protocol::Undeclared),
        ("name: http, port: 3306, appProtocol: example.com/own", Protocol::Tcp),
        ("name: grpc-web, port: 80", Protocol::GrpcWeb),
        ("name: grpc-web-admin, port: 80", Protocol::GrpcWeb),
        ("name: grpc-admin, port: 80", Protocol::Grpc),
        ("name: HTTP2-x, port: 80", Protocol::Http2),
        ("name: http, port: 80", Protocol::Http),
        ("name: https-web, port: 80", Protocol::Https),
        ("name: tls, port: 80", Protocol::Tls),
        ("name: mongo, port: 80", Protocol::Mongo),
        ("name: redis, port: 80", Protocol::Redis),
        ("name: mysql, port: 80", Protocol::Mysql),
        ("name: tcp-http, port: 80", Protocol::Tcp),
        ("name: httpx, port: 80", Protocol::Undeclared),
        ("name: web, port: 25", Protocol::Tcp),
        ("name: web, port: 53", Protocol::Tcp),
        ("name: web, port: 3306", Protocol::Tcp),
        ("name: web, port: 27017", Protocol::Tcp),
        ("name: http, port: 3306", Protocol::Http),
        ("port: 8080", Protocol::Undeclared),
        // The server speaks first.
        ("name: smtp, port: 2525", Protocol::Tcp),
        ("name: mail, appProtocol: SMTP, port: 2525", Protocol::Tcp),
        ("name: imap-plain, port: 80", Protocol::Tcp),
        ("name: ssh, port: 80", Protocol::Tcp),
        ("name: smtps, port: 80", Protocol::Tls),
        ("name: postgresql, port: 80", Protocol::Tcp),
    ] {
        assert_eq!(web(&format!("ports: [{{{port}}}]")).ports[0].protocol, protocol, "{port}");
    }
}

#[test]
fn ports_of_sctp_are_left_out() {
    assert_eq!(web("ports: [{port: 80, protocol: SCTP}]").ports, []);
}

#[test]
fn resolution_follows_type_and_cluster_address() {
    let alias = Resolution::Alias(Hostname::parse("db.test").unwrap());
    for (spec, resolution) in [
        ("type: ExternalName, externalName: DB.test.", alias),
        ("clusterIP: None", Resolution::OriginalDestination),
        ("clusterIP: 10.96.0.1", Resolution::ClientSide),
        ("ports: []", Resolution::ClientSide),
    ] {
        assert_eq!(web(spec).resolution, resolution, "{spec}");
    }
}

#[test]
fn addresses_are_cluster_addresses_of_both_families_only() {
    for (spec, addresses) in [
        ("clusterIP: 10.96.0.1", vec!["10.96.0.1"]),
        (
            "clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, \"fd00::1\"]",
            vec!["10.96.0.1", "fd00::1"],
        ),
        ("clusterIP: None, clusterIPs: [None]", vec![]),
        ("clusterIP: 10.96.0.1, externalIPs: [192.0.2.1]", vec!["10.96.0.1"]),
        ("type: ExternalName, externalName: db.test, clusterIP: \"\"", vec![]),
    ] {
        let found: Vec<String> = web(spec).addresses.iter().map(ToString::to_string).collect();
        assert_eq!(found, addresses, "{spec}");
    }
}

#[test]
fn traffic_settings_are_read() {
    let service = web("internalTrafficPolicy: Local, publishNotReadyAddresses: true");
    assert!(service.node_local && service.publish_not_ready && !service.client_affinity);
    assert!(web("sessionAffinity: ClientIP").client_affinity);
    assert!(web_with("", "labels: {istio.io/persistent-session: cookie}").persistent_sessions);
    assert!(!web_with("", "labels: {istio.io/persistent-session: ''}").persistent_sessions);
    let annotation =
        |word: &str| format!("annotations: {{networking.istio.io/traffic-distribution: {word}}}");
    for (field, word, distribution) in [
        ("", "Any", TrafficDistribution::Any),
        ("trafficDistribution: PreferClose", "Any", TrafficDistribution::PreferSameZone),
        ("trafficDistribution: PreferSameZone", "Any", TrafficDistribution::PreferSameZone),
        ("trafficDistribution: PreferSameNode", "Any", TrafficDistribution::PreferSameNode),
        ("", "preferclose", TrafficDistribution::PreferSameZone),
        ("", "PreferSameNode", TrafficDistribution::PreferSameNode),
    ] {
        let service = web_with(field, &annotation(word));
        assert_eq!(service.distribution, distribution, "{field} {word}");
    }
}

#[test]
fn export_to_limits_namespaces() {
    let some = |names: &[&str]| {
        ExportTo::Namespaces(names.iter().map(|name| std::sync::Arc::from(*name)).collect())
    };
    for (annotation, export_to) in [
        (".", some(&["shop"])),
        ("*", ExportTo::All),
        ("~", some(&[])),
        ("pay, .", some(&["pay", "shop"])),
        ("pay,*", ExportTo::All),
        ("", ExportTo::All),
    ] {
        let metadata = format!("annotations: {{networking.istio.io/exportTo: '{annotation}'}}");
        assert_eq!(web_with("", &metadata).export_to, export_to, "{annotation}");
    }
    assert!(some(&["shop"]).includes("shop") && !some(&["shop"]).includes("pay"));
}

#[test]
fn target_ports_are_numbers_names_or_the_port_itself() {
    for (port, target) in [
        ("port: 80", TargetPort::Number(80)),
        ("port: 80, targetPort: 8080", TargetPort::Number(8080)),
        ("port: 80, targetPort: web", TargetPort::Name("web".into())),
    ] {
        assert_eq!(web(&format!("ports: [{{{port}}}]")).ports[0].target, target, "{port}");
    }
}

#[test]
fn services_are_sorted_and_hashed_by_content() {
    let both = [service("web", "", ""), service("db", "", "")].concat();
    let snapshot = snapshot(&both);
    let hosts: Vec<&str> = snapshot.services().map(|it| it.hostname.as_str()).collect();
    assert_eq!(hosts, ["db.shop.svc.cluster.local", "web.shop.svc.cluster.local"]);
    let hash = |spec: &str| {
        let snapshot = crate::fixture::snapshot(&service("web", spec, ""));
        snapshot.service_hash(&crate::fixture::host("web")).unwrap()
    };
    assert_eq!(hash("ports: [{port: 80}]"), hash("ports: [{port: 80}]"));
    assert_ne!(hash("ports: [{port: 80}]"), hash("ports: [{port: 81}]"));
}

#[test]
fn unspecified_addresses_are_left_out() {
    let spec = "clusterIPs: [0.0.0.0, \"::\", 10.96.0.1], ports: [{name: tcp, port: 15001}]";
    assert_eq!(web(spec).addresses, ["10.96.0.1".parse::<std::net::IpAddr>().unwrap()]);
}
