//! Pods and settings that no case has: the built-in overlays give what the chart's templates give.

use std::collections::BTreeMap;
use std::fs;

use injector::cluster_facts::ClusterFacts;
use injector::inject::{InjectError, Outcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use injector::yaml;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::case::folder;
use crate::choices::{ANNOTATIONS, HOSTILE, LABELS, MESH, TEMPLATES, VALUES};
use crate::normal::{differences, normal};

#[test]
fn the_built_in_overlays_give_what_the_templates_give() {
    let Some(folder) = folder() else { return };
    let read = |name: &str| fs::read_to_string(folder.join("defaults").join(name)).unwrap();
    let templates = read("inject_config.yaml");
    let values: Value = serde_json::from_str(&read("values.json")).unwrap();
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        cases: Config::default().cases / 2,
        ..Config::default()
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

/// A pod and all that shapes its injection.
#[derive(Clone, Debug)]
struct Situation {
    pod: Value,
    values: Vec<(&'static str, Value)>,
    mesh: Value,
    process: Process,
    namespace_annotations: BTreeMap<String, String>,
}

impl Situation {
    fn values(&self, mut values: Value) -> Value {
        for (path, value) in &self.values {
            let (parent, key) = path.rsplit_once('/').unwrap();
            values.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        values
    }

    /// What an injection of what came out gives.
    fn again(&self, pod: &Value, config: &str, values: &str) -> Value {
        let again = Self { pod: pod.clone(), ..self.clone() };
        again.inject(config, values).unwrap()
    }

    /// With these Istio's template puts `volumeMounts` where they mean nothing.
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
            ..Target::at_admission(self.pod.clone(), "shop")
        };
        match inject(&settings, target)? {
            Outcome::Injected(injection) => Ok(injection.pod),
            Outcome::Skipped(reason) => Ok(json!(reason.to_string())),
        }
    }
}

fn situation() -> impl Strategy<Value = Situation> {
    (pod(), some_of(VALUES), mesh(), process(), namespace()).prop_map(
        |(pod, values, mesh, process, namespace_annotations)| Situation {
            pod,
            values: values
                .into_iter()
                .map(|(path, value)| (path, yaml::parse(value).unwrap()))
                .collect(),
            mesh,
            process,
            namespace_annotations,
        },
    )
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(container(), 1..4);
    let spec = prop_oneof![
        Just(json!({})),
        Just(json!({"serviceAccountName": "cart"})),
        Just(json!({"volumes": [{"name": "data", "emptyDir": {}}]})),
        Just(
            json!({"initContainers": [{"name": "setup", "image": "b"}], "imagePullSecrets": [{"name": "k"}]})
        ),
    ];
    (containers, spec, labels(), annotations(), owner()).prop_map(
        |(containers, mut spec, labels, annotations, mut metadata)| {
            let containers = containers.into_iter().enumerate().map(|(number, mut container)| {
                if container["name"].is_null() {
                    container["name"] = format!("c{number}").into();
                }
                container
            });
            let mut seen = false;
            let containers = containers.filter(|container| {
                let proxy = container["name"] == "istio-proxy";
                !proxy || !std::mem::replace(&mut seen, true)
            });
            spec["containers"] = containers.collect();
            metadata["labels"] = labels;
            metadata["annotations"] = annotations;
            json!({"metadata": metadata, "spec": spec})
        },
    )
}

fn container() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => Just(json!({"image": "app:1"})),
        1 => Just(json!({"image": "r:5000/app@sha256:0123", "env": [{"name": "A", "value": "x"}]})),
        2 => Just(json!({"image": "app:1", "ports": [
            {"containerPort": 80, "name": "http"},
            {"containerPort": 53, "protocol": "UDP", "hostPort": 5353, "hostIP": "127.0.0.1"},
        ]})),
        1 => Just(json!({"image": "app:1", "ports": [{"containerPort": 81, "name": HOSTILE}]})),
        1 => Just(json!({"image": "app:1", "readinessProbe": {"httpGet": {"port": 80, "path": "/"}}})),
        1 => Just(json!({"name": "istio-proxy", "image": "auto"})),
        1 => Just(json!({"name": "istio-proxy", "image": "auto", "env": [
            {"name": "MINE", "value": "1"}, {"name": "TRUST_DOMAIN", "value": "mine"}]})),
        1 => Just(json!({"name": "istio-proxy", "image": "mine:1", "securityContext": {"runAsUser": 1500}})),
    ]
}

fn owner() -> impl Strategy<Value = Value> {
    let owned = |api: &str, kind: &str, name: &str| {
        Just(json!({"generateName": format!("{name}-"), "ownerReferences": [
            {"apiVersion": api, "kind": kind, "name": name, "controller": true, "uid": "u"}]}))
    };
    prop_oneof![
        Just(json!({"name": "cart"})),
        Just(json!({"generateName": "cart-"})),
        owned("apps/v1", "ReplicaSet", "cart-5d4"),
        owned("batch/v1", "Job", "backup-28113120"),
        owned("", "Odd", "cart"),
        owned(HOSTILE, "Od: d", "cart"),
    ]
}

fn labels() -> impl Strategy<Value = Value> {
    some_of(LABELS).prop_map(object)
}

fn annotations() -> impl Strategy<Value = Value> {
    (some_of(ANNOTATIONS), prop::option::of(prop::sample::select(TEMPLATES))).prop_map(
        |(annotations, templates)| {
            let templates = templates.map(|names| ("inject.istio.io/templates", names));
            object(annotations.into_iter().chain(templates).collect())
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

type Entries = Vec<(&'static str, &'static str)>;

fn some_of(entries: &'static [(&'static str, &'static str)]) -> impl Strategy<Value = Entries> {
    prop::collection::vec(prop::sample::select(entries), 0..5)
}

fn object(entries: Entries) -> Value {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
