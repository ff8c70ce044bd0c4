//! Pods, settings and reviews of the benchmarks. A review is measured from request bytes to
//! response bytes.

#![allow(clippy::expect_used, reason = "a benchmark fails by panic")]
#![allow(clippy::print_stdout, reason = "figures are what it is for")]
#![allow(dead_code, reason = "no benchmark uses all of it")]

pub(crate) mod pods;

use std::fs;
use std::path::PathBuf;

use documents::yaml;
use injector::inject::cluster_state::ClusterFacts;
use injector::inject::{InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use injector::webhook::admission::review;
use injector::webhook::admission::verdict::Admission;
use serde_json::{Value, json};

/// Source of the overlay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Overlay {
    /// The built-in overlay.
    BuiltIn,
    /// The built-in overlay, without a record for uninjection (`outrigger.recordOriginal: omit`).
    Unrecorded,
    /// The template of Istio's chart.
    Template,
}

/// A review with the settings to answer it.
pub(crate) struct Review {
    settings: Settings,
    pub(crate) body: Vec<u8>,
}

impl Review {
    /// Returns the review of one of the pods; `None` if it needs Istio's cases, and they are
    /// absent.
    pub(crate) fn new(pod: &str, overlay: Overlay) -> Option<Self> {
        let settings = settings(overlay)?;
        let pod = match pod {
            "small" => pods::small(),
            "typical" => pods::typical(),
            "variables" => pods::with_variables(5_000),
            "injected" => injected(&settings, &pods::typical()),
            "grpc-simple" => {
                let mut pod = pods::with_variables(5_000);
                pod["metadata"]["annotations"] =
                    json!({"inject.istio.io/templates": "grpc-simple"});
                pod
            }
            other => panic!("no pod {other}"),
        };
        let request = json!({
            "uid": "b7e5a1f0-5e0f-4c39-8d5a-5d4b0a2d8a63",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "requestResource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "shop",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller",
                "groups": ["system:serviceaccounts", "system:authenticated"]},
            "object": pod,
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        });
        let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": request});
        Some(Self { settings, body: review.to_string().into_bytes() })
    }

    /// Answers the review, without HTTP.
    pub(crate) fn answer(&self) -> Vec<u8> {
        let review = review::parse(&self.body).expect("a review");
        let verdict =
            Admission::new(inject).decide(&self.settings, ClusterFacts::default(), review, &[]);
        verdict.response.to_json().expect("an answer")
    }
}

/// Returns the settings of a chart with default values.
pub(crate) fn settings(overlay: Overlay) -> Option<Settings> {
    let config = match overlay {
        Overlay::BuiltIn | Overlay::Unrecorded => None,
        Overlay::Template => Some(inject_config()?),
    };
    let values = (overlay == Overlay::Unrecorded)
        .then_some(Document { source: "values", text: "outrigger: {recordOriginal: omit}" });
    let inject_config = config.as_deref().map(|text| Document { source: "the chart's", text });
    let documents = Documents { inject_config, values, ..Documents::default() };
    let process = Process { native_sidecars: true, ..Process::default() };
    Some(Settings::parse(&documents, process).expect("settings"))
}

/// Returns the `config` document of Istio's chart, templates included.
fn inject_config() -> Option<String> {
    let path = config_path()?;
    Some(fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Returns the file of Istio's configuration if `ISTIO_CASES` names the directory of its cases.
pub(crate) fn config_path() -> Option<PathBuf> {
    let cases = std::env::var_os("ISTIO_CASES")?;
    Some(PathBuf::from(cases).join("defaults/inject_config.yaml"))
}

/// Prints the measurement that is skipped without Istio's templates.
pub(crate) fn say_left_out(what: &str) {
    if config_path().is_none() {
        println!("LEFT OUT: {what}: ISTIO_CASES does not name the directory of Istio's cases");
    }
}

/// Names of the pods.
pub(crate) const PODS: [&str; 5] = ["small", "typical", "variables", "injected", "grpc-simple"];

fn injected(settings: &Settings, pod: &Value) -> Value {
    let target = Target::at_admission(pod.clone(), "shop");
    match inject(settings, target).expect("an injected pod") {
        InjectionOutcome::Injected(injection) => injection.pod,
        InjectionOutcome::Skipped { reason, .. } => panic!("{reason}"),
    }
}

/// Returns a YAML file of `count` Deployments of the typical pod.
pub(crate) fn deployments(count: usize) -> String {
    let mut file = String::new();
    for number in 0..count {
        let deployment = pods::deployment(number);
        file.push_str("---\n");
        file.push_str(&yaml::to_string(&deployment).expect("YAML"));
    }
    file
}

/// Returns a YAML file of `count` Deployments with one container.
pub(crate) fn small_deployments(count: usize) -> String {
    let deployment = |number| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web-{number}\nspec:\n  \
             template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers:\n      \
             - name: web\n        image: nginx\n"
        )
    };
    (0..count).map(deployment).collect()
}
