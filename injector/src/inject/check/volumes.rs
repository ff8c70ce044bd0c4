//! Volume mounts whose volume is missing from the injected pod.

use std::collections::HashSet;

use reason::{Reason, words};
use serde_json::Value;

use crate::kubernetes::pod::{annotation, find_proxy};
use crate::kubernetes::pod_schema::PodList;
use crate::settings::annotation_json;
use crate::settings::annotations::key;

/// Warning about an annotation's mount of a missing volume. Kubernetes rejects the pod, unless
/// another webhook adds the volume.
pub fn missing(pod: &Value) -> Option<Reason> {
    let value = annotation(pod, key::USER_VOLUME_MOUNT)?;
    let asked = annotation_json::named_objects(PodList::VolumeMount, value)?;
    let (list, index) = find_proxy(pod)?;
    let names = |items: &'_ Value| -> HashSet<String> {
        let names = items.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let mounted = names(&pod["spec"][list][index]["volumeMounts"]);
    let volumes = names(&pod["spec"]["volumes"]);
    let mut asked = asked.iter().filter_map(|mount| mount["name"].as_str());
    let name = asked.find(|name| mounted.contains(*name) && !volumes.contains(*name))?;
    let message = format!(
        "annotation {} of the pod names volume {name:?}, which neither the pod nor annotation {} \
         defines",
        key::USER_VOLUME_MOUNT,
        key::USER_VOLUME
    );
    Some(Reason::new(words::MISSING_VOLUME, message))
}
