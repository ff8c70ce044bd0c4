//! Rules for names in DNS.

use pilot_registry::names::name_table;

use crate::fixture::{service, slice, snapshot};

/// Names and addresses for workloads of namespace `shop`.
fn names(yaml: &str) -> Vec<(String, Vec<String>, String)> {
    let table = name_table(&snapshot(yaml), "shop");
    let text = |(name, entry): (&std::sync::Arc<str>, &pilot_registry::names::NameEntry)| {
        assert_eq!(&*entry.namespace, "shop");
        let addresses = entry.addresses.iter().map(ToString::to_string).collect();
        let name = name.strip_suffix(".shop.svc.cluster.local").unwrap();
        (name.to_owned(), addresses, entry.short_name.to_string())
    };
    table.iter().map(text).collect()
}

fn named(name: &str, addresses: &[&str], short_name: &str) -> (String, Vec<String>, String) {
    let addresses = addresses.iter().map(|text| (*text).to_owned()).collect();
    (name.to_owned(), addresses, short_name.to_owned())
}

#[test]
fn service_has_its_addresses_of_both_families() {
    let both = service("web", "clusterIPs: [10.96.0.1, \"fd00::1\"]", "");
    assert_eq!(names(&both), [named("web", &["10.96.0.1", "fd00::1"], "web")]);
}

#[test]
fn alias_and_service_without_addresses_are_left_out() {
    let alias = service("web", "type: ExternalName, externalName: a.test", "");
    assert_eq!(names(&format!("{alias}{}", service("none", "clusterIP: None", ""))), []);
}

#[test]
fn headless_service_has_healthy_endpoints_and_named_pods() {
    let headless = |more: &str| {
        let spec = format!(
            "clusterIP: None, ports: [{{name: http, port: 80}}, {{name: grpc, port: 81}}], {more}"
        );
        let slice = slice(
            "s",
            "{addresses: [10.0.0.2], hostname: web-1}, {addresses: [10.0.0.1]}, \
             {addresses: [10.0.0.3], hostname: web-2, conditions: {ready: false}}",
        );
        let slice = slice.replace("port: 8080}", "port: 8080}, {name: grpc, port: 9090}");
        format!("{}{slice}", service("web", &spec, ""))
    };
    assert_eq!(
        names(&headless("")),
        [
            named("web-1.web", &["10.0.0.2"], "web-1.web"),
            named("web", &["10.0.0.1", "10.0.0.2"], "web"),
        ]
    );
    assert_eq!(
        names(&headless("publishNotReadyAddresses: true")),
        [
            named("web-1.web", &["10.0.0.2"], "web-1.web"),
            named("web-2.web", &["10.0.0.3"], "web-2.web"),
            named("web", &["10.0.0.1", "10.0.0.2", "10.0.0.3"], "web"),
        ]
    );
}

#[test]
fn invisible_services_have_no_names() {
    let hidden = "annotations: {networking.istio.io/exportTo: pay}";
    assert_eq!(names(&service("web", "clusterIP: 10.96.0.1", hidden)), []);
}
