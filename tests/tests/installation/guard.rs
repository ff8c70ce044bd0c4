//! The guard policies: they limit a stolen token, and do not affect the injector.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use e2e::manifests::Composition;
use e2e::wait;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::Fixture;
use crate::injector::Injector;
use crate::pods;
use crate::thief::{Answer, Dry, Thief};

pub(crate) fn injector_account_can_change_only_ca_bundle(fixture: &Fixture) -> Result<()> {
    let rendered = fixture.render(Composition::new(&[]))?;
    fixture.apply(&rendered)?;
    // More permissions than the manifests grant, so that the policy is what denies.
    fixture.apply(WIDER)?;
    let policy = fixture.get("validatingadmissionpolicy", "sidecar-injector-webhooks")?;
    let thief = Thief::new(fixture, "sidecar-injector")?;

    // Policies take effect a moment after they are written. A repeated change would be no change
    // and therefore allowed, so each attempt differs.
    let mut seconds = (7..=30).cycle();
    wait::until("the policy is in force", || {
        let value = seconds.next();
        let change =
            json!([{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": value}]);
        let answer = thief.patch(NAME, &change, Dry::No)?;
        // A denial because the thief has no permission yet does not count.
        ensure!(answer.is_denied("the injector may"), "not yet: {answer:?}");
        anyhow::Ok(())
    })?;
    let warnings = fixture.get("validatingadmissionpolicy", "sidecar-injector-webhooks")?;
    let warnings = &warnings["status"]["typeChecking"]["expressionWarnings"];
    ensure!(warnings.is_null(), "{warnings}; {policy}");

    let bundle = json!("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==");
    for entry in 0..4 {
        let path = format!("/webhooks/{entry}/clientConfig/caBundle");
        let change = json!([{"op": "add", "path": path, "value": bundle}]);
        let answer = thief.patch(NAME, &change, Dry::No)?;
        ensure!(answer.code == 200, "caBundle of entry {entry}: {answer:?}");
    }
    let entry = |field: &str, value: Value| {
        let path = format!("/webhooks/1/{field}");
        json!([{"op": "add", "path": path, "value": value}])
    };
    let selector = json!({"matchExpressions": []});
    let refused = [
        entry(
            "rules",
            json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]),
        ),
        entry("rules/0/resources/0", json!("secrets")),
        entry("namespaceSelector", selector.clone()),
        entry("namespaceSelector/matchExpressions/0/values/0", json!("nowhere")),
        entry("objectSelector", selector),
        entry("failurePolicy", json!("Ignore")),
        entry("matchPolicy", json!("Exact")),
        entry("sideEffects", json!("NoneOnDryRun")),
        entry("timeoutSeconds", json!(30)),
        entry("reinvocationPolicy", json!("Never")),
        entry("admissionReviewVersions", json!(["v1", "v1beta1"])),
        entry("matchConditions", json!([])),
        entry("matchConditions/0/expression", json!("true")),
        entry("clientConfig/service/name", json!("other")),
        entry("clientConfig/service/namespace", json!("other")),
        entry("clientConfig/service/path", json!("/other")),
        entry("clientConfig/service/port", json!(8443)),
        entry("clientConfig", json!({"url": "https://example.com/inject"})),
        entry("name", json!("other.sidecar-injector.istio.io")),
        json!([{"op": "remove", "path": "/webhooks/1"}]),
        json!([{"op": "remove", "path": "/webhooks"}]),
        json!([{"op": "move", "from": "/webhooks/1", "path": "/webhooks/0"}]),
        json!([{"op": "copy", "from": "/webhooks/1", "path": "/webhooks/4"},
               {"op": "replace", "path": "/webhooks/4/name", "value": "fifth.sidecar-injector.istio.io"}]),
        json!([{"op": "add", "path": "/metadata/labels/istio.io~1rev", "value": "other"}]),
        json!([{"op": "add", "path": "/metadata/annotations", "value": {"other": "other"}}]),
        json!([{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/other"]}]),
        json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [
            {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "0"}]}]),
    ];
    for patch in refused {
        let answer = thief.patch(NAME, &patch, Dry::No)?;
        ensure!(answer.is_denied("the injector may"), "{patch}: {answer:?}");
    }
    for (verb, path, body) in [
        ("delete", format!("{MUTATING}/{NAME}"), json!({})),
        ("create", MUTATING.to_owned(), other("MutatingWebhookConfiguration")),
        ("create", VALIDATING.to_owned(), other("ValidatingWebhookConfiguration")),
    ] {
        let answer = thief.send(verb, &path, &body, Dry::No)?;
        let is_denied = answer.is_denied("may neither create nor delete");
        ensure!(is_denied, "{verb} {path}: {answer:?}");
    }
    // The policies do not bind the administrator, and the injector works.
    let rename = r#"[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 6}]"#;
    fixture.kubectl().must(["patch", CONFIGURATION, NAME, "--type=json", "--patch", rename])?;
    let bundles = fixture.bundles(NAME)?;
    let injector = Injector::of_manifests(fixture, &rendered)?;
    wait::until("the injector has written caBundle", || {
        ensure!(fixture.bundles(NAME)?.iter().all(|bundle| !bundles.contains(bundle)), "not yet");
        anyhow::Ok(())
    })?;
    let failures = injector.count("webhook_patch_failures_total")?;
    if failures > 0 {
        bail!("the policy refused {failures} writes of the injector");
    }
    Ok(())
}

/// The policies for the account of a revision are created and deleted with the revision.
pub(crate) fn revision_has_its_own_guard_policies(fixture: &Fixture) -> Result<()> {
    let canary = Composition { components: &["revision"], revision: Some("canary"), tags: &[] };
    let canary = fixture.render(canary)?;
    for rendered in [&fixture.render(Composition::new(&[]))?, &canary] {
        fixture.apply(rendered)?;
    }
    let default = Thief::new(fixture, "sidecar-injector")?;
    let canary = Thief::new(fixture, "sidecar-injector-canary")?;
    let change = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    let thefts = || -> Result<[Answer; 2]> {
        Ok([
            default.patch(NAME, &change, Dry::Yes)?,
            canary.patch("istio-sidecar-injector-canary", &change, Dry::Yes)?,
        ])
    };
    wait::until("both are held", || {
        let answers = thefts()?;
        let are_denied = answers.iter().all(|answer| answer.is_denied("the injector may"));
        ensure!(are_denied, "{answers:?}");
        anyhow::Ok(())
    })?;
    // Deletes only the policies of the revision, so that its account still exists.
    let policies = "validatingadmissionpolicies,validatingadmissionpolicybindings";
    fixture.kubectl().must(["delete", policies, "--selector=istio.io/rev=canary"])?;
    wait::until("the revision's account is held no more", || {
        let [default, canary] = thefts()?;
        ensure!(canary.code == 200, "{canary:?}");
        ensure!(default.is_denied("the injector may"), "the other was held by them: {default:?}");
        anyhow::Ok(())
    })?;
    Ok(())
}

/// The usual way to another namespace: the `namespace` of a kustomization, which does not change
/// expressions. The policies do not bind an account of the same name in another namespace.
pub(crate) fn installation_in_another_namespace_is_guarded(fixture: &Fixture) -> Result<()> {
    let folder = TempDir::new().context("making a folder for a kustomization")?;
    fs::write(folder.path().join("base.yaml"), fixture.render(Composition::new(&[]))?)?;
    let kustomization = "{resources: [base.yaml], namespace: istio-elsewhere}";
    fs::write(folder.path().join("kustomization.yaml"), kustomization)?;
    let path = folder.path().to_str().context("a path in UTF-8")?;
    fixture.kubectl().must(["apply", "--kustomize", path])?;
    fixture.apply(NAMESAKE)?;
    let thief = |namespace| Thief::in_namespace(fixture, namespace, "sidecar-injector");
    let (ours, theirs) = (thief("istio-elsewhere")?, thief("istio-of-others")?);
    wait::until("the Secrets are guarded", || {
        let answer = ours.create_secret("istio-elsewhere", "other", Dry::Yes)?;
        let denial = "may write no other Secret than sidecar-injector-ca";
        ensure!(answer.is_denied(denial), "{answer:?}");
        anyhow::Ok(())
    })?;
    let answer = ours.create_secret("istio-elsewhere", "sidecar-injector-ca", Dry::Yes)?;
    ensure!(answer.code == 201, "its own Secret: {answer:?}");
    let change = json!([{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 7}]);
    wait::until("the webhook configuration is guarded", || {
        let answer = ours.patch(NAME, &change, Dry::Yes)?;
        ensure!(answer.is_denied("the injector may"), "{answer:?}");
        anyhow::Ok(())
    })?;
    let answer = theirs.create_secret("istio-of-others", "other", Dry::Yes)?;
    ensure!(answer.code == 201, "an account of others is held: {answer:?}");
    Ok(())
}

/// A Secret that exists before the injector may have an owner, as operators set it, a finalizer and
/// another type. A policy that rejected those would leave the injector without a CA.
pub(crate) fn secret_with_foreign_owner_is_still_written(fixture: &Fixture) -> Result<()> {
    let rendered = fixture.render(Composition::new(&[]))?;
    fixture.apply(&rendered)?;
    let owner = fixture.get("configmap", "istio")?["metadata"]["uid"].clone();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "sidecar-injector-ca", "namespace": "istio-system",
            "finalizers": ["example.com/kept"],
            "ownerReferences":
                [{"apiVersion": "v1", "kind": "ConfigMap", "name": "istio", "uid": owner}],
        },
        "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""},
    });
    fixture.runtime.block_on(fixture.objects.create(&secret))?;
    until_secrets_are_guarded(fixture)?;
    let injector = Injector::of_manifests(fixture, &rendered)?;
    fixture.until_published(NAME)?;
    ensure!(injector.count("webhook_patch_failures_total")? == 0, "writes failed");
    let kept = fixture.get("secret", "sidecar-injector-ca")?;
    ensure!(kept["metadata"]["finalizers"] == json!(["example.com/kept"]), "{}", kept["metadata"]);
    ensure!(kept["metadata"]["ownerReferences"][0]["uid"] == owner, "{}", kept["metadata"]);
    ensure!(kept["type"] == "kubernetes.io/tls", "{}", kept["type"]);
    let free = r#"[{"op": "remove", "path": "/metadata/finalizers"}]"#;
    let own = ["secret", "sidecar-injector-ca", "--namespace=istio-system", "--type=json"];
    fixture.kubectl().must([&["patch"], &own[..], &["--patch", free]].concat()).map(drop)
}

