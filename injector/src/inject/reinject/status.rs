//! Traces of a previous injection in a pod.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use documents::nulls::or_default;
use go_types;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::istio::scrape_settings;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY, find, find_proxy};
use crate::kubernetes::pod_schema::{self, PodList};
use crate::kubernetes::port_identity::PortIdentity;
use crate::kubernetes::quantity;
use crate::overlay::proxy_env::{POD_PORTS, SPAN_ATTRIBUTES};
use crate::settings::annotation_json;
use crate::settings::annotations::key;

/// Content of a pod's annotation `sidecar.istio.io/status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InjectionStatus {
    init_containers: Option<Vec<String>>,
    containers: Option<Vec<String>>,
    volumes: Option<Vec<String>>,
    image_pull_secrets: Option<Vec<String>>,
    revision: Option<String>,
}

impl InjectionStatus {
    /// Parses the annotation; `None` if it is absent or invalid.
    pub fn from_pod(pod: &Value) -> Option<Self> {
        let text = pod["metadata"]["annotations"][STATUS].as_str()?;
        let mut status = serde_json::from_str(text).ok()?;
        go_types::spell_members(&MEMBERS, &mut status);
        let mut status: Self = serde_json::from_value(Value::Object(status)).ok()?;
        let lists = [&mut status.init_containers, &mut status.containers];
        for names in lists.into_iter().flatten() {
            // A container without a name is none of an injection.
            names.retain(|name| !name.is_empty());
        }
        Some(status)
    }

    /// Returns the revision that injected the pod; empty if the annotation does not name it.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or_default()
    }

    /// Returns the names of the injected volumes.
    pub fn volumes(&self) -> &[String] {
        self.volumes.as_deref().unwrap_or_default()
    }

    /// Returns the names of the injected image pull secrets.
    pub fn image_pull_secrets(&self) -> &[String] {
        self.image_pull_secrets.as_deref().unwrap_or_default()
    }

    /// Returns the names of the injected containers and init containers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let lists = [&self.init_containers, &self.containers];
        lists.into_iter().flatten().flatten().map(String::as_str)
    }

    /// Adds the names of leftover containers, volumes and pull secrets to `injected`. These are in
    /// the pod from the previous injection, no overlay names them any more, and the containers are
    /// not user-supplied. `shown` is the pod as the overlays saw it.
    pub fn name_left_ones(&self, injected: &mut Value, pod: &Value, shown: &Value) {
        for list in [CONTAINERS, INIT_CONTAINERS, VOLUMES, IMAGE_PULL_SECRETS] {
            let present: HashSet<_> = names(pod, list).collect();
            let named: HashSet<_> = match list {
                CONTAINERS | INIT_CONTAINERS => [&*injected, shown]
                    .into_iter()
                    .flat_map(|pod| [CONTAINERS, INIT_CONTAINERS].map(|list| names(pod, list)))
                    .flatten()
                    .collect(),
                _ => names(injected, list).collect(),
            };
            let left = self.names_of(list).iter().map(String::as_str);
            let left: Vec<_> =
                left.filter(|name| present.contains(name) && !named.contains(name)).collect();
            if left.is_empty() {
                continue;
            }
            let left = left.into_iter().map(|name| json!({"name": name}));
            match &mut injected["spec"][list] {
                Value::Array(named) => named.extend(left),
                none => *none = left.collect(),
            }
        }
    }

    /// Removes the injected containers of a list. If there are no others, some belong to the
    /// application: on reinjection, Istio changes them, lists them as injected and does not record
    /// them.
    pub(crate) fn remove_injected(&self, list: &str, containers: &mut Vec<Value>) {
        let injected = self.names_of(list);
        let is_injected =
            |container: &Value| injected.iter().any(|name| container["name"] == **name);
        if list == CONTAINERS && containers.iter().all(is_injected) {
            containers.retain(|container| container["name"] != PROXY);
        } else {
            containers.retain(|container| !is_injected(container));
        }
    }

    /// True if the previous injection put a container of this name into this list.
    pub fn injected(&self, list: &str, name: &str) -> bool {
        self.names_of(list).iter().any(|injected| injected == name)
    }

    /// Returns the names of the items injected into this list.
    fn names_of(&self, list: &str) -> &[String] {
        let names = match list {
            CONTAINERS => &self.containers,
            VOLUMES => &self.volumes,
            IMAGE_PULL_SECRETS => &self.image_pull_secrets,
            _ => &self.init_containers,
        };
        names.as_deref().unwrap_or_default()
    }
}

/// Returns the names of the items in a list of a pod.
fn names<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let items = pod["spec"][list].as_array().into_iter().flatten();
    items.filter_map(|item| item["name"].as_str())
}

