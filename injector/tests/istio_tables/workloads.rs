//! The workload that owns a pod, and its names in the mesh.

use serde_json::{Value, json};

use crate::fixture::{Fixture, container, variable};

#[test]
fn owner_is_inferred_from_pod_metadata() {
    let hash = json!({"pod-template-hash": "6b4f9"});
    let rollout = json!({"rollouts-pod-template-hash": "6b4f9"});
    for (kind, version, owner, labels, expected) in [
        (
            "ReplicaSet",
            "apps/v1",
            "web-6b4f9",
            hash.clone(),
            ("web", "apps/v1/namespaces/test-ns/deployments/web"),
        ),
        (
            "ReplicaSet",
            "apps/v1",
            "web-6b4f9",
            json!({}),
            ("web-6b4f9", "apps/v1/namespaces/test-ns/replicasets/web-6b4f9"),
        ),
        (
            "ReplicaSet",
            "apps/v1",
            "web-1",
            hash.clone(),
            ("web-1", "apps/v1/namespaces/test-ns/replicasets/web-1"),
        ),
        (
            "ReplicaSet",
            "apps/v1",
            "web6b4f9",
            hash.clone(),
            ("web6b4f9", "apps/v1/namespaces/test-ns/deployments/web6b4f9"),
        ),
        (
            "ReplicaSet",
            "apps/v1",
            "web-6b4f9",
            rollout,
            ("web", "v1alpha1/namespaces/test-ns/rollouts/web"),
        ),
        (
            "ReplicaSet",
            "apps/v1",
            "web-6b4f9",
            json!({"pod-template-hash": "6b4f9", "rollouts-pod-template-hash": "6b4f9"}),
            ("web", "apps/v1/namespaces/test-ns/deployments/web"),
        ),
        (
            "ReplicaSet",
            "apps/v1",
            "web-6b4f9",
            json!({"pod-template-hash": "other", "rollouts-pod-template-hash": "6b4f9"}),
            ("web", "v1alpha1/namespaces/test-ns/rollouts/web"),
        ),
        (
            "StatefulSet",
            "apps/v1",
            "web",
            hash.clone(),
            ("web", "apps/v1/namespaces/test-ns/statefulsets/web"),
        ),
        (
            "DaemonSet",
            "apps/v1",
            "web",
            json!({}),
            ("web", "apps/v1/namespaces/test-ns/daemonsets/web"),
        ),
        (
            "ReplicationController",
            "v1",
            "web-1",
            json!({}),
            ("web-1", "v1/namespaces/test-ns/replicationcontrollers/web-1"),
        ),
        (
            "ReplicationController",
            "v1",
            "web-1",
            json!({"deploymentconfig": "web"}),
            ("web", "v1/namespaces/test-ns/deploymentconfigs/web"),
        ),
        ("Job", "batch/v1", "web", json!({}), ("web", "batch/v1/namespaces/test-ns/jobs/web")),
        (
            "Job",
            "batch/v1",
            "web-1234567",
            json!({}),
            ("web-1234567", "batch/v1/namespaces/test-ns/jobs/web-1234567"),
        ),
        (
            "Job",
            "batch/v1",
            "web-12345678",
            json!({}),
            ("web", "batch/v1/namespaces/test-ns/cronjobs/web"),
        ),
        (
            "Job",
            "batch/v1beta1",
            "web-123456789",
            json!({}),
            ("web", "batch/v1/namespaces/test-ns/cronjobs/web"),
        ),
        (
            "Job",
            "batch/v1",
            "web-1234567890",
            json!({}),
            ("web", "batch/v1/namespaces/test-ns/cronjobs/web"),
        ),
        (
            "Job",
            "batch/v1",
            "web-12345678901",
            json!({}),
            ("web-12345678901", "batch/v1/namespaces/test-ns/jobs/web-12345678901"),
        ),
        (
            "Job",
            "batch/v1",
            "web-1234567a",
            json!({}),
            ("web-1234567a", "batch/v1/namespaces/test-ns/jobs/web-1234567a"),
        ),
        (
            "Job",
            "batch/v1",
            "web-1-12345678",
            json!({}),
            ("web-1", "batch/v1/namespaces/test-ns/cronjobs/web-1"),
        ),
        (
            "Custom",
            "foo.dev/v1beta1",
            "web",
            json!({}),
            ("web", "foo.dev/v1beta1/namespaces/test-ns/customs/web"),
        ),
    ] {
        let pod = json!({
            "metadata": {
                "generateName": format!("{owner}-"), "labels": labels,
                "ownerReferences": [
                    {"apiVersion": "x/v1", "kind": "Other", "name": "other", "uid": "0"},
                    {"apiVersion": version, "kind": kind, "name": owner, "uid": "1", "controller": true},
                ],
            },
            "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        });
        let injected = Fixture::default().pod(&pod);
        assert_eq!(variable(&injected, "ISTIO_META_WORKLOAD_NAME"), Some(expected.0), "{pod}");
        let owner = format!("kubernetes://apis/{}", expected.1);
        assert_eq!(variable(&injected, "ISTIO_META_OWNER"), Some(&*owner), "{pod}");
    }
}

#[test]
fn pod_without_generated_name_or_controller_is_the_owner() {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a-1", "uid": "1", "controller": true}]);
    let loose = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a-1", "uid": "1"}]);
    for metadata in [
        json!({"name": "web"}),
        json!({"name": "web", "ownerReferences": owner}),
        json!({"name": "web", "generateName": "a-1-", "ownerReferences": loose}),
        json!({"name": "web", "generateName": "a-1-", "ownerReferences": []}),
    ] {
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "app", "image": "app:1"}]}});
        let injected = Fixture::default().pod(&pod);
        assert_eq!(variable(&injected, "ISTIO_META_WORKLOAD_NAME"), Some("web"));
        let owner = "kubernetes://apis/v1/namespaces/test-ns/pods/web";
        assert_eq!(variable(&injected, "ISTIO_META_OWNER"), Some(owner));
    }
}

