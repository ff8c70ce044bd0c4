//! Values of the chart: their schema, what is rejected, and what they do.

use serde_json::{Map, Value, json};

use super::{chart_file, document, helm, templated};

#[test]
fn invalid_values_are_rejected_by_name() {
    for (values, expected) in [
        (json!({"revison": "a"}), "additional properties 'revison' not allowed"),
        (json!({"outrigger": {"captureRequests": "write"}}), "'captureRequests' not allowed"),
        (json!({"outrigger": {"captureRequest": "yes"}}), "at '/outrigger/captureRequest'"),
        (json!({"revision": "A"}), "at '/revision': 'A' does not match pattern"),
        (json!({"revisionTags": "prod"}), "at '/revisionTags': got string, want array"),
        (json!({"revisionTags": ["a b"]}), "at '/revisionTags/0': 'a b' does not match"),
        (json!({"global": {"hubb": "a"}}), "at '/global': additional properties 'hubb'"),
        (json!({"global": {"hub": ""}}), "at '/global/hub'"),
        (json!({"global": {"proxy": {"statusPort": 70000}}}), "at '/global/proxy/statusPort'"),
        (json!({"global": {"imagePullPolicy": "always"}}), "at '/global/imagePullPolicy'"),
        (json!({"injector": {"replicaCount": "2"}}), "at '/injector/replicaCount': got string"),
        (
            json!({"sidecarInjectorWebhook": {"failurePolicy": "Open"}}),
            "at '/sidecarInjectorWebhook/failurePolicy': value must be one of 'Fail', 'Ignore'",
        ),
        (json!({"prometheus": {"runbookUrl": "alerts.md"}}), "at '/prometheus/runbookUrl'"),
        (json!({"pilot": {"traceSampling": 1}}), "additional properties 'traceSampling'"),
        (json!({"mesh": {"enabled": "yes"}}), "at '/mesh/enabled': got string, want boolean"),
        (json!({"revision": "ca-1"}), "revision: \"ca-1\" is reserved"),
        (json!({"revisionTags": ["default"]}), "revisionTags: the default revision needs no tag"),
        (
            json!({"revision": "a", "sidecarInjectorWebhook": {"enableNamespacesByDefault": true}}),
            "sidecarInjectorWebhook.enableNamespacesByDefault: only the default revision",
        ),
        (
            json!({"injector": {"reports": true, "certificates": {"provider": "files"}}}),
            "injector.reports: it needs a token",
        ),
        (
            json!({"global": {"platform": "openshift"},
                   "injector": {"certificates": {"provider": "cert-manager"}}}),
            "global.platform: openshift needs a token",
        ),
        (
            json!({"revisionTags": ["a"],
                   "injector": {"certificates": {"provider": "cert-manager"}}}),
            "revisionTags: with injector.certificates.provider cert-manager",
        ),
        (
            json!({"injector": {"trustProbe": true},
                   "sidecarInjectorWebhook": {"failurePolicy": "Ignore"}}),
            "injector.trustProbe: with sidecarInjectorWebhook.failurePolicy Ignore",
        ),
        (
            json!({"injector": {"certificates": {"approve": true}}}),
            "injector.certificates.approve: there are no requests",
        ),
        (
            json!({"injector": {"certificates": {"provider": "csr", "emptySecret": true}}}),
            "injector.certificates.emptySecret: there is no such Secret",
        ),
        (
            json!({"global": {"istioNamespace": "other"}}),
            "global.istioNamespace: the control plane",
        ),
    ] {
        let said = helm().template(&values).expect_err(&values.to_string()).to_string();
        assert!(said.contains(expected), "{values}: {said}");
    }
}

/// The schema describes each value, and has no other.
#[test]
fn schema_has_the_values_of_the_file() {
    compare("", &chart_file("values.schema.json"), &chart_file("values.yaml"));
}

fn compare(path: &str, schema: &Value, value: &Value) {
    let Some(properties) = schema["properties"].as_object() else {
        assert!(schema["description"].is_string(), "{path} has no description");
        return;
    };
    assert_eq!(schema["additionalProperties"], false, "{path}: a misspelt key would be lost");
    let empty = Map::new();
    let values = value.as_object().unwrap_or(&empty);
    for key in values.keys() {
        assert!(properties.contains_key(key), "{path}.{key} is not in the schema");
    }
    for (key, schema) in properties {
        compare(&format!("{path}.{key}"), schema, &value[key]);
    }
}

