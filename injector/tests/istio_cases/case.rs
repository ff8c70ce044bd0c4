//! One case: its files, its settings, and its reviews.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use documents::yaml;
use injector::inject::cluster_state::ClusterFacts;
use injector::inject::{InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use serde::Deserialize;
use serde_json::Value;

use crate::comparison::{differences, normal};

/// Overlays with which a case is run.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Overlays {
    /// The built-in overlays.
    BuiltIn,
    /// The templates of Istio's chart.
    Templates,
}

/// One review of a case, and Istio's answer.
pub(crate) struct Review {
    pub(crate) number: usize,
    pub(crate) pod: Value,
    pub(crate) verdict: Verdict,
    /// The pod after Istio's patch; null without a patch.
    pub(crate) expected: Value,
}

#[derive(Deserialize)]
pub(crate) struct Verdict {
    namespace: String,
    allowed: bool,
    pub(crate) patched: bool,
}

/// One folder of the cases.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) options: Options,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Options {
    pub(crate) modes: Vec<String>,
    pub(crate) revision: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) builtin: bool,
    pub(crate) expected_error: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) flags: Vec<String>,
    pub(crate) fixture_namespace: Option<Namespace>,
}

#[derive(Deserialize)]
pub(crate) struct Namespace {
    annotations: BTreeMap<String, String>,
}

impl Case {
    /// Returns all cases by name; `None` if their directory is not given.
    pub(crate) fn all() -> Option<Vec<Self>> {
        let folder = folder()?;
        let entries = fs::read_dir(folder).expect("ISTIO_CASES names a directory");
        let mut cases: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|folder| folder.join("options.json").exists())
            .map(|folder| Self {
                name: folder.file_name().unwrap().to_string_lossy().into_owned(),
                options: serde_json::from_str(&read(&folder.join("options.json"))).unwrap(),
                folder,
            })
            .collect();
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Some(cases)
    }

    /// Returns the reason for an intended difference from Istio's result.
    pub(crate) fn differs(&self) -> Option<&'static str> {
        let reason = DIFFERENT.iter().find(|(name, _)| *name == self.name);
        reason.map(|(_, reason)| *reason)
    }

    /// Injects the pods of the case's reviews. Returns the number of equal results.
    pub(crate) fn run_reviews(&self, overlays: Overlays) -> Result<usize, String> {
        if !self.options.modes.iter().any(|mode| mode == "webhook") {
            return Ok(0);
        }
        let settings = self.settings(overlays);
        let mut equal = 0;
        for review in self.reviews() {
            let Review { number, pod, verdict, expected } = &review;
            match inject(&settings, self.target(&review, pod.clone())) {
                Err(error) if !verdict.allowed => drop(error),
                Err(error) => return Err(format!("review {number}: {error}")),
                Ok(InjectionOutcome::Skipped { reason, .. }) if !verdict.patched => drop(reason),
                Ok(InjectionOutcome::Skipped { reason, .. }) => {
                    return Err(format!("review {number}: {reason}"));
                }
                Ok(InjectionOutcome::Injected(injection)) => {
                    let mut patched = pod.clone();
                    json_patch::patch(&mut patched, &injection.patch().owned()).unwrap();
                    assert_eq!(patched, injection.pod, "{}: the patch gives the pod", self.name);
                    compare(&format!("review {number}"), patched, expected.clone())?;
                }
            }
            equal += 1;
        }
        Ok(equal)
    }

    /// Returns the reviews of the case.
    pub(crate) fn reviews(&self) -> Vec<Review> {
        let file = |number: usize, kind: &str| {
            self.folder.join(format!("webhook/{number:02}.{kind}.json"))
        };
        let json = |file: PathBuf| {
            if file.exists() { serde_json::from_str(&read(&file)).unwrap() } else { Value::Null }
        };
        let numbers = (0..).take_while(|number| file(*number, "pod").exists());
        numbers
            .map(|number| Review {
                number,
                pod: json(file(number, "pod")),
                verdict: serde_json::from_value(json(file(number, "verdict"))).unwrap(),
                expected: json(file(number, "expected")),
            })
            .collect()
    }

    /// Returns the target of a review with another pod.
    pub(crate) fn target<'a>(&'a self, review: &'a Review, pod: Value) -> Target<'a> {
        let namespace = self.options.fixture_namespace.as_ref();
        let namespace_annotations = namespace.map(|namespace| &namespace.annotations);
        Target {
            cluster: ClusterFacts { namespace_annotations, ..ClusterFacts::default() },
            ..Target::at_admission(pod, &review.verdict.namespace)
        }
    }

    pub(crate) fn settings(&self, overlays: Overlays) -> Settings {
        let texts = [
            self.inject_config(overlays),
            read(&self.file("values.json")),
            read(&self.file("mesh.yaml")),
        ];
        let document = |text| Some(Document { source: "case", text });
        let documents = Documents {
            inject_config: document(&texts[0]),
            values: document(&texts[1]),
            mesh_config: document(&texts[2]),
        };
        let env = |name: &str| self.options.env.get(name).cloned().unwrap_or_default();
        let revision = Some(self.options.revision.clone()).filter(|name| name != "default");
        let process = Process {
            revision: revision.unwrap_or_default(),
            native_sidecars: env("ENABLE_NATIVE_SIDECARS") != "false",
            compliance_policy: env("COMPLIANCE_POLICY"),
            openshift: env("PLATFORM") == "openshift",
        };
        Settings::parse(&documents, process).unwrap()
    }

    /// Returns the configuration document. Without the chart's templates, the built-in overlays
    /// take their place if the case allows it.
    pub(crate) fn inject_config(&self, overlays: Overlays) -> String {
        let text = read(&self.file("inject_config.yaml"));
        if overlays == Overlays::Templates || !self.options.builtin {
            return text;
        }
        let mut config = yaml::parse(&text).unwrap();
        if let Some(templates) = config["templates"].as_object_mut() {
            templates.retain(|name, _| !CHART_TEMPLATES.contains(&name.as_str()));
        }
        serde_json::to_string(&config).unwrap()
    }

    /// True if Istio's command has a result for the case's file.
    pub(crate) fn has_an_expected_file(&self) -> bool {
        self.options.modes.iter().any(|mode| mode == "kube-inject")
            && self.options.expected_error.is_empty()
    }

    /// Returns the path of a file of the case.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        let own = self.folder.join(name);
        if own.exists() { own } else { self.folder.join("../defaults").join(name) }
    }
}

