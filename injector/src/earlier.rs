//! What an earlier injection left in a pod.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::overlay::{POD_PORTS, PROXY};
use crate::postprocess::{CONTAINERS, INIT_CONTAINERS, find_proxy, prometheus};
use crate::settings::annotations::key;

/// What the annotation `sidecar.istio.io/status` of a pod says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Earlier {
    init_containers: Option<Vec<String>>,
    containers: Option<Vec<String>>,
}

impl Earlier {
    /// Reads the annotation; `None` where the pod has none, or none that can be read.
    pub fn of_pod(pod: &Value) -> Option<Self> {
        serde_json::from_str(pod["metadata"]["annotations"][STATUS].as_str()?).ok()
    }

    /// Whether a container of this name was injected into this list.
    pub fn injected(&self, list: &str, name: &str) -> bool {
        let names = if list == CONTAINERS { &self.containers } else { &self.init_containers };
        names.iter().flatten().any(|injected| injected == name)
    }
}

/// The pod as overlays are made for it: without the containers and annotations that an earlier
/// injection put there, and with the user's own containers that it recorded.
pub fn without<'a>(pod: &'a Value, earlier: Option<&Earlier>, status_port: u16) -> Cow<'a, Value> {
    let Some(earlier) = earlier else {
        return Cow::Borrowed(pod);
    };
    let Overrides { mut containers, mut init } = Overrides::of_pod(pod);
    let proxy = |own: &mut Value| own["name"] == PROXY;
    // The record is in the order of the pod.
    let at = containers.iter().position(|own| own["name"] == PROXY);
    let next = at.and_then(|at| containers.get(at + 1)).map(|next| next["name"].clone());
    let proxies = containers.extract_if(.., proxy).chain(init.extract_if(.., proxy));
    let proxies = proxies.collect::<Vec<_>>();
    let named = named_ports(pod);
    let mut written = Vec::new();
    for (list, mut own) in [(CONTAINERS, containers), (INIT_CONTAINERS, init)] {
        let Some(containers) = pod["spec"][list].as_array() else {
            continue;
        };
        // What the user wrote of a container stands where the container does.
        let kept = containers.iter().filter_map(|container| {
            let name = container["name"].as_str().unwrap_or_default();
            if !earlier.injected(list, name) {
                return Some(container.clone());
            }
            let written = own.iter().position(|own| own["name"] == name);
            written.map(|written| own.remove(written))
        });
        let mut kept = kept.collect::<Vec<_>>();
        own.retain(|own| !kept.iter().any(|present| present["name"] == own["name"]));
        kept.extend(own);
        written.push((list, kept));
    }
    let mut pod = with_containers(pod, written);
    for proxy in proxies {
        if find_proxy(&pod).is_none() {
            put_back(&mut pod, proxy, next.as_ref(), named.as_deref());
        }
    }
    if let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() {
        annotations.remove(STATUS);
        if prometheus::port(annotations) == Some(&*status_port.to_string()) {
            annotations.retain(|key, _| !prometheus::is_scrape_setting(key));
        }
    }
    Cow::Owned(pod)
}

/// The pod with other containers.
fn with_containers(pod: &Value, lists: Vec<(&str, Vec<Value>)>) -> Value {
    let members = pod.as_object().into_iter().flatten();
    let rest = members.filter(|(key, _)| *key != "spec");
    let mut copy: Map<_, _> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    let fields = pod["spec"].as_object().into_iter().flatten();
    let rest = fields.filter(|(field, _)| lists.iter().all(|(list, _)| field != list));
    let mut spec: Map<_, _> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    spec.extend(lists.into_iter().map(|(list, containers)| (list.to_owned(), containers.into())));
    copy.insert("spec".to_owned(), spec.into());
    Value::Object(copy)
}

/// Puts the user's own proxy where he wrote it. An injection moves it, and names the ports of all
/// containers in their order; where that does not tell, a native sidecar was an init container.
fn put_back(pod: &mut Value, proxy: Value, next: Option<&Value>, named: Option<&[Value]>) {
    let ports = |containers: &[Value]| containers.iter().flat_map(port_numbers).collect::<Vec<_>>();
    let own = port_numbers(&proxy).collect::<Vec<_>>();
    let containers = pod["spec"][CONTAINERS].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut list = if proxy["restartPolicy"].is_null() { CONTAINERS } else { INIT_CONTAINERS };
    let recorded = containers.iter().position(|container| Some(&container["name"]) == next);
    let mut place = recorded.filter(|_| list == CONTAINERS);
    if let Some(named) = named.filter(|_| !own.is_empty()) {
        let mut places = recorded.into_iter().chain((0..=containers.len()).rev());
        place = places.find(|place| {
            let (before, after) = containers.split_at(*place);
            [ports(before), own.clone(), ports(after)].concat() == named
        });
        if place.is_some() {
            list = CONTAINERS;
        } else if ports(containers) == named {
            list = INIT_CONTAINERS;
        }
    }
    if let Some(containers) = pod["spec"][list].as_array_mut() {
        containers.insert(place.unwrap_or(containers.len()), proxy);
    } else if let Some(spec) = pod["spec"].as_object_mut() {
        spec.insert(list.to_owned(), vec![proxy].into());
    }
}

/// The ports of the application as an earlier injection has told the proxy.
fn named_ports(pod: &Value) -> Option<Vec<Value>> {
    let (list, index) = find_proxy(pod)?;
    let env = pod["spec"][list][index]["env"].as_array()?;
    let ports = env.iter().find(|variable| variable["name"] == POD_PORTS)?;
    let ports = serde_json::from_str::<Value>(ports["value"].as_str()?).ok()?;
    Some(numbers(&ports).collect())
}

fn port_numbers(container: &Value) -> impl Iterator<Item = Value> {
    numbers(&container["ports"])
}

fn numbers(ports: &Value) -> impl Iterator<Item = Value> {
    let ports = ports.as_array().into_iter().flatten();
    ports.map(|port| port["containerPort"].clone())
}

/// The containers that the user wrote and that stand over the injected ones, as the annotation
/// `proxy.istio.io/overrides` records them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Overrides {
    /// Those under `containers`.
    pub containers: Vec<Value>,
    /// Those under `initContainers`.
    #[serde(rename = "initContainers")]
    pub init: Vec<Value>,
}

impl Overrides {
    /// Reads the annotation; empty where the pod has none.
    pub fn of_pod(pod: &Value) -> Self {
        let text = pod["metadata"]["annotations"][key::OVERRIDES].as_str();
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.init.is_empty()
    }

    /// The annotation's value.
    pub fn to_json(&self) -> String {
        let lists = [("containers", &self.containers), ("initContainers", &self.init)];
        let lists = lists.into_iter().filter(|(_, containers)| !containers.is_empty());
        let lists = lists.map(|(name, list)| (name.to_owned(), Value::Array(list.clone())));
        Value::Object(lists.collect::<Map<_, _>>()).to_string()
    }
}

/// The annotation in which an injection says what it injected.
pub const STATUS: &str = "sidecar.istio.io/status";
