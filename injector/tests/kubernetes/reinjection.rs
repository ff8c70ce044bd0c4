//! Reinjection of pods from the API server, from another revision, with any template.

use std::cell::Cell;

use injector::inject::{InjectionOutcome, inject};
use injector::settings::{Document, Documents, Process, Settings};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Map, Value, json};

use crate::Kubernetes;
use crate::accepted::{PODS, target, unborn, web, with_account};
use crate::fragments::{ANNOTATIONS, OF_A_CONTAINER, OF_A_POD, OF_METADATA, PROBES};

/// Checks that reinjection changes nothing, whatever a template puts into a pod and whatever the
/// API server adds to it.
pub(crate) fn stored_pod_is_not_changed_by_reinjection(kubernetes: &Kubernetes) {
    let config = Config::default();
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        // `PROPTEST_RNG_SEED` and `PROPTEST_CASES` extend the search.
        rng_seed: match config.rng_seed {
            RngSeed::Random => RngSeed::Fixed(0),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        ..config
    });
    let counts = Cell::new((0, 0));
    let outcome = runner.run(&situation(), |situation| {
        let (tried, came_back) = counts.get();
        let accepted = situation.comes_back(kubernetes);
        let accepted = accepted.map_err(|failure| {
            TestCaseError::fail(format!("{failure}\n{}", situation.configuration()))
        })?;
        counts.set((tried + 1, came_back + usize::from(accepted)));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let (tried, came_back) = counts.get();
    println!("{came_back} of {tried} pods came back");
    assert!(came_back > tried / 3, "{came_back} of {tried} pods came back");
}

/// A pod, and templates of a configuration.
#[derive(Clone, Debug)]
struct Situation {
    pod: Value,
    templates: Vec<Template>,
    native_sidecars: bool,
    /// True if the pod has the API server's defaults before it is injected, as a webhook sees it.
    at_admission: bool,
}

impl Situation {
    /// Returns true if the API server accepted the pod at every step; an error if reinjection
    /// changed it.
    fn comes_back(&self, kubernetes: &Kubernetes) -> Result<bool, String> {
        let mut pod = self.pod.clone();
        let Ok(created) = kubernetes.post(PODS, &pod) else { return Ok(false) };
        if self.at_admission {
            pod = unborn(created);
        }
        let here = self.settings("here:1");
        let Some(first) = injected(&here, &pod, "the first")? else { return Ok(false) };
        let Ok(created) = kubernetes.post(PODS, &first) else { return Ok(false) };
        unchanged(&here, &first, "as it came out")?;
        let back = started(unborn(created));
        let second = unchanged(&here, &back, "from the API server")?;
        let created = kubernetes.post(PODS, &second);
        let created = created.map_err(|refused| format!("created again: {refused}"))?;
        unchanged(&here, &unborn(created), "created again")?;

        let there = self.settings("there:2");
        let Some(upgraded) = injected(&there, &back, "the upgrade")? else { return Ok(false) };
        unchanged(&there, &upgraded, "upgraded")?;
        let created = kubernetes.post(PODS, &upgraded);
        let created = created.map_err(|refused| format!("upgraded: {refused}"))?;
        unchanged(&there, &unborn(created), "upgraded, from the API server")?;
        Ok(true)
    }

    fn settings(&self, images: &str) -> Settings {
        let (hub, tag) = images.split_once(':').unwrap();
        let values = json!({"global": {"hub": hub, "tag": tag}}).to_string();
        let config = self.configuration();
        let document = |text| Some(Document { source: "the test", text });
        let documents = Documents {
            inject_config: document(&config),
            values: document(&values),
            mesh_config: None,
        };
        let process = Process {
            native_sidecars: self.native_sidecars,
            revision: hub.to_owned(),
            ..Process::default()
        };
        Settings::parse(&documents, process).unwrap()
    }

    fn configuration(&self) -> String {
        let named = self.templates.iter().zip(NAMES);
        let templates: Map<_, _> =
            named.map(|(template, name)| (name.to_owned(), template.text().into())).collect();
        json!({"policy": "enabled", "templates": templates}).to_string()
    }
}

fn injected(settings: &Settings, pod: &Value, what: &str) -> Result<Option<Value>, String> {
    match inject(settings, target(pod)) {
        Ok(InjectionOutcome::Injected(injection)) => {
            let mut patched = pod.clone();
            let patch = injection.patch().owned();
            json_patch::patch(&mut patched, &patch).map_err(|error| format!("{what}: {error}"))?;
            if patched == injection.pod { Ok(Some(patched)) } else { Err(format!("{what}: patch")) }
        }
        // The templates conflict.
        _ => Ok(None),
    }
}

/// Returns the pod after an injection that must not change it.
fn unchanged(settings: &Settings, pod: &Value, what: &str) -> Result<Value, String> {
    match inject(settings, target(pod)) {
        Ok(InjectionOutcome::Injected(injection)) if injection.patch().is_empty() => {
            Ok(injection.pod)
        }
        Ok(InjectionOutcome::Injected(injection)) => {
            let patch = serde_json::to_string(&injection.patch()).unwrap();
            Err(format!("{what}: {patch}\nwas {pod}"))
        }
        other => Err(format!("{what}: {other:?}")),
    }
}

/// Returns the pod with the mounts of the service account plugin, which is off here, and the fields
/// that a scheduler sets.
fn started(mut pod: Value) -> Value {
    let mount = json!({"name": ACCESS, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true});
    for list in ["initContainers", "containers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            match container["volumeMounts"].as_array_mut() {
                Some(mounts) => mounts.push(mount.clone()),
                None => container["volumeMounts"] = json!([mount]),
            }
        }
    }
    let volume = json!({"name": ACCESS, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}});
    match pod["spec"]["volumes"].as_array_mut() {
        Some(volumes) => volumes.push(volume),
        None => pod["spec"]["volumes"] = json!([volume]),
    }
    pod["spec"]["nodeName"] = "node".into();
    for field in ["serviceAccount", "serviceAccountName"] {
        if pod["spec"][field].is_null() {
            pod["spec"][field] = "default".into();
        }
    }
    pod
}

