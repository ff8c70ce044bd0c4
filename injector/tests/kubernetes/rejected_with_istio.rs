//! Pods that Kubernetes rejects after injection by Istio.

use injector::inject::{InjectionOutcome, inject};
use serde_json::{Value, json};

use crate::Kubernetes;
use crate::accepted::{PODS, settings, target, web, with_account};

/// Checks that Kubernetes accepts our result.
pub(crate) fn pods_rejected_with_istio_are_accepted(kubernetes: &Kubernetes) {
    let (http, tcp) = (json!({"httpGet": {"port": 80}}), json!({"tcpSocket": {"port": 15021}}));
    let proxy = |fields: Value| {
        let mut proxy = json!({"name": "istio-proxy", "image": "auto"});
        proxy.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        proxy
    };
    let init = |fields: Value| {
        let mut proxy = proxy(fields);
        proxy["restartPolicy"] = "Always".into();
        json!({"initContainers": [proxy], "containers": [web(&json!({}))]})
    };
    let own = |fields: Value| json!({"containers": [web(&json!({})), proxy(fields)]});
    let probed = json!({"containers": [web(&json!({
        "readinessProbe": http, "livenessProbe": {"grpc": {"port": 81}}, "startupProbe": tcp,
        "lifecycle": {"preStop": {"httpGet": {"port": 80}}, "postStart": {"tcpSocket": {"port": 80}}},
    }))]});
    let plain = json!({"containers": [web(&json!({}))]});
    let long = |container: &Value| {
        let variable = |number| json!({"name": format!("V{number}"), "value": "x".repeat(50)});
        let mut env: Vec<_> = (0..5000).map(variable).collect();
        env.insert(2500, json!({"name": "GRPC_XDS_BOOTSTRAP", "value": "mine"}));
        env.push(json!({"name": "TRUST_DOMAIN", "value": "mine"}));
        let mut container = container.clone();
        container["image"] = "mine:1".into();
        container["env"] = env.into();
        let other = (container["name"] != "web").then(|| web(&json!({})));
        json!({"containers": other.into_iter().chain([container]).collect::<Vec<_>>()})
    };
    let volume = |name: &str| {
        let own = json!({"name": name, "secret": {"secretName": "s"}});
        json!({"containers": [web(&json!({}))], "volumes": [own]})
    };
    let template = |name: &str| json!({"inject.istio.io/templates": name});
    let status_port = |port: &str| json!({"status.sidecar.istio.io/port": port});
    let readiness = |value: &str| {
        let key = |name: &str| format!("readiness.status.sidecar.istio.io/{name}");
        json!({key("initialDelaySeconds"): value, key("periodSeconds"): value, key("failureThreshold"): value})
    };
    let cases = [
        ("a native sidecar of the user's", json!({}), init(json!({}))),
        ("the same, for a gateway", template("gateway"), init(json!({}))),
        ("the same, for gRPC", template("grpc-agent"), init(json!({}))),
        ("a proxy of the user's", json!({}), own(json!({}))),
        ("with another probe", json!({}), own(json!({"readinessProbe": tcp}))),
        (
            "with other probes",
            json!({}),
            own(
                json!({"startupProbe": {"exec": {"command": ["true"]}}, "readinessProbe": {"grpc": {"port": 80}}}),
            ),
        ),
        (
            "with other hooks",
            json!({"proxy.istio.io/config": "holdApplicationUntilProxyStarts: true"}),
            own(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 5}}, "postStart": http}})),
        ),
        (
            "with a variable from elsewhere",
            json!({}),
            own(json!({"env": [
                {"name": "PROXY_CONFIG", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                {"name": "POD_NAME", "value": "mine"},
            ]})),
        ),
        (
            "with a variable from another place",
            json!({}),
            own(json!({"env": [
                {"name": "POD_NAME", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                {"name": "INSTANCE_IP", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            ]})),
        ),
        ("metadata named as variables of the template", metadata_of_the_template(), plain.clone()),
        (
            "the same beside variables of the user's",
            metadata_of_the_template(),
            own(
                json!({"env": [{"name": "MINE", "value": "1"}, {"name": "HOST_IP", "value": "2"}]}),
            ),
        ),
        (
            "the same, for gRPC",
            {
                let mut both = metadata_of_the_template();
                both["inject.istio.io/templates"] = "grpc-agent".into();
                both
            },
            own(json!({"env": [{"name": "MINE", "value": "1"}]})),
        ),
        ("no status port", status_port("0"), probed.clone()),
        ("another status port", status_port("15022"), probed),
        (
            "no status port, for gRPC",
            {
                let mut both = template("grpc-agent");
                both["status.sidecar.istio.io/port"] = "0".into();
                both
            },
            plain.clone(),
        ),
        (
            "a probe of a port without name",
            json!({}),
            json!({"containers": [web(&json!({"readinessProbe": {"httpGet": {"port": "nowhere"}}}))]}),
        ),
        ("the smallest readiness", readiness("0"), plain.clone()),
        ("the largest readiness", readiness("2147483647"), plain.clone()),
        ("an overlay on the proxy", template("sidecar,spire"), plain.clone()),
        ("the same, for a gateway", template("gateway,spire"), own(json!({}))),
        ("a long environment, for gRPC", template("grpc-agent"), long(&json!({"name": "web"}))),
        ("the same, without an agent", template("grpc-simple"), long(&json!({"name": "web"}))),
        (
            "a long environment of the user's proxy",
            json!({}),
            long(&json!({"name": "istio-proxy", "args": ["proxy", "mine"]})),
        ),
        ("a volume named as an injected one", json!({}), volume("istio-data")),
        ("another, which is mounted", json!({}), volume("istio-envoy")),
        ("the same, for a gateway", template("gateway"), volume("istio-token")),
        (
            "a volume of the user's named as an injected one",
            json!({"sidecar.istio.io/userVolume": r#"{"istio-data":{"configMap":{"name":"c"}}}"#}),
            plain.clone(),
        ),
        ("a quantity without digits", json!({"sidecar.istio.io/proxyCPU": "Mi"}), plain.clone()),
        (
            "a mount of the user's where there is one",
            json!({
                "sidecar.istio.io/userVolume": r#"{"v":{"emptyDir":{}}}"#,
                "sidecar.istio.io/userVolumeMount": r#"{"v":{"mountPath":"/etc/istio/proxy"}}"#,
            }),
            plain.clone(),
        ),
        (
            "variables that YAML takes for something else",
            json!({"proxy.istio.io/config": "proxyMetadata: {'true': a, '1': b, 'null': c}"}),
            plain.clone(),
        ),
        (
            "volumes of the user's",
            json!({
                "sidecar.istio.io/userVolume": r#"{"v":{"emptyDir":{}}}"#,
                "sidecar.istio.io/userVolumeMount": r#"{"v":{"mountPath":"/v"}}"#,
            }),
            plain,
        ),
    ];
    for (what, annotations, spec) in cases {
        for native in [true, false] {
            let name = "a-name-that-is-longer-than-a-label-may-be-which-is-sixty-three-characters";
            let metadata = json!({"name": name, "annotations": annotations});
            let pod = with_account(json!({"metadata": metadata, "spec": spec}));
            let whole = kubernetes.post(PODS, &pod);
            assert!(whole.is_ok(), "{what}: the pod itself is refused: {}", whole.unwrap_err());
            let settings = settings(SPIRE, &json!({}), &json!({}), native);
            let Ok(InjectionOutcome::Injected(injection)) = inject(&settings, target(&pod)) else {
                panic!("{what}: not injected");
            };
            let accepted = kubernetes.post(PODS, &injection.pod);
            assert!(accepted.is_ok(), "{what}, native {native}: {}", accepted.unwrap_err());
            let proxies = |list: &str| {
                let containers = injection.pod["spec"][list].as_array().into_iter().flatten();
                containers.filter(|container| container["name"] == "istio-proxy").count()
            };
            let proxyless = annotations["inject.istio.io/templates"] == "grpc-simple";
            let expected = usize::from(!proxyless);
            assert_eq!(proxies("containers") + proxies("initContainers"), expected, "{what}");
            let Ok(InjectionOutcome::Injected(again)) = inject(&settings, target(&injection.pod))
            else {
                panic!("{what}: not injected again");
            };
            assert_eq!(again.pod, injection.pod, "{what}: a second injection changes nothing");
        }
    }
}

/// Returns variables that the template takes from the pod, sets itself, or computes.
fn metadata_of_the_template() -> Value {
    let names = [
        "POD_NAME",
        "INSTANCE_IP",
        "HOST_IP",
        "ISTIO_CPU_LIMIT",
        "ISTIO_META_CLUSTER_ID",
        "ISTIO_META_DNS_CAPTURE",
        "ISTIO_KUBE_APP_PROBERS",
    ];
    let metadata: Vec<_> = names.iter().map(|name| format!("{name}: x")).collect();
    json!({"proxy.istio.io/config": format!("proxyMetadata: {{{}}}", metadata.join(", "))})
}

const SPIRE: &str = include_str!("../../testdata/config/spire.yaml");
