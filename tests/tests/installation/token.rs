//! Permissions of a stolen token of the injector's account: each possible attack.

use anyhow::{Result, ensure};
use e2e::manifests::Composition;
use e2e::wait;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::forbidden_requests::NOTHING_OF_ITS;
use crate::injector::Injector;
use crate::thief::{Answer, Dry, Thief};

/// With roles alone, the token allows everything that the injector does, and everything that only a
/// policy can deny. With the guard policies of the base, the latter is denied too. With mounted
/// files, nothing is allowed.
pub(crate) fn stolen_token_reaches_only_the_injectors_objects(fixture: &Fixture) -> Result<()> {
    let injector_requests = injector_requests();
    let injector = install(fixture, UNGUARDED)?;
    let thief = Thief::new(fixture, "sidecar-injector")?;
    for attempt in NOTHING_OF_ITS {
        thief.is_forbidden(attempt)?;
    }
    for (attempt, code) in &injector_requests {
        thief.is_answered(attempt, *code)?;
    }
    for attempt in attempts_roles_cannot_deny(&thief)? {
        let answer = thief.attempt(&attempt)?;
        ensure!(answer.code < 300, "the guard policies guard nothing: {attempt:?}: {answer:?}");
    }

    let guarded = fixture.render(Composition::new(&[]))?;
    fixture.apply(&guarded)?;
    let attempts = attempts_roles_cannot_deny(&thief)?;
    // Policies take effect a moment after they are written, each at its own time.
    wait::until("the policies are in force", || {
        for attempt in &attempts {
            let answer = thief.attempt(attempt)?;
            ensure!(answer.is_denied("the injector may"), "{attempt:?}: {answer:?}");
        }
        anyhow::Ok(())
    })?;
    for policy in ["sidecar-injector-webhooks", "sidecar-injector-secrets"] {
        let policy = fixture.get("validatingadmissionpolicy", policy)?;
        let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
        ensure!(warnings.is_null(), "{warnings}");
    }
    for attempt in NOTHING_OF_ITS {
        thief.is_forbidden(attempt)?;
    }
    for (attempt, code) in &injector_requests {
        thief.is_answered(attempt, *code)?;
    }
    drop(injector);

    fixture.clear()?;
    let files = fixture.render(Composition::new(&["files"]))?;
    fixture.apply(&files)?;
    let thief = Thief::new(fixture, "sidecar-injector")?;
    // Reads reveal most, and permissions are checked before the bodies of writes.
    let own = injector_requests.iter().map(|(attempt, _)| (attempt.verb, attempt.path.as_str()));
    for attempt in NOTHING_OF_ITS.iter().copied().chain(own) {
        let is_of_everybody = OF_EVERYBODY.contains(&attempt.1);
        if !is_of_everybody {
            thief.is_forbidden(&attempt)?;
        }
    }
    Ok(())
}

/// Without the guard policy, an account that may update a Secret and create others can obtain the
/// token of another account of the namespace. The guard policy prevents it.
pub(crate) fn stolen_token_cannot_obtain_another_accounts_token(fixture: &Fixture) -> Result<()> {
    let mut injector = install(fixture, UNGUARDED)?;
    injector.process.stop()?;
    let thief = Thief::new(fixture, "sidecar-injector")?;
    let own = format!("{SECRETS}/{CA}");
    let orphan = thief.with_an_owner_that_does_not_exist()?;
    let answer = thief.send("update", &own, &orphan, Dry::No)?;
    ensure!(answer.code == 200, "{answer:?}");
    // The garbage collector has the delete permission that the thief lacks.
    wait::until("the Secret is gone", || {
        let answer = thief.send("get", &own, &Value::Null, Dry::No)?;
        ensure!(answer.code == 404, "{answer:?}");
        anyhow::Ok(())
    })?;
    let answer = thief.send("create", SECRETS, &token_of_another(CA), Dry::No)?;
    ensure!(answer.code == 201, "{answer:?}");
    let answer = thief.send("get", &own, &Value::Null, Dry::No)?;
    ensure!(answer.body.contains("kubernetes.io/service-account-token"), "{answer:?}");

    fixture.clear()?;
    let _injector = install(fixture, Composition::new(&[]))?;
    let thief = Thief::new(fixture, "sidecar-injector")?;
    let orphan = thief.with_an_owner_that_does_not_exist()?;
    wait::until("the policy is in force", || {
        let answer = thief.send("update", &own, &orphan, Dry::Yes)?;
        ensure!(answer.code == 422, "{answer:?}");
        anyhow::Ok(())
    })?;
    for attempt in [("update", own.as_str(), &orphan), ("create", SECRETS, &token_of_another(CA))] {
        let answer = thief.send(attempt.0, attempt.1, attempt.2, Dry::No)?;
        ensure!(answer.is_denied("the injector may"), "{answer:?}");
    }
    Ok(())
}

