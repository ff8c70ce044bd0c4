//! Images of the injected containers.

use serde_json::{Value, json};

use crate::fixture::{Fixture, container, pod};

#[test]
fn image_has_hub_name_tag_and_variant() {
    let none = json!({});
    let global = |tag: Value, variant: &str, image: &str| json!({"hub": "docker.io/istio", "tag": tag, "variant": variant, "proxy": {"image": image}});
    let kind = |kind: &str| json!({"sidecar.istio.io/proxyImageType": kind});
    for (global, configured, annotations, expected) in [
        (global("1.12".into(), "", "proxyv2"), "", none.clone(), "docker.io/istio/proxyv2:1.12"),
        (global("1.12".into(), "", ""), "", none.clone(), "docker.io/istio/proxyv2:1.12"),
        (global(json!(1.12), "", "other"), "", none.clone(), "docker.io/istio/other:1.12"),
        (
            global("1.12".into(), "distroless", ""),
            "",
            none.clone(),
            "docker.io/istio/proxyv2:1.12-distroless",
        ),
        (
            global("1.12".into(), "distroless", ""),
            "debug",
            none.clone(),
            "docker.io/istio/proxyv2:1.12-debug",
        ),
        (
            global("1.12".into(), "distroless", ""),
            "default",
            none.clone(),
            "docker.io/istio/proxyv2:1.12",
        ),
        (
            global("1.12".into(), "", ""),
            "debug",
            kind("distroless"),
            "docker.io/istio/proxyv2:1.12-distroless",
        ),
        (global("1.12".into(), "debug", ""), "", kind("default"), "docker.io/istio/proxyv2:1.12"),
        (global("1.12".into(), "debug", ""), "debug", kind(""), "docker.io/istio/proxyv2:1.12"),
        (
            global("1.12-distroless".into(), "", ""),
            "",
            none.clone(),
            "docker.io/istio/proxyv2:1.12-distroless",
        ),
        (
            global("1.12-distroless".into(), "", ""),
            "distroless",
            none.clone(),
            "docker.io/istio/proxyv2:1.12-distroless",
        ),
        (
            global("1.12-distroless".into(), "", ""),
            "debug",
            none.clone(),
            "docker.io/istio/proxyv2:1.12-debug",
        ),
        (global("1.12-debug".into(), "", ""), "", kind("default"), "docker.io/istio/proxyv2:1.12"),
        (
            global("1.12-debug-distroless".into(), "default", ""),
            "",
            none.clone(),
            "docker.io/istio/proxyv2:1.12",
        ),
        (global("1.12".into(), "fips", ""), "", none.clone(), "docker.io/istio/proxyv2:1.12-fips"),
        (global("1.12".into(), "debug", "hub/all:5"), "", kind("distroless"), "hub/all:5"),
    ] {
        let mut fixture = Fixture::with_values(json!({"global": global}));
        if !configured.is_empty() {
            fixture.mesh = json!({"defaultConfig": {"image": {"imageType": configured}}});
        }
        let injected = fixture.pod(&pod(&annotations));
        let image = &container(&injected, "istio-proxy")["image"];
        assert_eq!(image, expected, "{global} {configured:?} {annotations}");
    }
}

#[test]
fn init_image_has_its_own_name_and_no_variant() {
    let global = json!({"hub": "h", "tag": "1", "proxy_init": {"image": "init"}});
    let mut fixture = Fixture::with_values(json!({"global": global}));
    fixture.mesh = json!({"defaultConfig": {"image": {"imageType": "debug"}}});
    let injected = fixture.pod(&pod(&json!({})));
    assert_eq!(container(&injected, "istio-init")["image"], "h/init:1");
    assert_eq!(container(&injected, "istio-proxy")["image"], "h/proxyv2:1-debug");
    let given = json!({"sidecar.istio.io/proxyImage": "docker.io/istio/proxy2_debug:unittest"});
    let injected = fixture.pod(&pod(&given));
    for name in ["istio-init", "istio-proxy"] {
        assert_eq!(container(&injected, name)["image"], "docker.io/istio/proxy2_debug:unittest");
    }
    let unused = json!({"sidecar.istio.io/proxyImage": "proxy2_debug"});
    let injected = fixture.pod(&pod(&unused));
    assert_eq!(container(&injected, "istio-init")["image"], "h/init:1");
}
