//! Limits on the size of a pod.
//!
//! Kubernetes validates a pod only after mutating webhooks, so the webhook also receives pods that
//! Kubernetes will reject. An entry of an annotation costs many times its length once it is parsed
//! and put into containers, and some work grows with the product of two lists.

use std::io;

use documents::excerpt;
use serde_json::Value;

use crate::inject::error::InjectError;
use crate::json::short::ANNOTATION_BYTES;
use crate::settings::annotations::key;

/// Most entries of `inject.istio.io/templates`; each renders and merges a whole template.
pub(crate) const TEMPLATES: usize = 32;

/// Most items of each list of a pod's `spec`: more than any node could start.
const LISTS: [(&str, usize); 5] = [
    ("containers", 1_000),
    ("ephemeralContainers", 1_000),
    ("imagePullSecrets", 1_000),
    ("initContainers", 1_000),
    ("volumes", 5_000),
];

/// Checks the pod's size before any of its annotations is parsed.
pub(crate) fn check(pod: &Value) -> Result<(), InjectError> {
    let bytes = annotation_bytes(pod);
    if bytes > ANNOTATION_BYTES {
        return Err(InjectError::TooLarge(format!(
            "metadata.annotations has {bytes} bytes, and Kubernetes allows {ANNOTATION_BYTES}; \
             move long values into a ConfigMap"
        )));
    }
    for (list, most) in LISTS {
        let items = pod["spec"][list].as_array().map_or(0, Vec::len);
        if items > most {
            return Err(InjectError::TooLarge(format!(
                "spec.{list} has {items} items, and the injector accepts at most {most}; use \
                 several pods"
            )));
        }
    }
    Ok(())
}

/// Checks the size of a user-supplied container with the name of an injected one. It is copied
/// several times and recorded in an annotation.
pub(crate) fn check_recorded(container: &Value) -> Result<(), InjectError> {
    let fields = container.as_object().into_iter().flatten();
    // `env` does not count: a long environment is recorded in part.
    let bytes: usize =
        fields.filter(|(field, _)| *field != "env").map(|(_, value)| json_bytes(value)).sum();
    if bytes <= ANNOTATION_BYTES {
        return Ok(());
    }
    let name = excerpt::shorten(container["name"].as_str().unwrap_or_default());
    Err(InjectError::TooLarge(format!(
        "the fields of container {name:?} have {bytes} bytes, and annotation {} can record at most \
         {ANNOTATION_BYTES}; remove the fields that the injector sets itself",
        key::OVERRIDES
    )))
}

/// Returns the length of a value as JSON.
fn json_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

/// Returns the size of a pod's annotations as Kubernetes counts it, in bytes.
pub(crate) fn annotation_bytes(pod: &Value) -> usize {
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    annotations.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}

/// True if a pod is so small that it may be copied and compared once more for the record of its
/// values before injection.
pub(crate) fn is_small(pod: &Value) -> bool {
    json_bytes(pod) <= ANNOTATION_BYTES
}

/// True if an annotation of the injector with a value of this length leaves the pod's annotations
/// below Kubernetes' limit.
pub(crate) fn has_room_for(pod: &Value, bytes: usize) -> bool {
    annotation_bytes(pod) + key::ORIGINAL.len() + bytes <= ANNOTATION_BYTES
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn total_annotation_size_is_limited() {
        let pod = |bytes: usize| {
            let half = "x".repeat((bytes - 2) / 2);
            json!({"metadata": {"annotations": {"a": half, "b": half}}, "spec": {}})
        };
        assert!(check(&pod(ANNOTATION_BYTES)).is_ok());
        assert_eq!(
            check(&pod(ANNOTATION_BYTES + 2)).unwrap_err().to_string(),
            "pod: metadata.annotations has 262146 bytes, and Kubernetes allows 262144; move long values into a ConfigMap"
        );
    }

    #[test]
    fn recorded_container_size_is_limited() {
        let with =
            |field: &str, bytes: usize| json!({"name": "istio-proxy", field: "x".repeat(bytes)});
        assert!(check_recorded(&with("env", 1 << 20)).is_ok());
        assert!(check_recorded(&with("args", 200 << 10)).is_ok());
        let error = check_recorded(&with("args", 256 << 10)).unwrap_err().to_string();
        assert!(
            error.starts_with("pod: the fields of container \"istio-proxy\" have 2621"),
            "{error}"
        );
    }

    #[test]
    fn list_lengths_are_limited() {
        for (list, most) in LISTS {
            let pod = |items: usize| json!({"spec": {list: vec![json!({"name": "x"}); items]}});
            assert!(check(&pod(most)).is_ok());
            let error = check(&pod(most + 1)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("pod: spec.{list} has {} items", most + 1)));
        }
    }
}