/// Fields that a template sets in the containers of a pod, and in the pod.
#[derive(Clone, Debug)]
struct Template {
    of_each: Value,
    of_init: Value,
    of_proxy: Value,
    own: Option<(&'static str, Value)>,
    spec: Value,
    metadata: Value,
}

impl Template {
    /// Returns the template's text in the form of a configuration. YAML includes JSON.
    fn text(&self) -> String {
        let mut lists = [String::new(), String::new()];
        let ranges =
            ["Containers", "InitContainers"].into_iter().zip([&self.of_each, &self.of_init]);
        for (list, (range, fields)) in lists.iter_mut().zip(ranges) {
            if is_something(fields) {
                let fields = fields.to_string();
                *list = format!(
                    "{{{{ range .Spec.{range} }}}}{{{{ if ne .Name \"istio-proxy\" }}}}\
                     {{\"name\": \"{{{{ .Name }}}}\", {}, {{{{ end }}}}{{{{ end }}}}",
                    &fields[1..]
                );
            }
        }
        if is_something(&self.of_proxy) {
            let fields = self.of_proxy.to_string();
            lists[0].extend(["{\"name\": \"istio-proxy\", ", &fields[1..], ", "]);
        }
        if let Some((list, own)) = &self.own {
            let own = own.to_string();
            lists[usize::from(*list == "initContainers")].extend([own.as_str(), ", "]);
        }
        let [containers, init] = lists;
        if containers.is_empty() && init.is_empty() && !is_something(&self.spec) {
            return format!("metadata: {}\n", self.metadata);
        }
        let fields = self.spec.as_object().into_iter().flatten();
        let fields = fields.map(|(field, value)| format!("  {field}: {value}\n"));
        format!(
            "metadata: {}\nspec:\n  containers: [{containers}]\n  initContainers: [{init}]\n{}",
            self.metadata,
            fields.collect::<String>(),
        )
    }
}

fn is_something(fields: &Value) -> bool {
    fields.as_object().is_some_and(|fields| !fields.is_empty())
}

fn situation() -> impl Strategy<Value = Situation> {
    let templates = prop::collection::vec(template(), 1..=NAMES.len());
    let named = prop::collection::vec(prop::sample::select(ALL.to_vec()), 1..4);
    (pod(), templates, named, any::<bool>(), any::<bool>()).prop_map(
        |(mut pod, templates, mut named, native_sidecars, at_admission)| {
            named.retain(|name| {
                NAMES.iter().position(|own| own == name).is_none_or(|own| own < templates.len())
            });
            if !named.is_empty() {
                pod["metadata"]["annotations"]["inject.istio.io/templates"] =
                    named.join(",").into();
            }
            Situation { pod, templates, native_sidecars, at_admission }
        },
    )
}

fn template() -> impl Strategy<Value = Template> {
    let own = prop::option::weighted(
        0.2,
        (prop::sample::select(vec!["containers", "initContainers"]), container(3)),
    );
    (
        container(4),
        prop_oneof![2 => Just(json!({})), 1 => container(2)],
        prop_oneof![2 => Just(json!({})), 1 => container(2)],
        own,
        fields(OF_A_POD, 3),
        prop_oneof![3 => Just(json!({})), 1 => fields(OF_METADATA, 2)],
    )
        .prop_map(|(of_each, of_init, of_proxy, own, spec, metadata)| {
            let own = own.map(|(list, mut own)| {
                own["name"] = "extra".into();
                own["image"] = "extra:1".into();
                (list, own)
            });
            Template { of_each, of_init, of_proxy, own, spec, metadata }
        })
}

/// Generates fields of a container, without its name.
fn container(most: usize) -> impl Strategy<Value = Value> {
    let probes = prop::collection::vec(
        (
            prop::sample::select(vec!["readinessProbe", "livenessProbe", "startupProbe"]),
            prop::sample::select(PROBES),
        ),
        0..=2,
    );
    (fields(OF_A_CONTAINER, most), probes).prop_map(|(mut fields, probes)| {
        for (probe, text) in probes {
            fields[probe] = parsed(text);
        }
        fields
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let own = |fields: Value| without_directives(fields);
    let containers = (container(4).prop_map(own), prop::option::of(container(3).prop_map(own)));
    let init = prop::option::of(container(2).prop_map(own));
    let proxy = prop::option::weighted(0.3, container(3).prop_map(own));
    let annotations = fields_of_text(ANNOTATIONS, 2);
    (containers, init, proxy, fields(OF_A_POD, 3).prop_map(own), annotations).prop_map(
        |((first, second), init, proxy, spec, annotations)| {
            let named = |mut container: Value, name: &str, image: &str| {
                container["name"] = name.into();
                let fields = container.as_object_mut().unwrap();
                fields.entry("image").or_insert_with(|| image.into());
                container
            };
            let mut containers = vec![web(&first)];
            containers.extend(second.map(|second| named(second, "side", "side:1")));
            containers.extend(proxy.map(|mut proxy| {
                proxy["image"] = "auto".into();
                named(proxy, "istio-proxy", "auto")
            }));
            let mut spec = spec;
            spec["containers"] = containers.into();
            if let Some(mut init) = init {
                for field in ["lifecycle", "readinessProbe", "livenessProbe", "startupProbe"] {
                    init.as_object_mut().unwrap().remove(field);
                }
                spec["initContainers"] = json!([named(init, "setup", "setup:1")]);
            }
            let own = json!({"name": "own", "emptyDir": {}});
            match spec["volumes"].as_array_mut() {
                Some(volumes) if volumes.iter().all(|volume| volume["name"] != "own") => {
                    volumes.push(own);
                }
                Some(_) => {}
                None => spec["volumes"] = json!([own]),
            }
            let metadata =
                json!({"name": "pod", "labels": {"app": "web"}, "annotations": annotations});
            with_account(json!({"metadata": metadata, "spec": spec}))
        },
    )
}

/// Returns the part of a fragment that a pod itself can have.
fn without_directives(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.retain(|key, value| !key.starts_with('$') && !value.is_null());
            for member in members.values_mut() {
                *member = without_directives(member.take());
            }
        }
        Value::Array(items) => {
            items.retain(|item| item.get("$patch").is_none());
            for item in items {
                *item = without_directives(item.take());
            }
        }
        _ => {}
    }
    value
}

type Fragments = &'static [(&'static str, &'static str)];

fn fields(fragments: Fragments, most: usize) -> impl Strategy<Value = Value> {
    let chosen = prop::collection::vec(prop::sample::select(fragments), 0..=most);
    chosen.prop_map(|chosen| {
        chosen.into_iter().map(|(key, text)| (key.to_owned(), parsed(text))).collect()
    })
}

fn fields_of_text(fragments: Fragments, most: usize) -> impl Strategy<Value = Value> {
    let chosen = prop::collection::vec(prop::sample::select(fragments), 0..=most);
    chosen.prop_map(|chosen| {
        chosen.into_iter().map(|(key, text)| (key.to_owned(), Value::from(text))).collect()
    })
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The volume of an account's token.
const ACCESS: &str = "kube-api-access-x7k2p";

/// Names of the configuration's templates.
const NAMES: [&str; 3] = ["one", "two", "three"];

const ALL: [&str; 10] = [
    "sidecar",
    "one",
    "two",
    "three",
    "gateway",
    "grpc-agent",
    "grpc-simple",
    "sidecar",
    "one",
    "two",
];