/// The trust probe needs permission to create a ConfigMap of any name. The guard policy allows only
/// dry runs.
pub(crate) fn stolen_token_cannot_store_a_config_map(fixture: &Fixture) -> Result<()> {
    let mut number = 0;
    let mut create = |thief: &Thief<'_>, dry: Dry| {
        number += 1;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                         "metadata": {"name": format!("other-{number}")}});
        thief.send("create", MAPS, &map, dry)
    };
    let rendered = fixture.render(Composition::new(&["trust-probe", "no-guard-policy"]))?;
    fixture.apply(&rendered)?;
    let thief = Thief::new(fixture, "sidecar-injector")?;
    let answer = create(&thief, Dry::No)?;
    ensure!(answer.code == 201, "the guard policy guards nothing: {answer:?}");
    let guarded = fixture.render(Composition::new(&["trust-probe"]))?;
    fixture.apply(&guarded)?;
    wait::until("the policy is in force", || {
        let answer = create(&thief, Dry::No)?;
        ensure!(answer.is_denied("the injector may"), "{answer:?}");
        anyhow::Ok(())
    })?;
    let answer = create(&thief, Dry::Yes)?;
    ensure!(answer.code == 201, "{answer:?}");
    Ok(())
}

/// Applies a composition with foreign objects beside it, and runs the injector until it has written
/// everything.
fn install(fixture: &Fixture, composition: Composition) -> Result<Injector> {
    let rendered = fixture.render(composition)?;
    fixture.apply(&rendered)?;
    fixture.apply(OTHERS)?;
    let injector = Injector::of_manifests(fixture, &rendered)?;
    fixture.until_published("istio-sidecar-injector")?;
    Ok(injector)
}

/// An attack.
#[derive(Clone, Debug)]
struct Attempt {
    verb: &'static str,
    path: String,
    body: Value,
}

impl Thief<'_> {
    fn is_forbidden(&self, (verb, path): &(&'static str, &str)) -> Result<()> {
        let answer = self.send(verb, path, &json!({}), Dry::Yes)?;
        ensure!(answer.code == 403, "{verb} {path}: {answer:?}");
        Ok(())
    }

    fn is_answered(&self, attempt: &Attempt, code: u16) -> Result<()> {
        let answer = self.attempt(attempt)?;
        ensure!(answer.code == code, "{attempt:?}: {answer:?}");
        Ok(())
    }

    fn attempt(&self, attempt: &Attempt) -> Result<Answer> {
        self.send(attempt.verb, &attempt.path, &attempt.body, Dry::Yes)
    }

    fn own(&self) -> Result<Value> {
        let answer = self.send("get", &format!("{SECRETS}/{CA}"), &Value::Null, Dry::No)?;
        ensure!(answer.code == 200, "its own Secret: {answer:?}");
        Ok(serde_json::from_str(&answer.body)?)
    }

    fn with_an_owner_that_does_not_exist(&self) -> Result<Value> {
        let mut own = self.own()?;
        own["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "0-0-0-0",
        }]);
        Ok(own)
    }
}

