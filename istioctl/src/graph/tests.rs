use serde_json::{Value, json};

use super::mesh_graph::MeshGraph;
use super::pictures;

fn pages() -> (Value, Value) {
    let service = |namespace: &str, name: &str, ports: &Value, exported: &Value| {
        json!({
            "hostname": format!("{name}.{namespace}.svc.cluster.local"),
            "name": name, "namespace": namespace, "ports": ports, "exportedTo": exported,
        })
    };
    let http = json!([{"name": "http", "port": 80, "protocol": "Http"}]);
    let two = json!([
        {"name": "tcp", "port": 5432, "protocol": "Tcp"},
        {"name": "metrics", "port": 9187, "protocol": "Http"},
    ]);
    let registry = json!([
        service("shop", "web", &http, &Value::Null),
        service("shop", "orders", &http, &Value::Null),
        service("data", "postgres", &two, &json!(["data", "shop"])),
        service("data", "idle", &http, &json!([])),
    ]);
    let endpoint = |address: &str, owner: &Value, takes: bool, mode: &Value| {
        json!({
            "address": address, "owner": owner, "takesMutualTls": takes, "mutualTlsMode": mode,
        })
    };
    let set = |service: &str, port: u64, endpoints: Value| {
        json!({
            "service": format!("{service}.svc.cluster.local"), "port": port,
            "endpoints": endpoints,
        })
    };
    let strict =
        |address: &str, owner: &str| endpoint(address, &json!(owner), true, &json!("Strict"));
    let endpoints = json!([
        set(
            "web.shop",
            80,
            json!([
                endpoint("10.0.0.1", &json!("web"), true, &json!("Permissive")),
                endpoint("10.0.0.2", &json!("web"), true, &json!("Permissive")),
            ])
        ),
        set("orders.shop", 80, json!([strict("10.0.0.3", "orders")])),
        set(
            "postgres.data",
            5432,
            json!([
                strict("10.0.0.4", "postgres"),
                endpoint("192.168.0.1", &Value::Null, false, &Value::Null),
            ])
        ),
        set(
            "postgres.data",
            9187,
            json!([endpoint("10.0.0.4", &json!("postgres"), true, &json!("Disable")),])
        ),
    ]);
    (registry, endpoints)
}

pub(super) fn graph(namespace: &str) -> anyhow::Result<MeshGraph> {
    let (registry, endpoints) = pages();
    MeshGraph::parse(&registry, &endpoints, namespace)
}

#[test]
fn graph_is_shown_in_every_form() {
    let graph = graph("").unwrap();
    insta::assert_snapshot!("table", graph.text());
    insta::assert_json_snapshot!("json", graph.json());
    insta::assert_snapshot!("mermaid", pictures::mermaid(&graph));
    insta::assert_snapshot!("svg", pictures::svg(&graph));
}

#[test]
fn json_matches_its_published_schema() {
    let schema = include_str!("../../../docs/schemas/graph.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    reference_pages::schema::validate(&graph("").unwrap().json(), &schema).unwrap();
}

#[test]
fn namespace_selects_services() {
    assert!(graph("data").unwrap().services.iter().all(|one| one.namespace == "data"));
    assert!(graph("gone").unwrap_err().to_string().contains("namespace gone"));
}

#[test]
fn page_of_an_istiod_is_an_error() {
    let error = MeshGraph::parse(&json!({"a": 1}), &json!([]), "").unwrap_err();
    assert!(error.to_string().contains("/debug/registry"), "{error:#}");
}
