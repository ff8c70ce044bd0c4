//! The proxy's user on `OpenShift`.

use injector::settings::Process;
use serde_json::{Value, json};

use crate::stage::{Stage, container, flag, names, pod, pod_of};

fn stage(users: Option<&str>, groups: Option<&str>) -> Stage {
    let ranges = [("uid-range", users), ("supplemental-groups", groups)];
    let ranges = ranges
        .into_iter()
        .filter_map(|(key, range)| Some((format!("openshift.io/sa.scc.{key}"), range?.to_owned())));
    Stage {
        process: Process { native_sidecars: true, openshift: true, ..Process::default() },
        namespace: ranges.collect(),
        ..Stage::default()
    }
}

#[test]
fn the_last_of_the_namespaces_range() {
    let usual = Some("1000620000/10000");
    for (users, groups, uid, gid) in [
        (None, None, 1337, 1337),
        (usual, usual, 1_000_629_999, 1_000_629_999),
        (usual, None, 1_000_629_999, 1_000_629_999),
        (usual, Some(""), 1_000_629_999, 1_000_629_999),
        (None, usual, 1337, 1_000_629_999),
        (Some("1-5"), Some("7-9"), 5, 9),
        (Some("1-5"), Some("10/5,100/5"), 5, 14),
        (Some("1-5"), Some("10/5,none"), 5, 1337),
        (Some("1/0"), usual, 1337, 1_000_629_999),
        (Some("9-5"), Some("9-5"), 1337, 1337),
        (Some("many"), Some("1"), 1337, 1337),
    ] {
        let injected = stage(users, groups).pod(&pod(&json!({})));
        let security = &container(&injected, "istio-proxy")["securityContext"];
        let ids = (&security["runAsUser"], &security["runAsGroup"]);
        assert_eq!(ids, (&json!(uid), &json!(gid)), "{users:?} {groups:?}");
        assert_eq!(flag(&injected, "istio-init", "-u"), Some(&*uid.to_string()));
    }
}

#[test]
fn elsewhere_the_namespace_says_nothing() {
    let mut stage = stage(Some("1000620000/10000"), None);
    stage.process.openshift = false;
    let injected = stage.pod(&pod(&json!({})));
    assert_eq!(container(&injected, "istio-proxy")["securityContext"]["runAsUser"], 1337);
}

#[test]
fn tproxy_has_its_own_user() {
    let mut stage = stage(Some("1000620000/10000"), Some("1000620000/10000"));
    stage.values = json!({"pilot": {"cni": {"enabled": true}}});
    let injected = stage.pod(&pod(&json!({"sidecar.istio.io/interceptionMode": "TPROXY"})));
    let security = &container(&injected, "istio-proxy")["securityContext"];
    assert_eq!((&security["runAsUser"], &security["runAsGroup"]), (&json!(0), &json!(1337)));
    let security = &container(&injected, "istio-validation")["securityContext"];
    assert_eq!((&security["runAsUser"], &security["runAsGroup"]), (&json!(1337), &json!(1337)));
    assert_eq!(flag(&injected, "istio-validation", "-u"), Some("1337"));
}

/// `OpenShift` gives every container the first user before it calls the webhook.
#[test]
fn the_user_that_every_container_was_given_is_not_the_proxys() {
    let assigned = |user: u64, group: Option<u64>| match group {
        Some(group) => json!({"runAsUser": user, "runAsGroup": group}),
        None => json!({"runAsUser": user}),
    };
    let with = |own: Value| {
        pod_of(
            &json!({}),
            &json!([
                {"name": "istio-proxy", "image": "auto", "securityContext": own},
                {"name": "app", "image": "app:1", "securityContext": {"runAsUser": 1_000_620_000}},
            ]),
        )
    };
    for (own, user, group) in [
        (assigned(1_000_620_000, None), 1_000_629_999, 1_000_629_999),
        (assigned(1_000_620_000, Some(5)), 1_000_629_999, 1_000_629_999),
        (assigned(1_000_620_001, Some(5)), 1_000_620_001, 5),
    ] {
        for native in [true, false] {
            let mut stage = stage(Some("1000620000/10000"), Some("1000620000/10000"));
            stage.process.native_sidecars = native;
            let injected = stage.pod(&with(own.clone()));
            let security = &container(&injected, "istio-proxy")["securityContext"];
            let ids = (&security["runAsUser"], &security["runAsGroup"]);
            assert_eq!(ids, (&json!(user), &json!(group)), "{own}");
            assert_eq!(flag(&injected, "istio-init", "-u"), Some(&*user.to_string()));
            let apart = if native { vec!["app"] } else { vec!["app", "istio-proxy"] };
            assert_eq!(names(&injected, "containers"), apart);
        }
    }
}
