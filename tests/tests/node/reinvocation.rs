//! Reinjection: after another webhook, and from a backup.

use anyhow::{Context, Result, ensure};
use e2e::namespace::Namespace;
use e2e::wait;
use serde_json::{Value, json};

use crate::app_pod::{app, named, pod, proxy_of, variable};
use crate::difference::differences;
use crate::fixture::Fixture;
use crate::overrides::own_proxy;
use crate::second_webhook::{FIRST, SecondWebhook};

pub(crate) fn reinvocation_leaves_an_injected_pod_unchanged(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let shop = cluster.namespace("reinvocation", &["istio-injection=enabled"])?;
    let alone = asked_about(&shop)?;

    let second = SecondWebhook::start(web("late", 8081))?;
    cluster.apply(&second.registration(shop.name()).to_string())?;
    let both = wait::until("the second webhook is asked", || {
        let both = asked_about(&shop)?;
        ensure!(named(&both["spec"]["containers"], "late").is_object(), "no second container");
        Ok(both)
    })?;
    expect_second_pass(&alone, &both)?;

    create(&shop, &early())?;
    shop.wait_for("condition=Ready", "pod/early")?;
    let injected = shop.get("pod/early")?;
    restore(&shop, &injected)?;
    shop.wait_for("condition=Ready", "pod/early")?;
    let restored = shop.get("pod/early")?;
    assert_ne!(restored["metadata"]["uid"], injected["metadata"]["uid"]);
    for field in ["annotations", "labels"] {
        let both = [&injected, &restored].map(|pod| &pod["metadata"][field]);
        assert_eq!(differences(both[0], both[1]), [], "{field}");
    }
    assert_eq!(differences(&injected["spec"], &restored["spec"]), []);

    cluster.kubectl().must(["delete", "mutatingwebhookconfiguration", "the-second-webhook"])?;
    shop.delete()
}

/// Checks that both passes together have the result of one pass with both containers: probes of the
/// late one are rewritten, the proxy is a native sidecar again, and it starts before an init
/// container that was put first.
fn expect_second_pass(alone: &Value, both: &Value) -> Result<()> {
    let late = named(&both["spec"]["containers"], "late");
    let probe = &late["readinessProbe"]["httpGet"];
    assert_eq!(
        (&probe["port"], &probe["path"]),
        (&json!(15020), &json!("/app-health/late/readyz"))
    );
    let probers = variable(proxy_of(both)?, "ISTIO_KUBE_APP_PROBERS")?;
    let probers: Value = serde_json::from_str(probers)?;
    let port =
        |container: &str| &probers[format!("/app-health/{container}/readyz")]["httpGet"]["port"];
    assert_eq!((port("early"), port("late")), (&json!(8080), &json!(8081)), "{probers:#}");
    assert_eq!(variable(proxy_of(both)?, "ISTIO_META_APP_CONTAINERS")?, "early,late");

    let names = |pod: &Value| -> Vec<Value> {
        let init = pod["spec"]["initContainers"].as_array().into_iter().flatten();
        init.map(|container| container["name"].clone()).collect()
    };
    let expected = [names(alone), vec![FIRST.into()]].concat();
    assert_eq!(names(both), expected);

    let annotations = [alone, both].map(|pod| &pod["metadata"]["annotations"]);
    assert_eq!(differences(annotations[0], annotations[1]), []);
    let mut others = differences(&alone["spec"], &both["spec"]);
    others.retain(|(path, ..)| !EXPECTED.iter().any(|expected| path.ends_with(expected)));
    assert_eq!(others, []);
    Ok(())
}

/// Expected differences by the end of their paths: the new container, and the proxy's data about
/// it.
const EXPECTED: [&str; 4] = [
    "/containers/1:late",
    ":ISTIO_KUBE_APP_PROBERS/value",
    ":ISTIO_META_APP_CONTAINERS/value",
    ":prepare",
];

/// Returns a pod with a user-supplied proxy, whose fields a second pass could lose.
fn early() -> Value {
    pod("early", &json!({}), &json!({ "containers": [web("early", 8080), own_proxy()] }))
}

fn web(name: &str, port: u16) -> Value {
    let mut web = app(name, &[&format!("--http={port}")]);
    web["readinessProbe"] =
        json!({ "httpGet": { "path": "/up", "port": port }, "periodSeconds": 1 });
    web
}

/// Returns the pod after all webhooks, by a dry run.
fn asked_about(shop: &Namespace<'_>) -> Result<Value> {
    let create = ["create", "--dry-run=server", "--output=json", "--filename=-"];
    let text = shop.kubectl_with_input(&create, &early().to_string())?;
    without_random_name(&text)
}

/// Removes the random suffix from the name of the token volume. A user-supplied proxy already has a
/// mount of it when it is recorded.
fn without_random_name(pod: &str) -> Result<Value> {
    let read =
        |text: &str| -> Result<Value> { serde_json::from_str(text).context("reading a pod") };
    let volumes = read(pod)?;
    let mut names = volumes["spec"]["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|own| own["name"].as_str());
    let random = names.find(|name| name.starts_with(TOKEN)).context("no volume of the token")?;
    read(&pod.replace(random, TOKEN))
}

const TOKEN: &str = "kube-api-access";

/// Creates a pod from its backup, as `velero restore` does: without the status, the fields of the
/// API server, and the node.
fn restore(shop: &Namespace<'_>, kept: &Value) -> Result<()> {
    let mut pod = kept.clone();
    let remove = |of: &mut Value, fields: &[&str]| {
        if let Some(of) = of.as_object_mut() {
            of.retain(|field, _| !fields.contains(&&**field));
        }
    };
    remove(&mut pod, &["status"]);
    let given = ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"];
    remove(&mut pod["metadata"], &given);
    remove(&mut pod["spec"], &["nodeName", "priority"]);
    shop.kubectl(&["delete", "pod/early", "--grace-period=1"])?;
    create(shop, &pod)
}

/// Creates a pod. `kubectl apply` would add an annotation with its input.
fn create(shop: &Namespace<'_>, pod: &Value) -> Result<()> {
    shop.kubectl_with_input(&["create", "--filename=-"], &pod.to_string()).map(drop)
}
