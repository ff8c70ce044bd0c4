//! One case: its files, its settings, and the two ways to run it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use injector::cluster_facts::ClusterFacts;
use injector::inject::{Outcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use injector::yaml;
use serde::Deserialize;
use serde_json::Value;

use crate::normal::{differences, normal};

/// Which overlays a case is run with.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Overlays {
    /// Those that are built in.
    BuiltIn,
    /// The templates of Istio's chart.
    Templates,
}

/// One review of a case, and what Istio answers.
pub(crate) struct Review {
    pub(crate) number: usize,
    pub(crate) pod: Value,
    pub(crate) verdict: Verdict,
    /// The pod after Istio's patch; null where there is none.
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
    folder: PathBuf,
    options: Options,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Options {
    modes: Vec<String>,
    revision: String,
    env: BTreeMap<String, String>,
    builtin: bool,
    expected_error: String,
    warnings: Vec<String>,
    flags: Vec<String>,
    fixture_namespace: Option<Namespace>,
}

#[derive(Deserialize)]
struct Namespace {
    annotations: BTreeMap<String, String>,
}

impl Case {
    /// All cases, by name; `None` where their directory is not given.
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

    /// Why the outcome is not Istio's, where it is not meant to be.
    pub(crate) fn differs(&self) -> Option<&'static str> {
        let reason = DIFFERENT.iter().find(|(name, _)| *name == self.name);
        reason.map(|(_, reason)| *reason)
    }

    /// Injects the pods of the case's reviews; says how many were equal.
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
                Ok(Outcome::Skipped { reason, .. }) if !verdict.patched => drop(reason),
                Ok(Outcome::Skipped { reason, .. }) => {
                    return Err(format!("review {number}: {reason}"));
                }
                Ok(Outcome::Injected(injection)) => {
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

    /// Runs `istioctl kube-inject` on the case's file; says how many documents were equal.
    pub(crate) fn run_file(&self, overlays: Overlays) -> Result<usize, String> {
        if !self.options.modes.iter().any(|mode| mode == "kube-inject") {
            return Ok(0);
        }
        let output = self.kube_inject(overlays, Path::new("input.yaml"));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if !self.options.expected_error.is_empty() {
            let expected = self.options.expected_error.to_lowercase();
            let as_expected = !output.status.success() && stderr.to_lowercase().contains(&expected);
            return if as_expected { Ok(1) } else { Err(format!("no error {expected}: {stderr}")) };
        }
        if !output.status.success() {
            return Err(stderr);
        }
        for warning in &self.options.warnings {
            if !stderr.contains(warning.trim_end()) {
                return Err(format!("no warning {warning:?}: {stderr}"));
            }
        }
        let ours = documents(&String::from_utf8_lossy(&output.stdout));
        let expected = documents(&read(&self.folder.join("expected.yaml")));
        if ours.len() != expected.len() {
            return Err(format!("{} documents, not {}", ours.len(), expected.len()));
        }
        let count = ours.len();
        for (number, (ours, expected)) in ours.into_iter().zip(expected).enumerate() {
            compare(&format!("document {number}"), ours, expected)?;
        }
        Ok(count)
    }

    /// The reviews of the case.
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

    /// A pod in the place of a review's.
    pub(crate) fn target<'a>(&'a self, review: &'a Review, pod: Value) -> Target<'a> {
        let namespace = self.options.fixture_namespace.as_ref();
        let namespace_annotations = namespace.map(|namespace| &namespace.annotations);
        Target {
            cluster: ClusterFacts { namespace_annotations, ..ClusterFacts::default() },
            ..Target::at_admission(pod, &review.verdict.namespace)
        }
    }

    /// What `istioctl kube-inject` makes of a file, by a path from the case's folder.
    pub(crate) fn kube_inject(&self, overlays: Overlays, file: &Path) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("inject_config.yaml");
        fs::write(&config, self.inject_config(overlays)).unwrap();
        Command::new(env!("CARGO_BIN_EXE_istioctl"))
            .current_dir(&self.folder)
            .args(["kube-inject", "--revision", &self.options.revision, "-f"])
            .arg(file)
            .arg("--injectConfigFile")
            .arg(config)
            .arg("--valuesFile")
            .arg(self.file("values.json"))
            .arg("--meshConfigFile")
            .arg(self.file("mesh.yaml"))
            .args(&self.options.flags)
            .env_clear()
            .envs(&self.options.env)
            .output()
            .unwrap()
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

    /// The configuration document, where it is asked for without the chart's templates, so that
    /// what is built in takes their place.
    fn inject_config(&self, overlays: Overlays) -> String {
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

    /// Whether Istio's command has an outcome for the case's file.
    pub(crate) fn has_an_expected_file(&self) -> bool {
        self.options.modes.iter().any(|mode| mode == "kube-inject")
            && self.options.expected_error.is_empty()
    }

    /// A file of the case.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn file(&self, name: &str) -> PathBuf {
        let own = self.folder.join(name);
        if own.exists() { own } else { self.folder.join("../defaults").join(name) }
    }
}

/// The directory of the cases; `None` if it is not given, which leaves them out.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("ISTIO_CASES");
    if folder.is_none() {
        e2e::left_out::record("Istio's own cases", "ISTIO_CASES is not set").unwrap();
    }
    folder.map(PathBuf::from)
}

fn compare(what: &str, ours: Value, expected: Value) -> Result<(), String> {
    let differences = differences(&normal(ours), &normal(expected));
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("{what} (ours, then Istio's):\n{}", differences.join("\n")))
}

fn documents(text: &str) -> Vec<Value> {
    let texts = text.split("\n---").map(|text| text.trim_start_matches("---"));
    texts.map(|text| yaml::parse(text).unwrap()).filter(|value| !value.is_null()).collect()
}

fn read(path: &Path) -> String {
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

/// Cases whose outcome is not Istio's, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("cronjob", "the pod template gets the metadata, not the Job (docs/differences.md)"),
    (
        "sidecar-spire",
        "what the overlay says of istio-proxy reaches the native sidecar (docs/differences.md)",
    ),
];
