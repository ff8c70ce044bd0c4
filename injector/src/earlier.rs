//! What an earlier injection left in a pod.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::overlay::PROXY;
use crate::postprocess::{CONTAINERS, INIT_CONTAINERS, prometheus};
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
    let mut pod = pod.clone();
    let mut overrides = Overrides::of_pod(&pod);
    // A proxy was written under initContainers if it says that it is a native sidecar, wherever
    // it became what it is.
    let native = |own: &Value| !own["restartPolicy"].is_null();
    let proxy = |own: &Value| own["name"] == PROXY;
    let to_init = overrides.containers.extract_if(.., |own| proxy(own) && native(own));
    let to_init = to_init.collect::<Vec<_>>();
    let to_containers = overrides.init.extract_if(.., |own| proxy(own) && !native(own));
    overrides.containers.extend(to_containers);
    overrides.init.extend(to_init);
    for (list, own) in [(CONTAINERS, overrides.containers), (INIT_CONTAINERS, overrides.init)] {
        let Some(containers) = pod["spec"][list].as_array_mut() else {
            continue;
        };
        containers.retain(|container| {
            !container["name"].as_str().is_some_and(|name| earlier.injected(list, name))
        });
        let missing: Vec<_> = own
            .into_iter()
            .filter(|own| !containers.iter().any(|present| present["name"] == own["name"]))
            .collect();
        containers.extend(missing);
    }
    if let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() {
        annotations.remove(STATUS);
        if prometheus::port(annotations) == Some(&*status_port.to_string()) {
            annotations.retain(|key, _| !prometheus::is_scrape_setting(key));
        }
    }
    Cow::Owned(pod)
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
