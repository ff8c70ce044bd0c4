//! The proxy's user on `OpenShift`.

use injector::settings::Process;
use serde_json::{Value, json};

use crate::fixture::{Fixture, container, flag, names, pod, pod_of};

fn fixture(users: Option<&str>, groups: Option<&str>) -> Fixture {
    let ranges = [("uid-range", users), ("supplemental-groups", groups)];
    let ranges = ranges
        .into_iter()
        .filter_map(|(key, range)| Some((format!("openshift.io/sa.scc.{key}"), range?.to_owned())));
    Fixture {
        process: Process { native_sidecars: true, openshift: true, ..Process::default() },
        namespace: ranges.collect(),
        ..Fixture::default()
    }
}

#[test]
fn last_id_of_the_namespace_range_is_used() {
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
        let injected = fixture(users, groups).pod(&pod(&json!({})));
        let security = &container(&injected, "istio-proxy")["securityContext"];
        let ids = (&security["runAsUser"], &security["runAsGroup"]);
        assert_eq!(ids, (&json!(uid), &json!(gid)), "{users:?} {groups:?}");
        assert_eq!(flag(&injected, "istio-init", "-u"), Some(&*uid.to_string()));
    }
}

#[test]
fn namespace_range_is_ignored_on_other_platforms() {
    let mut fixture = fixture(Some("1000620000/10000"), None);
    fixture.process.openshift = false;
    let injected = fixture.pod(&pod(&json!({})));
    assert_eq!(container(&injected, "istio-proxy")["securityContext"]["runAsUser"], 1337);
}

#[test]
fn tproxy_has_its_own_user() {
    let mut fixture = fixture(Some("1000620000/10000"), Some("1000620000/10000"));
    fixture.values = json!({"pilot": {"cni": {"enabled": true}}});
    let injected = fixture.pod(&pod(&json!({"sidecar.istio.io/interceptionMode": "TPROXY"})));
    let security = &container(&injected, "istio-proxy")["securityContext"];
    assert_eq!((&security["runAsUser"], &security["runAsGroup"]), (&json!(0), &json!(1337)));
    let security = &container(&injected, "istio-validation")["securityContext"];
    assert_eq!((&security["runAsUser"], &security["runAsGroup"]), (&json!(1337), &json!(1337)));
    assert_eq!(flag(&injected, "istio-validation", "-u"), Some("1337"));
}

/// `OpenShift` gives every container the first user before it calls the webhook.
#[test]
fn user_set_by_admission_is_not_the_proxy_user() {
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
            let mut fixture = fixture(Some("1000620000/10000"), Some("1000620000/10000"));
            fixture.process.native_sidecars = native;
            let injected = fixture.pod(&with(own.clone()));
            let security = &container(&injected, "istio-proxy")["securityContext"];
            let ids = (&security["runAsUser"], &security["runAsGroup"]);
            assert_eq!(ids, (&json!(user), &json!(group)), "{own}");
            assert_eq!(flag(&injected, "istio-init", "-u"), Some(&*user.to_string()));
            let apart = if native { vec!["app"] } else { vec!["app", "istio-proxy"] };
            assert_eq!(names(&injected, "containers"), apart);
        }
    }
}
