//! What a stolen token of the injector is good for, where the guard policy is installed.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use e2e::kubectl::Answer;
use e2e::manifests::Composition;
use e2e::wait;
use serde_json::{Value, json};

use crate::injector::{Injector, token};
use crate::world::{PATIENCE, World};

pub(crate) fn the_injectors_account_may_change_nothing_but_ca_bundle(world: &World) -> Result<()> {
    let rendered = world.render(Composition::of(&["guard-policy"]))?;
    world.kubectl().must_with_input(["apply", "--filename", "-"], &rendered)?;
    // More than the manifests grant, so that it is the policy that refuses.
    world.kubectl().must_with_input(["apply", "--filename", "-"], WIDER)?;
    let policy = world.get("validatingadmissionpolicy", "sidecar-injector")?;
    let token = token(world, "sidecar-injector")?;
    let kubeconfig = world.servers.kubeconfig(0, "thief", &token)?;
    let thief = Thief { world, kubeconfig: &kubeconfig };

    // Policies take effect a moment after they were written. What was changed before that is no
    // change when it is tried again, and allowed: each try is another one.
    let mut seconds = (7..=30).cycle();
    wait::until("the policy is in force", PATIENCE, || {
        let value = seconds.next();
        let change =
            json!([{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": value}]);
        let answer = thief.patch(&change)?;
        // That the thief has no right yet is another refusal.
        ensure!(answer.stderr.contains("the injector may"), "not yet: {}", answer.stderr);
        anyhow::Ok(())
    })?;
    let warnings = world.get("validatingadmissionpolicy", "sidecar-injector")?;
    let warnings = &warnings["status"]["typeChecking"]["expressionWarnings"];
    ensure!(warnings.is_null(), "{warnings}; {policy}");

    let bundle = json!("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==");
    for entry in 0..4 {
        let path = format!("/webhooks/{entry}/clientConfig/caBundle");
        let answer = thief.patch(&json!([{"op": "add", "path": path, "value": bundle}]))?;
        ensure!(answer.succeeded, "caBundle of entry {entry}: {}", answer.stderr);
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
        entry("reinvocationPolicy", json!("IfNeeded")),
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
        let answer = thief.patch(&patch)?;
        let is_refused = answer.stderr.contains("the injector may");
        ensure!(!answer.succeeded && is_refused, "{patch}: {}{}", answer.stdout, answer.stderr);
    }
    for (args, input) in [
        (&["delete", "mutatingwebhookconfiguration", NAME][..], ""),
        (&["create", "--filename", "-"], OTHER),
        (&["create", "--filename", "-"], VALIDATING),
    ] {
        let answer = thief.run(args, input)?;
        let is_refused = answer.stderr.contains("may neither create nor delete");
        ensure!(!answer.succeeded && is_refused, "{args:?}: {}", answer.stderr);
    }
    // The administrator is not bound, and the injector does its work.
    let rename = r#"[{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 6}]"#;
    world.kubectl().must(["patch", CONFIGURATION, NAME, "--type=json", "--patch", rename])?;
    let bundles = world.bundles(NAME)?;
    let injector = Injector::of_manifests(world, &rendered)?;
    wait::until("the injector has written caBundle", PATIENCE, || {
        ensure!(world.bundles(NAME)?.iter().all(|bundle| !bundles.contains(bundle)), "not yet");
        anyhow::Ok(())
    })?;
    let failures = injector.count("webhook_patch_failures_total")?;
    if failures > 0 {
        bail!("the policy refused {failures} writes of the injector");
    }
    Ok(())
}

struct Thief<'a> {
    world: &'a World,
    kubeconfig: &'a Path,
}

impl Thief<'_> {
    fn patch(&self, patch: &Value) -> Result<Answer> {
        self.run(&["patch", CONFIGURATION, NAME, "--type=json", "--patch", &patch.to_string()], "")
    }

    fn run(&self, args: &[&str], input: &str) -> Result<Answer> {
        let kubeconfig = self.kubeconfig.to_str().context("a path in UTF-8")?;
        // The later one counts.
        let args = [args, &["--kubeconfig", kubeconfig]].concat();
        self.world.kubectl().run_with_input(args, input)
    }
}

const CONFIGURATION: &str = "mutatingwebhookconfiguration";
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
const OTHER: &str = r"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: other-injector}
";
const VALIDATING: &str = r"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: other-injector}
";