/// Returns the pod as the overlays see it: without the containers and annotations of a previous
/// injection, and with the user-supplied containers that it recorded.
pub fn without<'a>(
    pod: &'a Value,
    earlier: Option<&InjectionStatus>,
    status_port: u16,
) -> Cow<'a, Value> {
    let recorded = Overrides::from_pod(pod);
    let none = InjectionStatus::default();
    let injected = earlier.is_some();
    // The record also counts after a user removed the status annotation.
    let Some(earlier) = earlier.or_else(|| (!recorded.is_empty()).then_some(&none)) else {
        return Cow::Borrowed(pod);
    };
    let Overrides { mut containers, mut init } = recorded;
    let proxy = |own: &mut Value| own["name"] == PROXY;
    // Templates mostly name containers in the pod's order, and the record then has that order too.
    let at = containers.iter().position(|own| own["name"] == PROXY);
    let next = at.and_then(|at| containers.get(at + 1)).map(|next| next["name"].clone());
    let proxies = containers.extract_if(.., proxy).chain(init.extract_if(.., proxy));
    let proxies = proxies.collect::<Vec<_>>();
    let named = named_ports(pod);
    let first = was_first(pod);
    // An injection that moves the proxy here removes its `restartPolicy`.
    let stood_as_written = find(pod, CONTAINERS, PROXY)
        .is_some_and(|index| !pod["spec"][CONTAINERS][index]["restartPolicy"].is_null());
    let mut written = Vec::new();
    for (list, mut own) in [(CONTAINERS, containers), (INIT_CONTAINERS, init)] {
        let Some(containers) = pod["spec"][list].as_array() else {
            continue;
        };
        let injected: HashSet<_> = earlier.names_of(list).iter().map(String::as_str).collect();
        // The user-supplied part of a container goes to the position of that container.
        let kept = containers.iter().filter_map(|container| {
            let name = container["name"].as_str().unwrap_or_default();
            if !injected.contains(name) {
                return Some(container.clone());
            }
            let written = own.iter().position(|own| own["name"] == name);
            written.map(|written| own.remove(written))
        });
        let mut kept = kept.collect::<Vec<_>>();
        let present: HashSet<_> = kept.iter().map(|container| container["name"].clone()).collect();
        own.retain(|own| !present.contains(&own["name"]));
        kept.extend(own);
        if list == CONTAINERS && kept.is_empty() && proxies.is_empty() {
            // As in `remove_injected`.
            kept.extend(containers.iter().filter(|container| container["name"] != PROXY).cloned());
        }
        written.push((list, kept));
    }
    let mut pod = with_containers(pod, written);
    for proxy in proxies {
        if find_proxy(&pod).is_none() {
            let list = if stood_as_written || proxy["restartPolicy"].is_null() {
                CONTAINERS
            } else {
                INIT_CONTAINERS
            };
            // If the recorded proxy already has this list of ports, the list was written before the
            // proxy counted as user-supplied. It then says nothing about the proxy's position.
            let named =
                named.as_deref().filter(|named| ports_told(&proxy).as_deref() != Some(named));
            put_back(&mut pod, proxy, list, next.as_ref(), named, first);
        }
    }
    let annotations = pod["metadata"]["annotations"].as_object_mut();
    if let Some(annotations) = annotations.filter(|_| injected) {
        annotations.remove(STATUS);
        if scrape_settings::port(annotations) == Some(&*status_port.to_string()) {
            annotations.retain(|key, _| !scrape_settings::is_scrape_setting(key));
        }
    }
    Cow::Owned(pod)
}

/// Returns the pod with these lists of containers.
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

/// Puts the user-supplied proxy back at its original position. An injection moves the proxy, and
/// names the ports of all containers in their original order. If the ports do not show the
/// position, the proxy goes into `list`.
fn put_back(
    pod: &mut Value,
    proxy: Value,
    mut list: &'static str,
    next: Option<&Value>,
    named: Option<&[PortIdentity]>,
    first: bool,
) {
    let containers = pod["spec"][CONTAINERS].as_array().map(Vec::as_slice).unwrap_or_default();
    let recorded = containers.iter().position(|container| Some(&container["name"]) == next);
    let recorded = if first { Some(0) } else { recorded };
    let mut place = recorded.filter(|_| list == CONTAINERS);
    if let Some(named) = named.filter(|_| ports_of(&proxy).next().is_some()) {
        let mut numbers = HashMap::new();
        let mut numbered = |ports: &mut dyn Iterator<Item = PortIdentity>| -> Vec<usize> {
            let mut number = |port| {
                let next = numbers.len();
                *numbers.entry(port).or_insert(next)
            };
            ports.map(&mut number).collect()
        };
        let own = numbered(&mut ports_of(&proxy));
        let named = numbered(&mut named.iter().cloned());
        let mut others = Vec::new();
        // Number of ports before each position.
        let mut before = vec![0];
        for container in containers {
            others.extend(numbered(&mut ports_of(container)));
            before.push(others.len());
        }
        let mut places = recorded.into_iter().chain((0..=containers.len()).rev());
        place = places.find(|place| {
            let (before, after) = others.split_at(before[*place]);
            let rest = named.strip_prefix(before).and_then(|rest| rest.strip_prefix(&*own));
            rest == Some(after)
        });
        if place.is_some() {
            list = CONTAINERS;
        } else if others == named {
            list = INIT_CONTAINERS;
        }
    }
    if let Some(containers) = pod["spec"][list].as_array_mut() {
        containers.insert(place.unwrap_or(containers.len()), proxy);
    } else if let Some(spec) = pod["spec"].as_object_mut() {
        spec.insert(list.to_owned(), vec![proxy].into());
    }
}

