//! Generated pods and settings: the built-in overlays give the same result as the chart's
//! templates.

use std::collections::BTreeMap;
use std::fs;

use documents::yaml;
use injector::inject::cluster_state::ClusterFacts;
use injector::inject::{InjectError, InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};

use crate::case::folder;
use crate::choices::{MESH, VALUES};
use crate::comparison::{differences, normal};
use crate::pods::{HOSTILE, pod, some_of};

#[test]
fn built_in_overlays_equal_the_templates() {
    let Some(folder) = folder() else { return };
    let read = |name: &str| fs::read_to_string(folder.join("defaults").join(name)).unwrap();
    let templates = read("inject_config.yaml");
    let values: Value = serde_json::from_str(&read("values.json")).unwrap();
    let config = Config::default();
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        cases: config.cases / 2,
        // The intended differences are so many that not all can be excluded, so the seed is fixed.
        // `PROPTEST_RNG_SEED` and `PROPTEST_CASES` extend the search.
        rng_seed: match config.rng_seed {
            RngSeed::Random => RngSeed::Fixed(0),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        ..config
    });
    let situations = situation().prop_filter("Istio's fault", |one| !one.is_istios_fault());
    let outcome = runner.run(&situations, |situation| {
        let values = situation.values(values.clone()).to_string();
        let ours = situation.inject("policy: enabled", &values);
        let theirs = situation.inject(&templates, &values);
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                let found = differences(&normal(ours), &normal(theirs.clone()));
                prop_assert!(found.is_empty(), "ours, then the template's:\n{}", found.join("\n"));
                prop_assert_eq!(&situation.again(&theirs, &templates, &values), &theirs);
            }
            (Err(ours), Err(theirs)) => prop_assert_eq!(ours.word(), theirs.word()),
            (ours, theirs) => {
                prop_assert!(false, "ours: {:?}\nthe template's: {:?}", ours.err(), theirs.err());
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A pod and all input of its injection.
#[derive(Clone, Debug)]
struct Situation {
    pod: Value,
    values: Vec<(&'static str, Value)>,
    mesh: Value,
    process: Process,
    namespace_annotations: BTreeMap<String, String>,
    path_env: Vec<(String, String)>,
}

impl Situation {
    fn values(&self, mut values: Value) -> Value {
        for (path, value) in &self.values {
            let (parent, key) = path.rsplit_once('/').unwrap();
            values.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        values
    }

    /// Injects the injected pod again.
    fn again(&self, pod: &Value, config: &str, values: &str) -> Value {
        let again = Self { pod: pod.clone(), ..self.clone() };
        again.inject(config, values).unwrap()
    }

    /// True if Istio's template writes `volumeMounts` in an invalid place.
    fn is_istios_fault(&self) -> bool {
        let annotations = &self.pod["metadata"]["annotations"];
        let templates = annotations["inject.istio.io/templates"].as_str().unwrap_or_default();
        let port = annotations["status.sidecar.istio.io/port"].as_str();
        let values = self.values.iter().rfind(|(path, _)| *path == "/global/proxy/statusPort");
        let none = port.map_or(values.is_some_and(|(_, value)| *value == 0), |port| port == "0");
        templates.contains("grpc-agent") && none
    }

    fn inject(&self, config: &str, values: &str) -> Result<Value, InjectError> {
        let mesh = self.mesh.to_string();
        let document = |text| Some(Document { source: "generated", text });
        let documents = Documents {
            inject_config: document(config),
            values: document(values),
            mesh_config: document(&mesh),
        };
        let settings = Settings::parse(&documents, self.process.clone()).unwrap();
        let target = Target {
            cluster: ClusterFacts {
                namespace_annotations: Some(&self.namespace_annotations),
                ..ClusterFacts::default()
            },
            path_env: &self.path_env,
            ..Target::at_admission(self.pod.clone(), "shop")
        };
        match inject(&settings, target)? {
            InjectionOutcome::Injected(injection) => Ok(injection.pod),
            InjectionOutcome::Skipped { reason, .. } => Ok(json!(reason.to_string())),
        }
    }
}

fn situation() -> impl Strategy<Value = Situation> {
    (pod(), some_of(VALUES), mesh(), process(), namespace(), path_env()).prop_map(
        |(pod, values, mesh, process, namespace_annotations, path_env)| Situation {
            pod,
            values: values
                .into_iter()
                .map(|(path, value)| (path, yaml::parse(value).unwrap()))
                .collect(),
            mesh,
            process,
            namespace_annotations,
            path_env,
        },
    )
}

fn mesh() -> impl Strategy<Value = Value> {
    some_of(MESH).prop_map(|layers| {
        let mut mesh = json!({"defaultConfig": {}});
        for (key, value) in layers {
            let value = yaml::parse(value).unwrap();
            match key.strip_prefix("defaultConfig.") {
                Some(key) => mesh["defaultConfig"][key] = value,
                None => mesh[key] = value,
            }
        }
        mesh
    })
}

fn process() -> impl Strategy<Value = Process> {
    let policies = prop::sample::select(vec!["", "", "fips-140-2", "fips-140-3"]);
    let revisions = prop::sample::select(vec!["", "canary"]);
    (revisions, any::<bool>(), policies, any::<bool>()).prop_map(
        |(revision, native_sidecars, compliance_policy, openshift)| Process {
            revision: revision.to_owned(),
            native_sidecars,
            compliance_policy: compliance_policy.to_owned(),
            openshift,
        },
    )
}

fn namespace() -> impl Strategy<Value = BTreeMap<String, String>> {
    let ranges = prop::sample::select(vec!["1000620000/10000", "5-9", "none"]);
    prop::option::of(ranges).prop_map(|range| {
        let range =
            range.map(|range| ("openshift.io/sa.scc.uid-range".to_owned(), range.to_owned()));
        range.into_iter().collect()
    })
}

/// Generates the environment from the webhook's path.
fn path_env() -> impl Strategy<Value = Vec<(String, String)>> {
    let variables = [
        ("ISTIO_META_NETWORK", "n9"),
        ("ISTIO_META_NETWORK", ""),
        ("ISTIO_META_CLUSTER_ID", "arn:aws:eks/c9"),
        ("CUSTOM", HOSTILE),
        ("POD_NAME", "mine"),
    ];
    let some = prop::sample::subsequence(variables.to_vec(), 0..3);
    prop_oneof![2 => Just(vec![]), 1 => some].prop_map(|variables| {
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    })
}
