//! Overlays of a pod, prepared for the merge.

pub(crate) mod order;
pub mod outline;
pub mod path_env;
pub(crate) mod proxy_config;
pub mod resources;
pub mod volumes;

use reason::Reason;
use serde_json::Value;

use self::outline::outline;
use self::path_env::Variables;
use crate::inject::error::InjectError;
use crate::kubernetes::merge::merge;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY, find};
use crate::overlay::context::Context;
use crate::settings::inject_config;
use crate::{budget, overlay};

/// Overlays by their names, in the order in which they go over a pod.
pub(crate) type Overlays = Vec<(String, Value)>;

/// Returns all overlays of the pod in the order of their merge, and warnings about the pod's own
/// volumes.
pub(crate) fn overlays(
    context: &Context<'_>,
    pod: &Value,
    variables: &Variables,
) -> Result<(Overlays, Vec<Reason>), InjectError> {
    let mut overlays = Vec::new();
    for template in inject_config::templates(&context.settings.inject, context.annotations) {
        budget::spend(1)?;
        let overlay = overlay::make(&template, context).map_err(InjectError::Overlay)?;
        overlays.push((template, overlay));
    }
    unite_proxy(&mut overlays);
    let mut warnings = Vec::new();
    for (_, overlay) in &mut overlays {
        order::overlay_env(overlay, variables, pod);
        resources::adjust(overlay, context);
        warnings.extend(volumes::settle(overlay, pod));
    }
    Ok((overlays, warnings))
}

/// Names of the objects that all overlays add.
pub(crate) fn injected(overlays: &[(String, Value)]) -> Result<Value, InjectError> {
    let mut injected = Value::Object(serde_json::Map::new());
    for (template, overlay) in overlays {
        merge(&mut injected, outline(overlay))
            .map_err(|problem| InjectError::Merge { template: template.clone(), problem })?;
    }
    Ok(injected)
}

/// Moves the proxy of all overlays to the same list, so that the overlays describe one container.
/// That is `initContainers` if an overlay makes the proxy a native sidecar, else `containers`. If no
/// overlay has the proxy in `containers`, nothing is moved.
fn unite_proxy(overlays: &mut [(String, Value)]) {
    let is_native = |overlay: &Value| {
        let proxy = find(overlay, INIT_CONTAINERS, PROXY);
        proxy.is_some_and(|at| overlay["spec"][INIT_CONTAINERS][at]["restartPolicy"] == "Always")
    };
    let among_containers = |overlay: &Value| find(overlay, CONTAINERS, PROXY).is_some();
    if !overlays.iter().any(|(_, overlay)| among_containers(overlay)) {
        return;
    }
    let native = overlays.iter().any(|(_, overlay)| is_native(overlay));
    let (from, to) =
        if native { (CONTAINERS, INIT_CONTAINERS) } else { (INIT_CONTAINERS, CONTAINERS) };
    for (_, overlay) in overlays {
        move_proxy(overlay, from, to);
    }
}

/// Moves the proxy of an overlay from one list of containers to the other.
fn move_proxy(overlay: &mut Value, from: &str, to: &str) {
    let Some(index) = find(overlay, from, PROXY) else { return };
    let Some(containers) = overlay["spec"][from].as_array_mut() else { return };
    let proxy = containers.remove(index);
    match overlay["spec"][to].as_array_mut() {
        Some(list) => list.push(proxy),
        None => overlay["spec"][to] = Value::Array(vec![proxy]),
    }
}
