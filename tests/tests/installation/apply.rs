//! Applying and reapplying with the common tools.

use anyhow::{Context, Result, bail, ensure};
use e2e::manifests::Composition;
use serde_json::{Value, json};

use crate::files::trust;
use crate::fixture::{Fixture, documents};
use crate::injector::Injector;

/// For each composition: client-side apply, a caBundle written by the injector, then every tool
/// again. No tool conflicts, removes the caBundle, or sees a difference.
pub(crate) fn repeated_apply_by_every_tool_changes_nothing(fixture: &Fixture) -> Result<()> {
    for composition in COMPOSITIONS {
        fixture.clear()?;
        applied_again(fixture, composition).with_context(|| format!("{composition:?}"))?;
    }
    Ok(())
}

fn applied_again(fixture: &Fixture, composition: Composition) -> Result<()> {
    let rendered = fixture.render(composition)?;
    let kubectl = |args: &[&str]| fixture.kubectl().must_with_input(args, &rendered);
    fixture.make_namespace()?;
    kubectl(&["apply", "--filename", "-"])?;
    let is_kept_by_others = KEPT_BY_OTHERS.iter().any(|one| composition.components.contains(one));
    let injector = if is_kept_by_others {
        for configuration in configurations(&rendered)? {
            trust(fixture, &configuration, "cert-manager's")?;
        }
        None
    } else {
        Some(Injector::of_manifests(fixture, &rendered)?)
    };
    let configurations = configurations(&rendered)?;
    let mut published = Vec::new();
    for configuration in &configurations {
        published.push(fixture.until_published(configuration)?);
    }
    let survives = |after: &str| -> Result<()> {
        for (configuration, published) in configurations.iter().zip(&published) {
            let now = fixture.bundles(configuration)?;
            ensure!(now == *published, "{configuration}: caBundle changed by {after}");
        }
        Ok(())
    };

    no_difference(fixture, &rendered, &["diff", "--filename", "-"])?;
    let before = versions(fixture, &rendered)?;
    kubectl(&["apply", "--filename", "-"])?;
    let after = versions(fixture, &rendered)?;
    ensure!(before == after, "a second apply wrote: {before:?}, {after:?}");
    survives("kubectl apply")?;
    three_way(fixture, &rendered).context("as ArgoCD compares")?;
    let secrets = || {
        let uids = "--output=jsonpath={.items[*].metadata.uid}";
        fixture.kubectl().must(["get", "secrets", "--namespace=istio-system", uids])
    };
    let made = secrets()?;
    let ours = "--selector=app.kubernetes.io/part-of=outrigger";
    kubectl(&["apply", "--prune", ours, "--filename", "-"])?;
    ensure!(secrets()? == made, "a Secret of the injector was pruned, or made anew");
    survives("kubectl apply --prune")?;

    kubectl(&["apply", "--server-side", "--filename", "-"])?;
    no_difference(fixture, &rendered, &["diff", "--server-side", "--filename", "-"])?;
    survives("kubectl apply --server-side")?;
    server_side(fixture, &rendered).context("as Flux compares")?;

    // ArgoCD and Flux take over a manual installation with their own field managers.
    for manager in ["argocd-controller", "kustomize-controller"] {
        let manager = format!("--field-manager={manager}");
        let force = ["apply", "--server-side", "--force-conflicts", &manager, "--filename", "-"];
        kubectl(&force)?;
        kubectl(&["apply", "--server-side", &manager, "--filename", "-"])?;
        survives(&manager)?;
    }
    // Once more by hand: the value of no field has changed, whichever manager owned it.
    kubectl(&["apply", "--server-side", "--filename", "-"])?;
    survives("the second kubectl apply --server-side")?;
    if let Some(injector) = injector {
        let failures = injector.count("webhook_patch_failures_total")?;
        ensure!(failures == 0, "{failures} writes of caBundle failed");
    }
    Ok(())
}