/// Runs all cases whose outcome is Istio's.
pub(crate) fn check(run: impl Fn(&Case) -> Result<usize, String>) {
    let Some(cases) = Case::all() else { return };
    let mut failures = Vec::new();
    let mut equal = 0;
    for case in &cases {
        if let Some(reason) = case.differs() {
            println!("{}: not compared: {reason}", case.name);
            continue;
        }
        match run(case) {
            Ok(count) => equal += count,
            Err(failure) => failures.push(format!("--- {}\n{failure}", case.name)),
        }
    }
    println!("{equal} are equal to Istio's");
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
    assert!(equal > 0, "no case ran");
}

/// All cases, with both kinds of overlays.
pub(crate) fn runs() -> Vec<(Case, Overlays)> {
    let all = |overlays| Case::all().into_iter().flatten().map(move |case| (case, overlays));
    all(Overlays::BuiltIn).chain(all(Overlays::Templates)).collect()
}

/// Returns the directory of the cases. If it is not given, records that they are left out.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("ISTIO_CASES");
    if folder.is_none() {
        e2e::skipped_tests::record("Istio's own cases", "ISTIO_CASES is not set").unwrap();
    }
    folder.map(PathBuf::from)
}

pub(crate) fn compare(what: &str, ours: Value, expected: Value) -> Result<(), String> {
    let differences = differences(&normal(ours), &normal(expected));
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("{what} (ours, then Istio's):\n{}", differences.join("\n")))
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const CHART_TEMPLATES: [&str; 8] = [
    "sidecar",
    "gateway",
    "grpc-simple",
    "grpc-agent",
    "waypoint",
    "kube-gateway",
    "agentgateway",
    "agentgateway-waypoint",
];

/// Cases with an intended difference from Istio's result, and the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("cronjob", "the pod template gets the metadata, not the Job (docs/differences.md)"),
    (
        "sidecar-spire",
        "what the overlay says of istio-proxy reaches the native sidecar (docs/differences.md)",
    ),
];

/// Cases whose outcome by Istio a further injection changes, and why.
pub(crate) const CHANGED: [(&str, &str); 2] = [
    ("cronjob", "the pod template has no status annotation; Istio puts it on the Job"),
    ("sidecar-spire", "of the two proxies that Istio leaves there is one afterwards"),
];
