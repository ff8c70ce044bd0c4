//! Every protocol between pods with each kind of interception, and pods without a sidecar.

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::{Namespace, address_of, name_of};
use e2e::wait;
use serde_json::{Value, json};

use crate::load::{deployment, service};

pub(crate) fn every_protocol_works_with_each_interception(cluster: &Cluster) -> Result<()> {
    let places = Places::create(cluster)?;
    for client in &places.pods {
        for server in &places.pods {
            let host = format!("{}.{}", server.app, server.namespace.name());
            let urls: Vec<_> = PORTS
                .iter()
                // A server that speaks first waits in permissive mode for a client that may use
                // TLS, as in Istio.
                .filter(|(scheme, _)| {
                    *scheme != "greeting" || client.is_captured || !server.is_captured
                })
                .map(|(scheme, port)| format!("{scheme}://{host}:{port}{}", path_of(scheme)))
                .collect();
            let expected = |url: &str, answer: &str| -> Result<()> {
                match url.split_once(':').map_or("", |(scheme, _)| scheme) {
                    "grpc" => ensure!(answer == "serving"),
                    "tcp" => ensure!(answer == "hello"),
                    "greeting" => {
                        ensure!(answer.starts_with(&format!("greeting from {}", server.app)));
                    }
                    _ => {
                        ensure!(answer.starts_with(server.app));
                        let is_mutual = client.is_captured && server.is_captured;
                        let identity =
                            format!("spiffe://cluster.local/ns/{}", client.namespace.name());
                        ensure!(answer.contains(&identity) == is_mutual, "mutual TLS: {is_mutual}");
                    }
                }
                Ok(())
            };
            client.call(&urls, &expected)?;
        }
    }
    Ok(())
}

pub(crate) fn names_of_every_kind_of_service_lead_to_it(cluster: &Cluster) -> Result<()> {
    // The pods of the story before.
    let (shop, outside) =
        (cluster.existing_namespace("shop"), cluster.existing_namespace("outside"));
    let headless = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "db" },
        "spec": { "clusterIP": "None", "selector": { "app": "db" }, "ports": ports() },
    });
    shop.apply(&headless.to_string())?;
    let mut set: Value = serde_json::from_str(&deployment("db", 2, &json!({}), &SERVER))?;
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!("db");
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    shop.apply(&set.to_string())?;
    let alias = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": "alias" },
        "spec": {
            "type": "ExternalName",
            "externalName": "redirect.shop.svc.cluster.local",
            "ports": [{ "name": "http", "port": 8080 }],
        },
    });
    shop.apply(&alias.to_string())?;
    shop.kubectl(&["rollout", "status", "statefulset/db", "--timeout=180s"])?;
    let unknown = address_of(&outside.pod("app=plain")?)?;
    for client in ["redirect", "tproxy"] {
        let pod = shop.pod(&format!("app={client}"))?;
        for (url, start, is_mutual) in [
            ("http://db:8080/caller", "db-", true),
            ("tcp://db:7000", "hello", false),
            ("greeting://db:3306", "greeting from db-", false),
            ("http://db-1.db:8080/caller", "db-1 ", true),
            ("http://db-0.db.shop.svc.cluster.local:8080/caller", "db-0 ", true),
            ("greeting://db-1.db:3306", "greeting from db-1", false),
            ("http://alias:8080/caller", "redirect-", true),
            // No Service has these ports.
            (&*format!("http://{unknown}:9999/caller"), "plain-", false),
            (&*format!("greeting://{unknown}:3307"), "greeting from plain-", false),
        ] {
            wait::until(&format!("{client}: {url} leads to {start}"), || {
                let line = shop.exec(name_of(&pod), "app", &["/app", "--call", url])?;
                let answer = line.trim().split_once(' ').map_or("", |(_, answer)| answer);
                ensure!(answer.starts_with(start), "{line}");
                ensure!(answer.contains("spiffe://") == is_mutual, "{line}");
                anyhow::Ok(())
            })?;
        }
    }
    Ok(())
}

/// Pods that call each other.
struct Places<'a> {
    pods: Vec<Place<'a>>,
}

struct Place<'a> {
    namespace: Namespace<'a>,
    app: &'static str,
    pod: String,
    /// True if a sidecar handles its connections.
    is_captured: bool,
}

impl<'a> Places<'a> {
    fn create(cluster: &'a Cluster) -> Result<Self> {
        let mode = |mode: &str| json!({ "sidecar.istio.io/interceptionMode": mode });
        let kinds = [
            ("shop", "redirect", mode("REDIRECT"), true),
            ("shop", "tproxy", mode("TPROXY"), true),
            ("shop", "uncaptured", mode("NONE"), false),
            ("outside", "plain", json!({}), false),
        ];
        for (namespace, app, annotations, _) in &kinds {
            let namespace = cluster.existing_namespace(namespace);
            namespace.apply(&service(app, &ports()))?;
            namespace.apply(&deployment(app, 1, annotations, &SERVER))?;
        }
        let place = |(namespace, app, _, is_captured): (&str, &'static str, Value, bool)| {
            let namespace = cluster.existing_namespace(namespace);
            namespace.wait_until_available(app)?;
            let pod = name_of(&namespace.pod(&format!("app={app}"))?).to_owned();
            Ok(Place { namespace, app, pod, is_captured })
        };
        Ok(Self { pods: kinds.into_iter().map(place).collect::<Result<_>>()? })
    }
}

impl Place<'_> {
    /// Calls URLs until each answer is the expected one: a new pod may not know all others yet.
    fn call(&self, urls: &[String], expected: &impl Fn(&str, &str) -> Result<()>) -> Result<()> {
        let words = ["/app", "--call"].into_iter().chain(urls.iter().map(String::as_str));
        let words: Vec<_> = words.collect();
        wait::until(&format!("{} gets the right answers", self.app), || {
            let answers = self.namespace.exec(&self.pod, "app", &words)?;
            ensure!(answers.lines().count() == urls.len(), "{answers}");
            for (url, line) in urls.iter().zip(answers.lines()) {
                let answer = line.strip_prefix(url.as_str()).unwrap_or_default().trim();
                expected(url, answer).with_context(|| line.to_owned())?;
            }
            anyhow::Ok(())
        })
    }
}

fn path_of(scheme: &str) -> &'static str {
    if matches!(scheme, "http" | "h2") { "/caller" } else { "" }
}

/// Ports of a Service of the application.
fn ports() -> Value {
    json!([
        { "name": "http", "port": 8080 },
        { "name": "http2", "port": 8081, "targetPort": 8081 },
        { "name": "grpc", "port": 8082, "targetPort": 8082 },
        { "name": "tcp", "port": 7000 },
        { "name": "tcp-greeting", "port": 3306 },
    ])
}

const PORTS: [(&str, u16); 5] =
    [("http", 8080), ("h2", 8081), ("grpc", 8082), ("tcp", 7000), ("greeting", 3306)];
const SERVER: [&str; 7] = [
    "--http=8080",
    "--http=8081",
    "--http=8082",
    "--http=9999",
    "--echo=7000",
    "--greeting=3306",
    "--greeting=3307",
];
