//! The network list for Multus.

use serde_json::json;

use crate::fixture::{Fixture, pod};

#[test]
fn cni_plugin_network_is_added_once() {
    let cni = json!({"pilot": {"cni": {"enabled": true, "provider": "multus"}}});
    let fixture = Fixture::with_values(cni);
    for (given, expected) in [
        (None, "default/istio-cni"),
        (Some(""), "default/istio-cni"),
        (Some("macvlan-conf-1"), "macvlan-conf-1, default/istio-cni"),
        (Some("conf-1, conf-2"), "conf-1, conf-2, default/istio-cni"),
        (Some("conf-1, default/istio-cni"), "conf-1, default/istio-cni"),
        (Some("istio-cni"), "istio-cni, default/istio-cni"),
        (
            Some(r#"[{"name": "macvlan-conf-1"}]"#),
            r#"[{"name": "macvlan-conf-1"}, {"name": "istio-cni", "namespace": "default"}]"#,
        ),
        (
            Some(r#"[{"name": "a"}, {"name": "b"}]"#),
            r#"[{"name": "a"}, {"name": "b"}, {"name": "istio-cni", "namespace": "default"}]"#,
        ),
        (
            Some(
                "[\n  {\"name\" : \"a\"},\n  {\"name\" : \"b\", \"mac\": \"c2:b0:57:49:47:f1\"}\n]",
            ),
            "[\n  {\"name\" : \"a\"},\n  {\"name\" : \"b\", \"mac\": \"c2:b0:57:49:47:f1\"}\n, \
             {\"name\": \"istio-cni\", \"namespace\": \"default\"}]",
        ),
        (
            Some(r#"[{"name": "istio-cni", "namespace": "default"}]"#),
            r#"[{"name": "istio-cni", "namespace": "default"}]"#,
        ),
        (
            Some(r#"[{"name": "istio-cni"}]"#),
            r#"[{"name": "istio-cni"}, {"name": "istio-cni", "namespace": "default"}]"#,
        ),
        (Some(r#"[{"name": "macvlan"]"#), r#"[{"name": "macvlan"]"#),
    ] {
        let key = "k8s.v1.cni.cncf.io/networks";
        let annotations = given.map_or(json!({}), |given| json!({key: given}));
        let injected = fixture.pod(&pod(&annotations));
        assert_eq!(injected["metadata"]["annotations"][key], expected, "{given:?}");
    }
}
