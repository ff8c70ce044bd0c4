//! Kubelet versions of nodes.

use serde_json::json;

use crate::fixture::{Fixture, injected, pod};
use crate::objects::{node, with_version};
use crate::program::until;

pub(crate) fn node_versions_decide_on_native_sidecars(fixture: &Fixture<'_>) {
    fixture.allow("", "nodes", &["list", "watch"]);
    let program = fixture.start(&[]);
    let is_native = |node: Option<&str>| {
        let (pod, _) = injected(&mut program.connect(), "default", &pod(&json!({}), node));
        pod["spec"]["initContainers"][1]["name"] == "istio-proxy"
    };
    assert!(is_native(None), "there is no node that does not have them");

    fixture.apply(&node("new"));
    fixture.apply_status(&with_version("new", "v1.33.0-gke.100"));
    fixture.apply(&node("old"));
    fixture.apply_status(&with_version("old", "v1.32.9"));
    until("the old node counts", || !is_native(None));
    assert!(!is_native(Some("old")));
    assert!(!is_native(Some("not-there")), "a node that is not known may be any");
    until("a new node is known for itself", || is_native(Some("new")));

    fixture.apply_status(&with_version("old", "v1.34.0"));
    until("the upgrade counts", || is_native(None));
    fixture.apply_status(&with_version("old", "edge"));
    until("a version that cannot be read counts as old", || !is_native(None));
    fixture.delete(&node("old"));
    until("a node that is gone does not count", || is_native(None));

    // With `true` or `false` the program does not read nodes.
    let other = fixture.start(&["--enable-native-sidecars", "false"]);
    let (pod, _) = injected(&mut other.connect(), "default", &pod(&json!({}), Some("new")));
    assert_eq!(pod["spec"]["containers"][1]["name"], "istio-proxy", "{pod}");
    fixture.delete(&node("new"));
}
