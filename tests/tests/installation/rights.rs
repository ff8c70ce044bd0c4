//! Permissions of the components: each is used, none is missing, and the rest works without it.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::manifests::Composition;
use e2e::signer::Signer;
use e2e::{calls, wait};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::fixture::{Fixture, documents};
use crate::injector::Injector;
use crate::pods;

pub(crate) fn every_component_permission_is_used_and_none_missing(fixture: &Fixture) -> Result<()> {
    for composition in COMPOSITIONS {
        fixture.clear()?;
        used(fixture, composition).with_context(|| format!("{composition:?}"))?;
    }
    Ok(())
}

/// The acceptance tests remove the permissions of the base.
pub(crate) fn missing_component_permission_affects_nothing_else(fixture: &Fixture) -> Result<()> {
    for (component, resource, verb, without) in RIGHTS {
        fixture.clear()?;
        taken(fixture, component, (resource, verb), without)
            .with_context(|| format!("{component} without {verb} of {resource}"))?;
    }
    Ok(())
}

/// Remaining function without a permission, and its indication.
#[derive(Clone, Copy)]
enum Without {
    /// Injection continues; this metric is 1.
    Metric(&'static str),
    /// Injection and reports continue; the log has this text.
    Log(&'static str),
    /// The Events of this kind of workload are written, but without the UID that `kubectl describe`
    /// needs.
    Uid(&'static str),
    /// There is no certificate; the log has this text.
    Nothing(&'static str),
}

fn taken(fixture: &Fixture, component: &str, right: (&str, &str), without: Without) -> Result<()> {
    let with = COMPOSITIONS.iter().find(|one| one.components.contains(&component));
    let rendered = fixture.render(*with.context("no composition has it")?)?;
    bare_pods(fixture)?;
    fixture.apply(&less(&rendered, right)?)?;
    let mut run = Run::launch(fixture, &rendered)?;
    wait::until("it shows", || {
        run.sign(fixture)?;
        let (said, metrics) = (run.injector.process.said()?, run.injector.metrics()?);
        match without {
            Without::Metric(metric) => {
                let line = format!("{metric} 1");
                ensure!(metrics.lines().any(|one| one == line), "{metrics}");
            }
            Without::Log(text) => {
                ensure!(said.contains(text), "{said}");
                ensure!(
                    metrics.contains("sidecar_injector_report{state=\"current\"} 1"),
                    "{metrics}"
                );
            }
            Without::Nothing(text) => ensure!(said.contains(text), "{said}"),
            Without::Uid(kind) => {
                let events = fixture.runtime.block_on(fixture.objects.list("events", NAMESPACE))?;
                let mut about = events.iter().map(|event| &event["involvedObject"]);
                let about = about.find(|about| about["kind"] == kind);
                let about = about.context("there is no Event yet")?;
                ensure!(about["uid"].is_null(), "it may get it: {about}");
            }
        }
        anyhow::Ok(())
    })?;
    if matches!(without, Without::Nothing(_)) {
        ensure!(!run.injector.is_ready(), "it is ready");
    } else {
        run.injector.until_ready()?;
        fixture.until_published(CONFIGURATION)?;
        fixture.runtime.block_on(pods::until_injected(&fixture.admin, NAMESPACE))?;
    }
    ensure!(run.injector.process.runs(), "it has ended");
    // A permission granted later takes effect.
    fixture.apply(&rendered)?;
    wait::until("it has a certificate", || {
        run.sign(fixture)?;
        ensure!(run.injector.is_ready(), "it is not ready");
        anyhow::Ok(())
    })
}

/// Returns the manifests without a verb in the rules for a resource.
fn less(rendered: &str, (resource, verb): (&str, &str)) -> Result<String> {
    let mut documents = documents(rendered)?;
    let mut taken = 0;
    for role in documents.iter_mut().filter(|one| one["rules"].is_array()) {
        let rules = role["rules"].as_array_mut().context("rules are a list")?;
        for rule in rules.iter_mut() {
            let is_about = rule["resources"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == resource));
            if let Some(verbs) = rule["verbs"].as_array_mut().filter(|_| is_about) {
                let before = verbs.len();
                verbs.retain(|one| one != verb);
                taken += before - verbs.len();
            }
        }
        // A rule without any verb is invalid.
        rules.retain(|rule| rule["verbs"] != json!([]));
    }
    ensure!(taken > 0, "no role grants {verb} of {resource}");
    let texts: Vec<_> = documents.iter().map(Value::to_string).collect();
    Ok(texts.join("\n---\n"))
}

/// A running injector, and its signer if it needs one.
struct Run {
    injector: Injector,
    signer: Option<Signer>,
    _authority: NamedTempFile,
}

impl Run {
    fn launch(fixture: &Fixture, rendered: &str) -> Result<Self> {
        let signer = rendered.contains(SIGNER).then(|| Signer::create(SIGNER)).transpose()?;
        let file = NamedTempFile::new().context("making a file")?;
        if let Some(signer) = &signer {
            fs::write(file.path(), signer.authority()).context("writing the signer's CA")?;
        }
        let run = rendered
            .replace(MOUNTED, &file.path().display().to_string())
            .replace("--report-interval=5m", "--report-interval=1s");
        let injector = Injector::launch(fixture, &run, &FLAGS.map(str::to_owned))?;
        Ok(Self { injector, signer, _authority: file })
    }

    /// Signs approved requests.
    fn sign(&self, fixture: &Fixture) -> Result<()> {
        let Some(signer) = &self.signer else { return Ok(()) };
        fixture.runtime.block_on(signer.sign_approved_with(&fixture.admin)).map(drop)
    }
}

fn used(fixture: &Fixture, composition: Composition) -> Result<()> {
    let since = calls::Instant::now(&fixture.servers)?;
    let rendered = fixture.render(composition)?;
    // Otherwise all pods would be in order.
    bare_pods(fixture)?;
    fixture.apply(&rendered)?;
    let mut run = Run::launch(fixture, &rendered)?;
    let expected = granted(&rendered)?;
    wait::until("every right is used", || {
        run.sign(fixture)?;
        let calls = calls::since(&fixture.servers, ACCOUNT, &since)?;
        let denied = calls::denied(&calls);
        ensure!(denied.is_empty(), "denied: {denied:?}");
        let used = calls::used(&calls);
        let unused: BTreeSet<_> = expected.difference(&used).collect();
        ensure!(unused.is_empty(), "granted and not used: {unused:?}");
        anyhow::Ok(())
    })?;
    ensure!(run.injector.process.runs(), "it has ended");
    Ok(())
}

/// Creates a pod of a Deployment and one of a CronJob, in a namespace with injection.
fn bare_pods(fixture: &Fixture) -> Result<()> {
    pods::namespace(fixture, NAMESPACE, "istio-injection=enabled")?;
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
        let created = fixture.runtime.block_on(fixture.objects.create(&object))?;
        if ["ReplicaSet", "Job"].contains(&kind) {
            let owner = json!({"apiVersion": version, "kind": kind, "name": name,
                               "uid": created["metadata"]["uid"],
                               "controller": true});
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "spec": pod,
                "metadata": {"generateName": format!("{name}-"), "namespace": NAMESPACE, "labels": labels,
                             "ownerReferences": [owner]},
            });
            fixture.runtime.block_on(fixture.objects.create(&pod))?;
        }
    }
    Ok(())
}

