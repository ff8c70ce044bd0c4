//! Pods for nodes with Windows.

use serde_json::Value;

/// Returns the field by which the containers of a pod run on Windows. A pod that names another
/// operating system in `os.name` does not, whatever its other fields say.
pub(crate) fn windows_field(spec: &Value) -> Option<&'static str> {
    match spec["os"]["name"].as_str() {
        Some(WINDOWS) => return Some("os.name"),
        Some(name) if !name.is_empty() => return None,
        _ => {}
    }
    if OS_LABELS.iter().any(|label| spec["nodeSelector"][*label] == WINDOWS) {
        return Some("nodeSelector");
    }
    let required =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array()?;
    let only_windows = !terms.is_empty() && terms.iter().all(requires_windows);
    only_windows.then_some("affinity.nodeAffinity")
}

/// True if all nodes of a term have Windows.
fn requires_windows(term: &Value) -> bool {
    let mut expressions = term["matchExpressions"].as_array().into_iter().flatten();
    expressions.any(|expression| {
        let values = expression["values"].as_array().map_or(&[][..], Vec::as_slice);
        OS_LABELS.iter().any(|label| expression["key"] == *label)
            && expression["operator"] == "In"
            && !values.is_empty()
            && values.iter().all(|value| value == WINDOWS)
    })
}

/// Labels of a node with its operating system.
const OS_LABELS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
const WINDOWS: &str = "windows";

#[cfg(test)]
mod tests {
    use documents::yaml;

    use super::*;

    #[test]
    fn windows_pods_are_recognised_by_their_nodes() {
        let affinity = |terms: &str| {
            format!(
                "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: \
                 {{nodeSelectorTerms: {terms}}}}}}}"
            )
        };
        let windows = "{key: kubernetes.io/os, operator: In, values: [windows]}";
        let either = "{key: kubernetes.io/os, operator: In, values: [windows, linux]}";
        let zone = "{key: zone, operator: In, values: [windows]}";
        for (spec, field) in [
            ("os: {name: windows}".to_owned(), Some("os.name")),
            ("os: {name: linux}\nnodeSelector: {kubernetes.io/os: windows}".to_owned(), None),
            ("nodeSelector: {kubernetes.io/os: windows}".to_owned(), Some("nodeSelector")),
            ("nodeSelector: {beta.kubernetes.io/os: windows}".to_owned(), Some("nodeSelector")),
            ("nodeSelector: {kubernetes.io/os: linux, os: windows}".to_owned(), None),
            ("nodeSelector: null\nos: null".to_owned(), None),
            (
                affinity(&format!("[{{matchExpressions: [{zone}, {windows}]}}]")),
                Some("affinity.nodeAffinity"),
            ),
            (affinity(&format!("[{{matchExpressions: [{either}]}}]")), None),
            (
                affinity(&format!(
                    "[{{matchExpressions: [{windows}]}}, {{matchExpressions: [{zone}]}}]"
                )),
                None,
            ),
            (affinity("[]"), None),
            (
                "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: \
                 [{preference: {matchExpressions: [{key: kubernetes.io/os, operator: In, values: \
                 [windows]}]}}]}}"
                    .to_owned(),
                None,
            ),
        ] {
            assert_eq!(windows_field(&yaml::parse(&spec).unwrap()), field, "{spec}");
        }
    }
}