/// If a later rendering lacks an entry, a server-side apply removes its required fields, but not
/// the entry itself: the injector owns the name and the `caBundle`. The API server rejects the
/// whole object. Therefore docs/install.md removes the entry first. Client-side apply removes it
/// itself.
pub(crate) fn removed_entry_disappears(fixture: &Fixture) -> Result<()> {
    let rendered = fixture.render(BASE)?;
    for apply in [&["apply", "--filename", "-"][..], &["apply", "--server-side", "--filename", "-"]]
    {
        fixture.clear()?;
        let with_auto = fixture.render(Composition::new(&["auto"]))?;
        fixture.kubectl().must_with_input(apply, &with_auto)?;
        let injector = Injector::of_manifests(fixture, &with_auto)?;
        let published = fixture.until_published(CONFIGURATION)?;
        ensure!(published.len() == 5, "{} entries", published.len());
        if apply.contains(&"--server-side") {
            let answer = fixture.kubectl().run_with_input(apply, &rendered)?;
            let refused = !answer.succeeded && answer.stderr.contains("sideEffects");
            ensure!(refused, "the detour is needed no more: {}", answer.stderr);
            ensure!(fixture.bundles(CONFIGURATION)? == published, "half of it was applied");
            let remove = "--patch=[{\"op\": \"test\", \"path\": \"/webhooks/0/name\", \
                          \"value\": \"auto.sidecar-injector.istio.io\"}, \
                          {\"op\": \"remove\", \"path\": \"/webhooks/0\"}]";
            let patch = ["patch", "mutatingwebhookconfiguration", CONFIGURATION, "--type=json"];
            fixture.kubectl().must([&patch[..], &[remove]].concat())?;
        }
        fixture.kubectl().must_with_input(apply, &rendered)?;
        ensure!(fixture.bundles(CONFIGURATION)? == published[..4], "{apply:?}: other entries");
        let failures = injector.count("webhook_patch_failures_total")?;
        ensure!(failures == 0, "{failures} writes of caBundle failed");
    }
    Ok(())
}

/// Checks `kubectl diff`, which exits with 1 and prints the difference if there is one.
fn no_difference(fixture: &Fixture, rendered: &str, args: &[&str]) -> Result<()> {
    let answer = fixture.kubectl().run_with_input(args, rendered)?;
    ensure!(answer.succeeded, "kubectl {args:?}: {}\n{}", answer.stdout, answer.stderr);
    Ok(())
}

/// Returns the resource versions of all applied objects. If they stay the same, nothing was
/// written, whatever a tool reports.
pub(crate) fn versions(fixture: &Fixture, rendered: &str) -> Result<Vec<Value>> {
    let objects = live(fixture, rendered)?.into_iter();
    Ok(objects.map(|mut object| object["metadata"]["resourceVersion"].take()).collect())
}

/// Checks as `ArgoCD` does by default, like client-side apply: all wanted fields are present. The
/// last applied and the current manifest are the same, so nothing is to be removed.
fn three_way(fixture: &Fixture, rendered: &str) -> Result<()> {
    for (wanted, live) in documents(rendered)?.iter().zip(live(fixture, rendered)?) {
        if let Some(place) = differs(wanted, &live, "") {
            bail!("{} {}: {place}", wanted["kind"], wanted["metadata"]["name"]);
        }
    }
    Ok(())
}

