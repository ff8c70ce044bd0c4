//! `OpenShift`'s annotations of namespaces.

use serde_json::{Value, json};

use crate::fixture::{Fixture, injected, pod};
use crate::program::Program;

pub(crate) fn ids_of_a_new_namespace_are_known_at_once(fixture: &Fixture<'_>) {
    fixture.allow("", "namespaces", &["get", "list", "watch"]);
    let flags = ["--platform", "openshift", "--enable-native-sidecars", "true"];
    let program = fixture.start(&flags);
    // The result does not depend on the watch having delivered the namespace.
    for number in 1..=10 {
        let name = format!("openshift-{number}");
        let first = number * 10_000;
        fixture.create_namespace(&name, &json!({RANGE: format!("{first}/10000")}));
        assert_eq!(user(&program, &name), (json!(first + 9_999), json!(null)));
    }
    // A known namespace without the annotations differs from an unknown namespace.
    assert_eq!(user(&program, "default"), (json!(1337), json!(null)));

    let other = fixture.start(&["--enable-native-sidecars", "true"]);
    assert_eq!(user(&other, "openshift-1"), (json!(1337), json!(null)));
    let watches = "sidecar_injector_watch{resource=\"namespaces\",state=\"current\"}";
    assert!(other.metric(watches) < 1.0, "nobody asked for namespaces");
}

pub(crate) fn unknown_namespace_gets_a_warning(fixture: &Fixture<'_>) {
    fixture.allow("", "namespaces", &["get", "list", "watch"]);
    let flags = ["--platform", "openshift", "--enable-native-sidecars", "true"];
    let program = fixture.start(&flags);
    let (user, warnings) = user(&program, "not-there");
    assert_eq!(user, 1337);
    assert!(warnings[0].as_str().unwrap().contains("(namespace_unknown)"), "{warnings}");
}

/// Returns the user of a pod's proxy, and the warnings.
fn user(program: &Program, namespace: &str) -> (Value, Value) {
    let (pod, warnings) = injected(&mut program.connect(), namespace, &pod(&json!({}), None));
    let proxy = &pod["spec"]["initContainers"][1];
    assert_eq!(proxy["name"], "istio-proxy", "{pod}");
    (proxy["securityContext"]["runAsUser"].clone(), warnings)
}

const RANGE: &str = "openshift.io/sa.scc.uid-range";
