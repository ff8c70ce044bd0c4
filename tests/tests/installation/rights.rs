//! That each right which a component brings is used, and none is missing.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::calls;
use e2e::manifests::Composition;
use e2e::signer::Signer;
use e2e::wait;
use serde_json::{Value, json};

use crate::injector::Injector;
use crate::pods;
use crate::world::{PATIENCE, World, documents};

pub(crate) fn every_right_of_a_component_is_used_and_none_is_missing(world: &World) -> Result<()> {
    for composition in COMPOSITIONS {
        world.clear()?;
        used(world, composition).with_context(|| format!("{composition:?}"))?;
    }
    Ok(())
}

fn used(world: &World, composition: Composition) -> Result<()> {
    let since = calls::Instant::now(&world.servers)?;
    let rendered = world.render(composition)?;
    // Else nothing is amiss with any pod.
    bare_pods(world)?;
    world.kubectl().must_with_input(["apply", "--filename", "-"], &rendered)?;
    let flags = ["--trust-probe-interval=1s".to_owned(), "--tick=1s".to_owned()];
    let signer = composition.components.contains(&"csr").then(|| Signer::create(SIGNER));
    let signer = signer.transpose()?;
    let file = tempfile::NamedTempFile::new().context("making a file")?;
    if let Some(signer) = &signer {
        fs::write(file.path(), signer.authority()).context("writing the signer's CA")?;
    }
    let run = rendered
        .replace(MOUNTED, &file.path().display().to_string())
        .replace("--report-interval=5m", "--report-interval=1s");
    let mut injector = Injector::launch(world, &run, &flags)?;
    let expected = granted(&rendered)?;
    wait::until("every right is used", PATIENCE, || {
        if let Some(signer) = &signer {
            signer.sign_approved(world.kubectl())?;
        }
        let calls = calls::since(&world.servers, ACCOUNT, &since)?;
        let denied = calls::denied(&calls);
        ensure!(denied.is_empty(), "denied: {denied:?}");
        let used = calls::used(&calls);
        let unused: BTreeSet<_> = expected.difference(&used).collect();
        ensure!(unused.is_empty(), "granted and not used: {unused:?}");
        anyhow::Ok(())
    })?;
    ensure!(injector.process.runs(), "it has ended");
    Ok(())
}

/// A pod of a Deployment and one of a CronJob, in a namespace that asks for injection.
fn bare_pods(world: &World) -> Result<()> {
    pods::namespace(world, NAMESPACE, "istio-injection=enabled")?;
    let pod = json!({"containers": [{"name": "app", "image": "app:1"}], "restartPolicy": "Never",
                     "serviceAccountName": "default"});
    let labels = json!({"app": "web", "pod-template-hash": "abc"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let mut lasting = template.clone();
    lasting["spec"]["restartPolicy"] = json!("Always");
    let of_labels =
        json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": lasting});
    let apps = [("Deployment", "web"), ("ReplicaSet", "web-abc")]
        .map(|(kind, name)| ("apps/v1", kind, name, of_labels.clone()));
    let job = json!({"template": template});
    let cron = json!({"schedule": "0 0 * * *", "jobTemplate": {"spec": job}});
    let batch =
        [("batch/v1", "CronJob", "backup", cron), ("batch/v1", "Job", "backup-29000000", job)];
    for (version, kind, name, spec) in apps.into_iter().chain(batch) {
        let object = json!({"apiVersion": version, "kind": kind, "spec": spec,
                            "metadata": {"name": name, "namespace": NAMESPACE}});
        let create = ["create", "--output=jsonpath={.metadata.uid}", "--filename", "-"];
        let uid = world.kubectl().must_with_input(create, &object.to_string())?;
        if ["ReplicaSet", "Job"].contains(&kind) {
            let owner = json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid,
                               "controller": true});
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "spec": pod,
                "metadata": {"generateName": format!("{name}-"), "namespace": NAMESPACE, "labels": labels,
                             "ownerReferences": [owner]},
            });
            world.kubectl().must_with_input(["create", "--filename", "-"], &pod.to_string())?;
        }
    }
    Ok(())
}

/// Verb and resource of all that the roles grant, but for what is used when something is amiss.
fn granted(rendered: &str) -> Result<BTreeSet<(String, String)>> {
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let mut granted = BTreeSet::new();
    for role in documents(rendered)?.iter().filter(|one| one["rules"].is_array()) {
        for rule in role["rules"].as_array().into_iter().flatten() {
            for resource in texts(&rule["resources"]) {
                granted
                    .extend(texts(&rule["verbs"]).into_iter().map(|verb| (verb, resource.clone())));
            }
        }
    }
    for (verb, resource) in USED_OTHERWISE {
        granted.remove(&((*verb).to_owned(), (*resource).to_owned()));
    }
    Ok(granted)
}

const COMPOSITIONS: [Composition; 2] = [
    Composition::of(&["prometheus", "trust-probe", "reports"]),
    Composition::of(&["prometheus", "trust-probe", "reports", "csr", "csr-approval"]),
];
const NAMESPACE: &str = "istio-bare";
const ACCOUNT: &str = "system:serviceaccount:istio-system:sidecar-injector";
const MOUNTED: &str = "/etc/sidecar-injector/signer-ca/ca.crt";
const SIGNER: &str = "example.com/serving";
/// What is there for others than these: a right to a signer is none that is asked with; the rest is used where
/// a CA is replaced, or Istio's resources are defined, and held to that by other tests.
/// Audit logs here have nothing about pods.
const USED_OTHERWISE: &[(&str, &str)] = &[
    ("approve", "signers"),
    ("update", "certificatesigningrequests/approval"),
    ("update", "secrets"),
    ("list", "pods"),
    ("list", "proxyconfigs"),
    ("watch", "proxyconfigs"),
];