/// Returns verb and resource of all permissions in the roles, except those used only in special
/// cases.
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
    Composition::new(&["prometheus", "trust-probe", "reports"]),
    Composition::new(&["prometheus", "trust-probe", "reports", "csr", "csr-approval"]),
];
/// Each permission of a component, and the remaining function without it.
const RIGHTS: [(&str, &str, &str, Without); 10] = [
    ("trust-probe", "configmaps", "create", Without::Metric(PROBE_FORBIDDEN)),
    ("reports", "pods", "list", Without::Metric(REPORT_FORBIDDEN)),
    ("reports", "namespaces", "list", Without::Metric(REPORT_FORBIDDEN)),
    (
        "reports",
        "events",
        "create",
        Without::Log("Events are disabled; metrics have the same information"),
    ),
    ("reports", "deployments", "get", Without::Uid("Deployment")),
    ("reports", "cronjobs", "get", Without::Uid("CronJob")),
    ("csr", "certificatesigningrequests", "create", Without::Nothing(NO_REQUEST)),
    ("csr", "certificatesigningrequests", "get", Without::Nothing(NO_ANSWER)),
    (
        "csr-approval",
        "certificatesigningrequests/approval",
        "update",
        Without::Nothing("components/csr-approval"),
    ),
    ("csr-approval", "signers", "approve", Without::Nothing("components/csr-approval")),
];
const PROBE_FORBIDDEN: &str = r#"sidecar_injector_trust_probe_failure{cause="forbidden"}"#;
const REPORT_FORBIDDEN: &str = r#"sidecar_injector_report{state="forbidden"}"#;
const NO_REQUEST: &str = "cannot create certificatesigningrequests: ";
const NO_ANSWER: &str = "cannot get certificatesigningrequests/";
const CONFIGURATION: &str = "istio-sidecar-injector";
const FLAGS: [&str; 3] = ["--trust-probe-interval=1s", "--tick=1s", "--denied-interval=1s"];
const NAMESPACE: &str = "istio-bare";
const ACCOUNT: &str = "system:serviceaccount:istio-system:sidecar-injector";
const MOUNTED: &str = "/etc/sidecar-injector/signer-ca/ca.crt";
const SIGNER: &str = "example.com/serving";
/// Permissions that this test does not see in use. One for a signer is not requested by itself.
/// Others are needed only for the rotation of a CA, or if Istio's resources are defined; other
/// tests check them. The audit logs here have no requests for pods.
const USED_OTHERWISE: &[(&str, &str)] = &[
    ("approve", "signers"),
    ("update", "certificatesigningrequests/approval"),
    ("update", "secrets"),
    ("list", "pods"),
    ("list", "proxyconfigs"),
    ("watch", "proxyconfigs"),
];
