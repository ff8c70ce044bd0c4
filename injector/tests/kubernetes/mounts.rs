//! User-supplied mounts, as the API server keeps them.

use injector::inject::{InjectionOutcome, inject};
use serde_json::{Value, json};

use crate::Kubernetes;
use crate::accepted::{PODS, settings, target, web, with_account};

/// The API server drops fields in another letter case, so the mount would be writable.
pub(crate) fn user_mount_is_read_only_in_any_letter_case(kubernetes: &Kubernetes) {
    let volumes = r#"[{"name":"certs","emptydir":{"Medium":"Memory"}}]"#;
    for mounts in [
        r#"[{"name":"certs","mountPath":"/etc/certs","readonly":true}]"#,
        r#"{"certs":{"MountPath":"/etc/certs","ReadOnly":true}}"#,
        r#"[{"NAME":"certs","mountpath":"/etc/certs","readOnly":true}]"#,
    ] {
        let annotations = json!({
            "sidecar.istio.io/userVolume": volumes, "sidecar.istio.io/userVolumeMount": mounts,
        });
        let pod = json!({
            "metadata": {"generateName": "mounts-", "annotations": annotations},
            "spec": {"containers": [web(&json!({}))]},
        });
        let settings = settings("policy: enabled", &json!({}), &json!({}), true);
        let Ok(InjectionOutcome::Injected(injection)) =
            inject(&settings, target(&with_account(pod)))
        else {
            panic!("{mounts}: not injected");
        };
        let created = kubernetes.post(PODS, &injection.pod).unwrap();
        let own = |list: &Value| {
            let items = list.as_array().into_iter().flatten();
            items.clone().find(|item| item["name"] == "certs").cloned()
        };
        let proxy = &created["spec"]["initContainers"].as_array().unwrap()[1];
        let expected = json!({"name": "certs", "mountPath": "/etc/certs", "readOnly": true});
        assert_eq!(own(&proxy["volumeMounts"]), Some(expected), "{mounts}");
        let expected = json!({"name": "certs", "emptyDir": {"medium": "Memory"}});
        assert_eq!(own(&created["spec"]["volumes"]), Some(expected), "{mounts}");
    }
}
