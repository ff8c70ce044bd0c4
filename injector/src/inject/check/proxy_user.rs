//! Application containers that run as the proxy's user or group. The capture treats their traffic
//! as the proxy's own and skips it.

use reason::{Reason, words};
use serde_json::Value;

use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, PROXY};
use crate::settings::outrigger::ProxyUser;

/// Checks for a container that runs as the proxy's user. Returns a warning, or a denial if the
/// settings require it.
pub fn judge(rule: ProxyUser, pod: &Value, injected: &Value) -> Result<Option<Reason>, Reason> {
    match rule {
        ProxyUser::Allow => Ok(None),
        ProxyUser::Warn => Ok(shared(pod, injected)),
        ProxyUser::Deny => shared(pod, injected).map_or(Ok(None), Err),
    }
}

/// Returns the first application container whose traffic is not captured because of its user.
///
/// `pod` is the injected pod; `injected` has the names that the overlays add. Without capture there
/// is no warning.
fn shared(pod: &Value, injected: &Value) -> Option<Reason> {
    let spared = spared(pod)?;
    containers(pod).find_map(|container| {
        let name = container["name"].as_str()?;
        if name == PROXY || containers(injected).any(|ours| ours["name"] == name) {
            return None;
        }
        let (what, field) = [("user", "runAsUser"), ("group", "runAsGroup")]
            .into_iter()
            .find(|(_, field)| id(pod, container, field) == Some(spared))?;
        Some(
            Reason::new(
                words::PROXY_USER,
                format!(
                    "container {name} runs as {what} {spared}, which is the proxy's, so its \
                     traffic is not captured"
                ),
            )
            .with_hint(format!("set another securityContext.{field}")),
        )
    })
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = [INIT_CONTAINERS, CONTAINERS];
    lists.into_iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
}

/// Returns the container's own user or group, or else the pod's.
fn id(pod: &Value, container: &Value, field: &str) -> Option<u64> {
    let own = container["securityContext"][field].as_u64();
    own.or_else(|| pod["spec"]["securityContext"][field].as_u64())
}

/// Returns the user ID that the capture exempts.
fn spared(pod: &Value) -> Option<u64> {
    let init = pod["spec"][INIT_CONTAINERS].as_array()?;
    let capture = init.iter().find(|container| {
        ["istio-init", "istio-validation"].iter().any(|name| container["name"] == *name)
    })?;
    let args = capture["args"].as_array()?;
    let flag = args.iter().position(|arg| arg == "-u")?;
    args.get(flag + 1)?.as_str()?.parse().ok()
}