/// The injector must not write the token Secret of an account, nor lose its certificate because of
/// it. It keeps serving its certificate, and recreates the Secret when the token Secret is gone.
pub(crate) fn secret_turned_into_a_token_is_reported_and_not_written(
    fixture: &Fixture,
) -> Result<()> {
    let rendered = fixture.render(Composition::new(&[]))?;
    fixture.apply(&rendered)?;
    until_secrets_are_guarded(fixture)?;
    let injector = Injector::of_manifests(fixture, &rendered)?;
    let published = fixture.until_published(NAME)?;
    let delete = ["delete", "secret", "sidecar-injector-ca", "--namespace=istio-system"];

    // A changed Secret keeps its type, because the type is immutable.
    let retyped = r#"{"type": "kubernetes.io/tls"}"#;
    let patch = ["patch", "secret", "sidecar-injector-ca", "--namespace=istio-system", "--patch"];
    let answer = fixture.kubectl().run([&patch[..], &[retyped]].concat())?;
    ensure!(answer.stderr.contains("type: Invalid value"), "{}", answer.stderr);

    // The Secret is recreated while the injector is suspended.
    injector.process.signal(Signal::STOP)?;
    fixture.kubectl().must(delete)?;
    let account = json!({"kubernetes.io/service-account.name": "sidecar-injector"});
    let other = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "sidecar-injector-ca", "namespace": "istio-system", "annotations": account},
    });
    fixture.runtime.block_on(fixture.objects.create(&other))?;
    injector.process.signal(Signal::CONT)?;
    injector.until_it_says("may not write the token of an account; delete this Secret")?;
    let kept = fixture.get("secret", "sidecar-injector-ca")?;
    ensure!(kept["data"].is_null() && kept["metadata"]["annotations"] == account, "{kept}");
    ensure!(fixture.until_published(NAME)? == published, "another CA was published");
    let client = fixture.admin.clone();
    pods::namespace(fixture, "istio-tokens", "istio-injection=enabled")?;
    fixture.runtime.block_on(pods::until_injected(&client, "istio-tokens"))?;

    fixture.kubectl().must(delete)?;
    wait::until("the Secret is back", || {
        let secret = fixture.get("secret", "sidecar-injector-ca")?;
        ensure!(secret["type"] == "Opaque", "{}", secret["type"]);
        anyhow::Ok(())
    })?;
    ensure!(fixture.until_published(NAME)? == published, "it has another CA");
    Ok(())
}