/// Checks as Flux does: a server-side dry run changes nothing.
fn server_side(fixture: &Fixture, rendered: &str) -> Result<()> {
    let args = [
        "apply",
        "--server-side",
        "--dry-run=server",
        "--force-conflicts",
        "--field-manager=kustomize-controller",
        "--output=json",
        "--filename=-",
    ];
    let dry = items(&fixture.kubectl().must_with_input(args, rendered)?)?;
    for (mut dry, mut live) in dry.into_iter().zip(live(fixture, rendered)?) {
        for object in [&mut dry, &mut live] {
            let metadata = object["metadata"].as_object_mut().context("no metadata")?;
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        ensure!(dry == live, "{} {}", live["kind"], live["metadata"]["name"]);
    }
    Ok(())
}

/// Returns the live object of each document.
fn live(fixture: &Fixture, rendered: &str) -> Result<Vec<Value>> {
    fixture.runtime.block_on(fixture.objects.live(&documents(rendered)?))
}

/// Returns the objects of a list.
fn items(list: &str) -> Result<Vec<Value>> {
    let list: Value = serde_json::from_str(list)?;
    list["items"].as_array().cloned().context("no list came back")
}

/// Returns the path of a wanted field that is absent or different. Further fields of the live
/// object do not count.
fn differs(wanted: &Value, live: &Value, place: &str) -> Option<String> {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().find_map(|(key, value)| {
            differs(value, live.get(key).unwrap_or(&Value::Null), &format!("{place}/{key}"))
        }),
        (Value::Array(wanted), Value::Array(live)) if wanted.len() == live.len() => {
            let pairs = wanted.iter().zip(live).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (one, other))| differs(one, other, &format!("{place}/{index}")))
        }
        _ => (wanted != live).then(|| format!("{place}: {wanted} is wanted, {live} is there")),
    }
}

fn configurations(rendered: &str) -> Result<Vec<String>> {
    let documents = documents(rendered)?.into_iter();
    let found = documents.filter(|one| one["kind"] == "MutatingWebhookConfiguration");
    Ok(found.filter_map(|one| one["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

/// Checks our pods against the Pod Security Standard of the namespace at the API server.
pub(crate) fn pod_security_standard_accepts_all_our_pods(fixture: &Fixture) -> Result<()> {
    let namespace = crate::fixture::document(&fixture.render(BASE)?, "Namespace", "istio-system")?;
    let apply = ["apply", "--filename", "-"];
    fixture.kubectl().must_with_input(apply, &namespace.to_string())?;
    let create = ["create", "--dry-run=server", "--namespace=istio-system", "--filename", "-"];
    let mut privileged = None;
    for composition in COMPOSITIONS {
        let rendered = fixture.render(composition)?;
        let documents = documents(&rendered)?;
        for deployment in documents.iter().filter(|one| one["kind"] == "Deployment") {
            let mut pod = deployment["spec"]["template"].clone();
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod["metadata"]["name"] = json!("sidecar-injector");
            let answer = fixture.kubectl().run_with_input(create, &pod.to_string())?;
            ensure!(answer.succeeded, "{composition:?}: {}", answer.stderr);
            pod["spec"]["containers"][0]["securityContext"]["privileged"] = json!(true);
            privileged = Some(pod);
        }
    }
    let pod = privileged.context("there is no Deployment")?;
    let answer = fixture.kubectl().run_with_input(create, &pod.to_string())?;
    ensure!(!answer.succeeded, "the standard is not enforced here");
    Ok(())
}

const CONFIGURATION: &str = "istio-sidecar-injector";
const BASE: Composition = Composition::new(&[]);
/// Components with a `caBundle` from cert-manager or the like. The injector writes nothing there.
const KEPT_BY_OTHERS: [&str; 2] = ["cert-manager", "csr"];
const COMPOSITIONS: [Composition; 7] = [
    BASE,
    Composition::new(&["cert-manager", "auto", "fail-open"]),
    Composition::new(&["ha", "prometheus", "grafana", "network-policy", "trust-probe"]),
    Composition::new(&[
        "kube-system",
        "prometheus",
        "reports",
        "csr",
        "csr-approval",
        "client-certificates",
        "dormant",
    ]),
    Composition {
        tags: &["prod"],
        ..Composition::new(&["no-create", "openshift", "istio-cni", "aks"])
    },
    Composition { components: &["ha", "revision"], revision: Some("canary"), tags: &["a", "b"] },
    Composition {
        components: &["no-create", "prometheus", "revision", "no-guard-policy", "default-tag"],
        revision: Some("canary"),
        tags: &[],
    },
];
