//! Hints of `istio-init`, which are about the pod that it runs in, in words about the node.

/// Splits the text of an error of `istio-init` into what happened and a hint for the plugin's users.
pub(crate) fn split(text: &str) -> (&str, Option<&str>) {
    let (what, hint) = reason::hint::split(text);
    (what, hint.map(of_node))
}

fn of_node(hint: &str) -> &str {
    match hint {
        hint if hint.starts_with("run istio-init after") => BEHIND,
        hint if hint.contains("/etc/passwd") || hint.contains("/etc/group") => NUMBER,
        hint if hint.contains("--allow-host-network") => OF_A_NODE,
        hint if hint.starts_with("istio-init needs the capability") => PRIVILEGED,
        hint => hint,
    }
}

const BEHIND: &str = "the entry istio-cni has to be behind the plugin that makes the pod's network";
const NUMBER: &str = "use the number: the plugin looks up no names of accounts";
const OF_A_NODE: &str = "the traffic of a node is never captured";
const PRIVILEGED: &str = "the plugin has the capabilities of the container runtime, which needs \
                          NET_ADMIN and SYS_ADMIN";