fn until_secrets_are_guarded(fixture: &Fixture) -> Result<()> {
    let thief = Thief::new(fixture, "sidecar-injector")?;
    wait::until("the policy is in force", || {
        let answer = thief.create_secret("istio-system", "other", Dry::Yes)?;
        ensure!(answer.is_denied("may write no other Secret"), "{answer:?}");
        anyhow::Ok(())
    })
}

impl Thief<'_> {
    fn patch(&self, configuration: &str, patch: &Value, dry: Dry) -> Result<Answer> {
        self.send("patch", &format!("{MUTATING}/{configuration}"), patch, dry)
    }

    fn create_secret(&self, namespace: &str, name: &str, dry: Dry) -> Result<Answer> {
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        self.send("create", &path, &secret, dry)
    }
}

/// Returns a webhook configuration without entries.
fn other(kind: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
           "metadata": {"name": "other-injector"}})
}

const CONFIGURATION: &str = "mutatingwebhookconfiguration";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const NAME: &str = "istio-sidecar-injector";
const WIDER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: wider-than-the-injector}
rules:
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: ["*"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: wider-than-the-injector}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: wider-than-the-injector}
subjects:
- {kind: ServiceAccount, name: sidecar-injector, namespace: istio-system}
"#;
const NAMESAKE: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: istio-of-others}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: sidecar-injector, namespace: istio-of-others}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: secrets, namespace: istio-of-others}
rules:
- {apiGroups: [''], resources: [secrets], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: secrets, namespace: istio-of-others}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: secrets}
subjects:
- {kind: ServiceAccount, name: sidecar-injector, namespace: istio-of-others}
";