#[test]
fn generated_name_without_controller_gives_no_workload_name() {
    let pod = json!({
        "metadata": {"generateName": "web-"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    let injected = Fixture::default().pod(&pod);
    assert_eq!(variable(&injected, "ISTIO_META_OWNER"), None);
}

#[test]
fn canonical_name_and_revision_labels_are_set() {
    let long = "a".repeat(62) + "-bc";
    let cut = "a".repeat(62);
    for (labels, name, revision) in [
        (json!({}), "web", "latest"),
        (json!({"app": "a"}), "a", "latest"),
        (json!({"app": "a", "app.kubernetes.io/name": "n"}), "n", "latest"),
        (
            json!({"app": "a", "app.kubernetes.io/name": "n", "service.istio.io/canonical-name": "c"}),
            "c",
            "latest",
        ),
        (json!({"version": "v"}), "web", "v"),
        (json!({"version": "v", "app.kubernetes.io/version": "k"}), "web", "k"),
        (
            json!({"version": "v", "app.kubernetes.io/version": "k", "service.istio.io/canonical-revision": "c"}),
            "web",
            "c",
        ),
        (json!({"app": long}), &*cut, "latest"),
        (json!({"service.istio.io/workload-name": "w"}), "web", "latest"),
    ] {
        let injected = Fixture::default().pod(&labelled(&labels));
        let found = &injected["metadata"]["labels"];
        assert_eq!(found["service.istio.io/canonical-name"], name, "{labels}");
        assert_eq!(found["service.istio.io/canonical-revision"], revision, "{labels}");
    }
    let labels = json!({"service.istio.io/workload-name": "w"});
    let injected = Fixture::default().pod(&labelled(&labels));
    assert_eq!(variable(&injected, "ISTIO_META_WORKLOAD_NAME"), Some("w"));
}

fn labelled(labels: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "labels": labels},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    })
}

#[test]
fn network_label_precedes_path_and_path_precedes_values() {
    let values = json!({"global": {"network": "values", "multiCluster": {"clusterName": "c0"}}});
    let mut fixture = Fixture::with_values(values);
    let plain = labelled(&json!({}));
    let own = labelled(&json!({"topology.istio.io/network": "own"}));
    let seen = |fixture: &Fixture, pod: &Value| {
        let injected = fixture.pod(pod);
        let label = injected["metadata"]["labels"]["topology.istio.io/network"].clone();
        let word = |name| variable(&injected, name).unwrap_or_default().to_owned();
        assert_eq!(label, word("ISTIO_META_NETWORK"));
        (word("ISTIO_META_NETWORK"), word("ISTIO_META_CLUSTER_ID"))
    };
    let of = |network: &str, cluster: &str| (network.to_owned(), cluster.to_owned());
    assert_eq!(seen(&fixture, &plain), of("values", "c0"));
    fixture.path_env = vec![
        ("ISTIO_META_NETWORK".to_owned(), "path".to_owned()),
        ("ISTIO_META_CLUSTER_ID".to_owned(), "c1".to_owned()),
    ];
    assert_eq!(seen(&fixture, &plain), of("path", "c1"));
    assert_eq!(seen(&fixture, &own), of("own", "c1"));
}

#[test]
fn empty_network_or_cluster_name_replaces_nothing() {
    let path = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let named = [path("ISTIO_META_NETWORK", "n9")].to_vec();
    let empty = ["ISTIO_META_CLUSTER_ID", "ISTIO_META_NETWORK", "FOO"];
    let empty: Vec<_> = empty.iter().map(|name| path(name, "")).collect();
    let values = json!({"global": {"network": "n0", "multiCluster": {"clusterName": "c0"}}});
    let none = json!({"global": {"multiCluster": {"clusterName": ""}}});
    let label = "topology.istio.io/network";
    let (plain, blank) = (labelled(&json!({})), labelled(&json!({label: ""})));
    for (values, path_env, pod, network, cluster) in [
        (&values, &named, &blank, Some("n9"), Some("c0")),
        (&values, &Vec::new(), &blank, Some("n0"), Some("c0")),
        (&values, &empty, &plain, Some("n0"), Some("c0")),
        (&none, &empty, &plain, None, Some("Kubernetes")),
        (&none, &named, &blank, Some("n9"), Some("Kubernetes")),
    ] {
        let fixture =
            Fixture { path_env: path_env.clone(), values: values.clone(), ..Fixture::default() };
        let injected = fixture.pod(pod);
        let case = format!("{values} {path_env:?} {pod}");
        assert_eq!(variable(&injected, "ISTIO_META_NETWORK"), network, "{case}");
        assert_eq!(variable(&injected, "ISTIO_META_CLUSTER_ID"), cluster, "{case}");
        assert_eq!(injected["metadata"]["labels"][label].as_str(), network, "{case}");
        let env = container(&injected, "istio-proxy")["env"].as_array().unwrap();
        // The API server writes a variable with an empty value like this.
        let kept = env.contains(&json!({"name": "FOO"}));
        assert_eq!(kept, *path_env == empty, "{case}");
    }
}