/// Returns the requests of the injector and those allowed to every user, with the status of the
/// answer.
fn injector_requests() -> Vec<(Attempt, u16)> {
    let bundle = json!([
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle",
         "value": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="}]);
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "one", "namespace": "istio-system"},
        "type": "Warning", "reason": "Any", "action": "Any",
        "reportingController": "outrigger.io/webhook-certs", "reportingInstance": "one",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"apiVersion": "v1", "kind": "Secret", "namespace": "istio-system", "name": CA},
    });
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    let named = |base: &str, name: &str| format!("{base}?fieldSelector=metadata.name%3D{name}");
    let rows = [
        ("get", format!("{SECRETS}/{CA}"), Value::Null, 200),
        ("list", named(SECRETS, CA), Value::Null, 200),
        ("watch", named(SECRETS, CA), Value::Null, 200),
        ("list", named(MAPS, "istio"), Value::Null, 200),
        ("watch", named(MAPS, "istio-sidecar-injector"), Value::Null, 200),
        ("get", format!("{MUTATING}/istio-sidecar-injector"), Value::Null, 200),
        ("list", named(MUTATING, "istio-sidecar-injector"), Value::Null, 200),
        ("watch", named(MUTATING, "istio-sidecar-injector"), Value::Null, 200),
        ("patch", format!("{MUTATING}/istio-sidecar-injector"), bundle, 200),
        ("create", EVENTS.to_owned(), event, 201),
        ("list", "/api/v1/nodes".to_owned(), Value::Null, 200),
        ("watch", "/api/v1/nodes".to_owned(), Value::Null, 200),
        // The resource does not exist here. A user without the permission would get another error.
        ("list", "/apis/networking.istio.io/v1/proxyconfigs".to_owned(), Value::Null, 404),
        ("get", "/version".to_owned(), Value::Null, 200),
        ("create", SELF_REVIEW.to_owned(), review, 201),
    ];
    rows.map(|(verb, path, body, code)| (Attempt { verb, path, body }, code)).to_vec()
}

/// Returns attacks that roles allow, since roles restrict neither names on create nor fields on
/// update.
fn attempts_roles_cannot_deny(thief: &Thief<'_>) -> Result<Vec<Attempt>> {
    let configuration = format!("{MUTATING}/istio-sidecar-injector");
    let patch = |path: &str, value: Value| Attempt {
        verb: "patch",
        path: configuration.clone(),
        body: json!([{"op": "add", "path": path, "value": value}]),
    };
    let secret = |name: &str, kind: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": kind,
               "metadata": {"name": name, "namespace": "istio-system"}})
    };
    let create = |body: Value| Attempt { verb: "create", path: SECRETS.to_owned(), body };
    let update = |body: Value| Attempt { verb: "update", path: format!("{SECRETS}/{CA}"), body };
    let own = thief.own()?;
    let (mut kept, mut finalized) = (own.clone(), own);
    kept["immutable"] = json!(true);
    finalized["metadata"]["finalizers"] = json!(["example.com/forever"]);
    let mut generated = secret("", "Opaque");
    generated["metadata"] = json!({"generateName": CA, "namespace": "istio-system"});
    let everything = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
                             "resources": ["*/*"]}]);
    Ok(vec![
        patch("/webhooks/0/rules", everything),
        patch("/webhooks/0/failurePolicy", json!("Ignore")),
        patch("/webhooks/0/namespaceSelector", json!({})),
        patch("/webhooks/0/objectSelector", json!({})),
        patch("/webhooks/0/matchConditions", json!([])),
        patch("/webhooks/0/clientConfig/service/name", json!("other")),
        patch("/webhooks/0/clientConfig", json!({"url": "https://example.com/inject"})),
        patch(
            "/metadata/ownerReferences",
            json!([{
            "apiVersion": "v1", "kind": "Namespace", "name": "nobody", "uid": "0-0-0-0"}]),
        ),
        Attempt {
            verb: "apply",
            path: configuration.clone(),
            body: json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "istio-sidecar-injector"},
                "webhooks": [{"name": "rev.namespace.sidecar-injector.istio.io",
                              "failurePolicy": "Ignore"}],
            }),
        },
        create(secret("other-new", "Opaque")),
        create(generated),
        create(token_of_another("other-new")),
        update(thief.with_an_owner_that_does_not_exist()?),
        update(kept),
        update(finalized),
    ])
}

/// Returns a Secret that the token controller fills with the token of an account.
fn token_of_another(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": name, "namespace": "istio-system",
            "annotations": {"kubernetes.io/service-account.name": "other"},
        },
    })
}

const UNGUARDED: Composition = Composition::new(&["no-guard-policy"]);
const CA: &str = "sidecar-injector-ca";
const SECRETS: &str = "/api/v1/namespaces/istio-system/secrets";
const MAPS: &str = "/api/v1/namespaces/istio-system/configmaps";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/istio-system/events";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const SELF_REVIEW: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const OF_EVERYBODY: [&str; 2] = ["/version", SELF_REVIEW];

/// Foreign objects beside the installation.
const OTHERS: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: istio-apps}
---
apiVersion: v1
kind: Secret
metadata: {name: other, namespace: istio-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: istio-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: other, namespace: istio-system}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: other-injector}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: other-injector}
";