/// True if the proxy's spans carry its own name: the user wrote it as the first container.
fn was_first(pod: &Value) -> bool {
    let Some((list, index)) = find_proxy(pod) else { return false };
    let env = pod["spec"][list][index]["env"].as_array().into_iter().flatten();
    let mut attributes = env.filter(|variable| variable["name"] == SPAN_ATTRIBUTES);
    let own_name = format!(".$(POD_NAME).{PROXY}");
    attributes.any(|own| own["value"].as_str().is_some_and(|value| value.ends_with(&own_name)))
}

/// Returns the application's ports as a previous injection passed them to the proxy.
fn named_ports(pod: &Value) -> Option<Vec<PortIdentity>> {
    let (list, index) = find_proxy(pod)?;
    ports_told(&pod["spec"][list][index])
}

fn ports_told(proxy: &Value) -> Option<Vec<PortIdentity>> {
    let env = proxy["env"].as_array()?;
    let ports = env.iter().find(|variable| variable["name"] == POD_PORTS)?;
    PortIdentity::parse_list(ports["value"].as_str()?)
}

fn ports_of(container: &Value) -> impl Iterator<Item = PortIdentity> {
    let ports = container["ports"].as_array().into_iter().flatten();
    ports.map(PortIdentity::from_port)
}

/// User-supplied containers that take precedence over injected ones, as recorded in the annotation
/// `proxy.istio.io/overrides`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Overrides {
    /// User-supplied `containers`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Value>,
    /// User-supplied `initContainers`.
    #[serde(
        rename = "initContainers",
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub init: Vec<Value>,
}

impl Overrides {
    /// Parses the annotation as [`Overrides::parse_pod`] does; empty if it is invalid.
    pub fn from_pod(pod: &Value) -> Self {
        Self::parse_pod(pod).unwrap_or_default()
    }

    /// Parses the annotation; empty if the pod has none, `None` if it is invalid. Drops entries
    /// without a name, as they belong to no container.
    pub fn parse_pod(pod: &Value) -> Option<Self> {
        let mut overrides = match &pod["metadata"]["annotations"][key::OVERRIDES] {
            Value::Null => Self::default(),
            text => match text.as_str()? {
                "" => Self::default(),
                text => Self::parse(text)?,
            },
        };
        for list in [&mut overrides.containers, &mut overrides.init] {
            list.retain_mut(|container| {
                pod_schema::spell(PodList::Container, container);
                container["name"].as_str().is_some_and(|name| !name.is_empty())
            });
        }
        Some(overrides)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut members = serde_json::from_str(text).ok()?;
        go_types::spell_members(&annotation_json::OVERRIDES, &mut members);
        serde_json::from_value(Value::Object(members)).ok()
    }

    /// True if there are no user-supplied containers.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.init.is_empty()
    }

    /// Returns the annotation's value, for containers in the form of [`as_recorded`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns the container as Go writes the Kubernetes type into which Istio decodes it. Other tools
/// compare the text of the record.
pub fn as_recorded(mut container: Value) -> Value {
    let Some(fields) = container.as_object_mut() else { return container };
    let resources = fields.entry("resources").or_insert_with(|| Value::Object(Map::new()));
    for kind in ["limits", "requests"] {
        let amounts = resources.get_mut(kind).and_then(Value::as_object_mut);
        for amount in amounts.into_iter().flat_map(Map::values_mut) {
            if let Some(canonical) = quantity::canonical(amount) {
                *amount = canonical.into();
            }
        }
    }
    container
}

const VOLUMES: &str = "volumes";
const IMAGE_PULL_SECRETS: &str = "imagePullSecrets";
const MEMBERS: [&str; 5] =
    ["initContainers", "containers", VOLUMES, IMAGE_PULL_SECRETS, "revision"];

/// The annotation that lists the injected parts of a pod.
pub const STATUS: &str = "sidecar.istio.io/status";