/// Text in a value stays text: it is no YAML, and no template.
#[test]
fn settings_are_values_of_their_documents() {
    let odd = "a: \"{{ .Release.Name }}\"\n- # é";
    let values = json!({
        "meshConfig": {
            "trustDomain": "example.com",
            "accessLogFormat": odd,
            "defaultConfig": {"concurrency": 3},
        },
        "outrigger": {"cpuLimits": "omit"},
        "global": {"proxy": {"excludeIPRanges": odd, "autoInject": "disabled"}, "tag": 1.5},
        "sidecarInjectorWebhook": {
            "templates": {"custom": odd},
            "neverInjectSelector": [{"matchLabels": {"a": "yes"}}],
        },
    });
    let objects = templated(&values);
    let mesh = document(&objects["ConfigMap istio"], "mesh");
    assert_eq!(mesh["accessLogFormat"], odd);
    assert_eq!(mesh["trustDomain"], "example.com");
    let address = "istiod.istio-system.svc:15012";
    assert_eq!(mesh["defaultConfig"], json!({"concurrency": 3, "discoveryAddress": address}));
    let map = &objects["ConfigMap istio-sidecar-injector"];
    let config = document(map, "config");
    assert_eq!(config["policy"], "disabled");
    assert_eq!(config["templates"], json!({"custom": odd}));
    assert_eq!(config["neverInjectSelector"], json!([{"matchLabels": {"a": "yes"}}]));
    let found = document(map, "values");
    assert_eq!(found["global"]["proxy"]["excludeIPRanges"], odd);
    assert_eq!(found["global"]["tag"], "1.5");
    assert_eq!(found["outrigger"], json!({"cpuLimits": "omit"}));
    assert!(found["global"].get("platform").is_none(), "it is the chart's own");
}

#[test]
fn every_namespace_is_that_of_the_release() {
    let values = json!({
        "revision": "canary",
        "revisionTags": ["prod", "default"],
        "prometheus": {"enabled": true, "proxies": true},
        "grafana": {"enabled": true},
        "injector": {"trustProbe": true, "reports": true, "highAvailability": true},
    });
    let rendered = helm().in_namespace("mesh").template(&values).unwrap();
    assert!(rendered.contains("discoveryAddress: istiod-canary.mesh.svc:15012"));
    assert!(rendered.contains(r#""system:serviceaccount:mesh:\" + \"pilot-discovery-canary"#));
    assert!(!rendered.contains("istio-system"));
}

#[test]
fn chart_has_the_version_of_the_programs() {
    let chart = chart_file("Chart.yaml");
    let found =
        [&chart["version"], &chart["appVersion"], &chart_file("values.yaml")["global"]["tag"]];
    assert_eq!(found, [env!("CARGO_PKG_VERSION"); 3]);
}

#[test]
fn fields_of_both_deployments_are_values() {
    let program = json!({
        "replicaCount": 7,
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "3Gi"}},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"a": "true"},
        "podLabels": {"team": "mesh"},
        "deploymentAnnotations": {"b": "1"},
        "serviceAccountAnnotations": {"c": "2"},
        "env": {"NAME": "1"},
        "extraContainerArgs": ["--log_output_level=default:debug"],
    });
    let objects = templated(&json!({
        "injector": program, "pilot": program,
        "global": {"priorityClassName": "high", "imagePullPolicy": "Always",
                   "imagePullSecrets": ["registry"]},
        "networkPolicy": {"monitoringNamespace": "observability"},
        "sidecarInjectorWebhook": {"timeoutSeconds": 9, "reinvocationPolicy": "Never"},
    }));
    for name in ["sidecar-injector", "pilot-discovery"] {
        let deployment = &objects[&format!("Deployment {name}")];
        assert_eq!(deployment["metadata"]["annotations"], json!({"b": "1"}));
        assert_eq!(deployment["spec"]["replicas"], 7);
        let template = &deployment["spec"]["template"];
        assert_eq!(template["metadata"]["annotations"], json!({"a": "true"}));
        assert_eq!(template["metadata"]["labels"]["team"], "mesh");
        let pod = &template["spec"];
        for key in ["nodeSelector", "tolerations", "affinity"] {
            assert_eq!(pod[key], program[key]);
        }
        assert_eq!(pod["priorityClassName"], "high");
        let container = &pod["containers"][0];
        assert_eq!(container["resources"], program["resources"]);
        assert_eq!(container["imagePullPolicy"], "Always");
        let last = |list: &Value| list.as_array().unwrap().last().unwrap().clone();
        assert_eq!(last(&container["args"]), "--log_output_level=default:debug");
        assert_eq!(last(&container["env"]), json!({"name": "NAME", "value": "1"}));
        let account = &objects[&format!("ServiceAccount {name}")];
        assert_eq!(account["imagePullSecrets"], json!([{"name": "registry"}]));
        assert_eq!(account["metadata"]["annotations"], json!({"c": "2"}));
        let policy = objects[&format!("NetworkPolicy {name}")].to_string();
        assert!(policy.contains(r#""kubernetes.io/metadata.name":"observability""#), "{policy}");
    }
    let entries = &objects["MutatingWebhookConfiguration istio-sidecar-injector"]["webhooks"];
    for entry in entries.as_array().unwrap() {
        assert_eq!(entry["timeoutSeconds"], 9);
        assert_eq!(entry["reinvocationPolicy"], "Never");
    }
}
