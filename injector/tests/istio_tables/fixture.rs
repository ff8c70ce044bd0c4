//! Fixture of a table row: the settings, and the injected pod.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Once;

use e2e::skipped_tests;
use injector::inject::cluster_state::ClusterFacts;
use injector::inject::policy::Rules;
use injector::inject::{InjectError, Injection, InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use serde_json::{Value, json};

use crate::comparison::{differences, normal};

/// Settings of an injection.
#[derive(Clone, Debug)]
pub(crate) struct Fixture {
    /// Overlaid on the default values.
    pub(crate) values: Value,
    /// The mesh configuration.
    pub(crate) mesh: Value,
    /// Flags and environment of the process.
    pub(crate) process: Process,
    /// The annotations of the pod's namespace.
    pub(crate) namespace: BTreeMap<String, String>,
    /// Environment from the webhook's path.
    pub(crate) path_env: Vec<(String, String)>,
}

impl Default for Fixture {
    fn default() -> Self {
        Self {
            values: json!({}),
            mesh: json!({}),
            process: Process { native_sidecars: true, ..Process::default() },
            namespace: BTreeMap::new(),
            path_env: Vec::new(),
        }
    }
}

impl Fixture {
    /// Returns a fixture with these values over the default ones.
    pub(crate) fn with_values(values: Value) -> Self {
        Self { values, ..Self::default() }
    }

    /// Returns a fixture with this mesh configuration.
    pub(crate) fn with_mesh(mesh: Value) -> Self {
        Self { mesh, ..Self::default() }
    }

    /// Returns the injected pod. Checks that both kinds of overlay and the patch yield it, and that
    /// reinjection changes nothing.
    pub(crate) fn pod(&self, pod: &Value) -> Value {
        let ours = self.injection(pod).unwrap_or_else(|error| panic!("{error}\n{pod:#}"));
        let mut patched = pod.clone();
        json_patch::patch(&mut patched, &ours.patch().owned()).expect("the patch fits");
        assert_eq!(patched, ours.pod, "the patch gives the pod");
        assert_eq!(self.injection(&patched).unwrap().pod, patched, "injected twice");
        if let Some((config, values)) = self.of_the_chart() {
            let theirs = self.run(&config, &values, pod, Rules::Admission);
            let theirs = injected(theirs.unwrap_or_else(|error| panic!("{error}\n{pod:#}")));
            let theirs = with_fewer_privileges(theirs.pod);
            let found = differences(&normal(ours.pod.clone()), &normal(theirs));
            assert!(found.is_empty(), "ours, then the chart's:\n{}\n{pod:#}", found.join("\n"));
        }
        ours.pod
    }

    /// Injects the pod with the built-in overlays.
    pub(crate) fn injection(&self, pod: &Value) -> Result<Injection, InjectError> {
        self.run("policy: enabled", &self.values, pod, Rules::Admission).map(injected)
    }

    /// Injects the pod with this configuration.
    pub(crate) fn run(
        &self,
        config: &str,
        values: &Value,
        pod: &Value,
        rules: Rules,
    ) -> Result<InjectionOutcome, InjectError> {
        let (values, mesh) = (values.to_string(), self.mesh.to_string());
        let document = |text| Some(Document { source: "table", text });
        let documents = Documents {
            inject_config: document(config),
            values: document(&values),
            mesh_config: document(&mesh),
        };
        let settings = Settings::parse(&documents, self.process.clone()).unwrap();
        let target = Target {
            pod: pod.clone(),
            namespace: "test-ns",
            cluster: ClusterFacts {
                namespace_annotations: Some(&self.namespace),
                ..ClusterFacts::default()
            },
            workload: None,
            path_env: &self.path_env,
            rules,
        };
        inject(&settings, target)
    }

    /// Returns the chart's configuration and values, with the built-in images; `None` without
    /// Istio's cases.
    fn of_the_chart(&self) -> Option<(String, Value)> {
        static ABSENCE: Once = Once::new();
        let Some(cases) = std::env::var_os("ISTIO_CASES").map(PathBuf::from) else {
            let what = "comparison of the tables with Istio's chart";
            ABSENCE.call_once(|| skipped_tests::record(what, "ISTIO_CASES is not set").unwrap());
            return None;
        };
        let folder = cases.join("defaults");
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let values: Value = serde_json::from_str(&read("values.json")).unwrap();
        let built_in = include_str!("../../src/settings/defaults/values.yaml");
        let global = &documents::yaml::parse(built_in).unwrap()["global"];
        let images = json!({"global": {
            "hub": global["hub"], "tag": global["tag"], "proxy_init": global["proxy_init"],
        }});
        let values = over(over(values, &images), &self.values);
        Some((read("inject_config.yaml"), values))
    }
}

/// Returns a pod with one container.
pub(crate) fn pod(annotations: &Value) -> Value {
    pod_of(annotations, &json!([{"name": "app", "image": "app:1"}]))
}

/// Returns a pod with these containers.
pub(crate) fn pod_of(annotations: &Value, containers: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"containers": containers},
    })
}

/// Returns a container or init container of the pod.
pub(crate) fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let lists = ["initContainers", "containers"];
    let all = lists.iter().flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten());
    all.into_iter()
        .find(|container| container["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {pod:#}"))
}

/// Returns a variable of the proxy.
pub(crate) fn variable<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let env = container(pod, "istio-proxy")["env"].as_array()?;
    env.iter().find(|variable| variable["name"] == name)?["value"].as_str()
}

/// Returns the value of a flag in the init container's arguments.
pub(crate) fn flag<'a>(pod: &'a Value, init: &str, flag: &str) -> Option<&'a str> {
    let args = container(pod, init)["args"].as_array()?;
    let place = args.iter().position(|arg| arg == flag)?;
    args.get(place + 1)?.as_str()
}

/// Returns the names of a list of containers.
pub(crate) fn names<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    let containers = pod["spec"][list].as_array().into_iter().flatten();
    containers.filter_map(|container| container["name"].as_str()).collect()
}

/// Takes the privileges from the init container that the built-in overlay does not give our image.
fn with_fewer_privileges(mut pod: Value) -> Value {
    for container in pod["spec"]["initContainers"].as_array_mut().into_iter().flatten() {
        let image = container["image"].as_str().unwrap_or_default();
        if container["name"] == "istio-init" && image.contains("/istio-init:") {
            container["securityContext"]["capabilities"]["add"] = json!(["NET_ADMIN"]);
            container["securityContext"]["readOnlyRootFilesystem"] = true.into();
        }
    }
    pod
}

fn injected(outcome: InjectionOutcome) -> Injection {
    match outcome {
        InjectionOutcome::Injected(injection) => *injection,
        InjectionOutcome::Skipped { reason, .. } => panic!("not injected: {reason}"),
    }
}

fn over(below: Value, above: &Value) -> Value {
    match (below, above) {
        (Value::Object(mut below), Value::Object(above)) => {
            for (key, value) in above {
                let merged = over(below.remove(key).unwrap_or_default(), value);
                below.insert(key.clone(), merged);
            }
            Value::Object(below)
        }
        (_, above) => above.clone(),
    }
}
