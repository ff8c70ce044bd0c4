//! Settings that Istio does not have, and settings that it interprets differently: one case per
//! behaviour.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use cni::capture_request::{ANNOTATION as CAPTURE, CaptureRequest, NetworkFacts};
use injector::inject::{InjectError, Injection, InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use injector::uninject::{Origin, uninject};
use istio_init::config::host_evidence::HostEvidence;
use reason::Reason;
use serde_json::{Value, json};

#[test]
fn init_container_has_its_own_resources() {
    let values = json!({"outrigger": {"initResources": {"requests": {"cpu": "1m"}}}});
    let pod = injected(&values, &pod(&json!({}), &json!({}))).pod;
    assert_eq!(container(&pod, "istio-init")["resources"], json!({"requests": {"cpu": "1m"}}));
    assert_eq!(container(&pod, "istio-proxy")["resources"]["limits"]["cpu"], "2000m");
}

#[test]
fn annotations_precede_init_resources_of_the_values() {
    let values = json!({"outrigger": {"initResources": {"requests": {"cpu": "1m"}}}});
    let annotations =
        json!({"sidecar.outrigger.io/initMemoryLimit": "8Mi", "sidecar.istio.io/proxyCPU": "5m"});
    let pod = injected(&values, &pod(&annotations, &json!({}))).pod;
    assert_eq!(container(&pod, "istio-init")["resources"], json!({"limits": {"memory": "8Mi"}}));
    assert_eq!(container(&pod, "istio-proxy")["resources"], json!({"requests": {"cpu": "5m"}}));
}

#[test]
fn cpu_limits_can_be_omitted_unless_annotated() {
    let values = json!({"outrigger": {"cpuLimits": "omit"}});
    let plain = injected(&values, &pod(&json!({}), &json!({}))).pod;
    for name in ["istio-init", "istio-proxy"] {
        let limits = &container(&plain, name)["resources"]["limits"];
        assert_eq!(limits, &json!({"memory": "1024Mi"}), "{name}");
    }
    let annotations = json!({"sidecar.istio.io/proxyCPULimit": "1"});
    let asking = injected(&values, &pod(&annotations, &json!({}))).pod;
    assert_eq!(container(&asking, "istio-proxy")["resources"]["limits"]["cpu"], "1");
}

#[test]
fn sidecar_above_pod_resources_gets_a_warning() {
    let spec = json!({"resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "500m"}}});
    let whole = pod(&json!({}), &spec);
    let kept = injected(&json!({}), &whole);
    let words = warnings(&kept);
    assert_eq!(words.len(), 3, "{words:?}");
    assert!(words[0].starts_with("container istio-init has a higher cpu limit"), "{words:?}");
    assert!(words[2].starts_with("the pod's containers request more cpu together"), "{words:?}");
    let omitted = injected(&json!({"outrigger": {"podResources": "omit"}}), &whole);
    assert_eq!(warnings(&omitted), [""; 0]);
    assert_eq!(container(&omitted.pod, "istio-proxy")["resources"], Value::Null);
    let annotations = json!({"sidecar.istio.io/proxyCPU": "10m"});
    let asking =
        injected(&json!({"outrigger": {"podResources": "omit"}}), &pod(&annotations, &spec));
    let own = json!({"requests": {"cpu": "10m"}});
    assert_eq!(container(&asking.pod, "istio-proxy")["resources"], own);
}

#[test]
fn container_with_the_proxy_user_is_reported_or_denied() {
    let of_pod = pod(&json!({}), &json!({"securityContext": {"runAsUser": 1337}}));
    let mut of_container = pod(&json!({}), &json!({}));
    of_container["spec"]["containers"][0]["securityContext"] = json!({"runAsGroup": 1337});
    let user = |value: &str| json!({"outrigger": {"proxyUser": value}});
    for (pod, what) in [(&of_pod, "user"), (&of_container, "group")] {
        let shown = warnings(&injected(&json!({}), pod));
        let start = format!("container web runs as {what} 1337, which is the proxy's");
        assert!(shown.len() == 1 && shown[0].starts_with(&start), "{shown:?}");
        assert_eq!(warnings(&injected(&user("allow"), pod)), [""; 0]);
        let refused = outcome(&user("deny"), pod, "").unwrap_err();
        assert_eq!(refused.word(), "proxy_user");
        assert!(refused.to_string().contains(&start), "{refused}");
    }
    // The container's own user takes precedence over the pod's.
    let mut other = of_pod;
    other["spec"]["containers"][0]["securityContext"] = json!({"runAsUser": 1000});
    assert_eq!(warnings(&injected(&json!({}), &other)), [""; 0]);
    // Without capture there is no warning.
    let annotations = json!({"inject.istio.io/templates": "gateway"});
    let gateway = pod(&annotations, &json!({"securityContext": {"runAsUser": 1337}}));
    assert_eq!(warnings(&injected(&user("deny"), &gateway)), [""; 0]);
}

#[test]
fn pod_revision_label_decides_if_the_setting_says_so() {
    let own = json!({"outrigger": {"podRevision": "own", "revisionTags": ["prod"]}});
    let labelled = |revision: &str| {
        let mut pod = pod(&json!({}), &json!({}));
        pod["metadata"]["labels"]["istio.io/rev"] = revision.into();
        pod
    };
    for (values, revision, skipped) in [
        (&own, "canary", false),
        (&own, "prod", false),
        (&own, "stable", true),
        (&own, "", false),
        (&json!({}), "stable", false),
    ] {
        match outcome(values, &labelled(revision), "canary").unwrap() {
            InjectionOutcome::Injected(_) => assert!(!skipped, "{revision}"),
            InjectionOutcome::Skipped { reason, .. } => {
                assert!(skipped, "{revision}");
                assert_eq!(reason.word(), "other_revision");
            }
        }
    }
}

#[test]
fn capture_excludes_the_user_supplied_proxy_user() {
    let mut pod = pod(&json!({"sidecar.istio.io/interceptionMode": "TPROXY"}), &json!({}));
    let proxy = json!({"name": "istio-proxy", "image": "auto",
        "securityContext": {"runAsUser": 1234, "runAsGroup": 4321}});
    pod["spec"]["containers"].as_array_mut().unwrap().push(proxy);
    let pod = injected(&json!({}), &pod).pod;
    let args = container(&pod, "istio-init")["args"].as_array().unwrap().clone();
    let user = args.iter().position(|arg| arg == "-u").unwrap();
    assert_eq!(args[user + 1], "1234");
    let security = &container(&pod, "istio-proxy")["securityContext"];
    assert_eq!((&security["runAsUser"], &security["runAsGroup"]), (&json!(0), &json!(4321)));
}

#[test]
fn non_boolean_scrape_annotation_has_no_effect() {
    for (value, merged) in [("true", true), ("maybe", true), ("false", false), ("0", false)] {
        let annotations = json!({"prometheus.io/scrape": value, "prometheus.io/port": "8080"});
        let pod = injected(&json!({}), &pod(&annotations, &json!({}))).pod;
        let port = &pod["metadata"]["annotations"]["prometheus.io/port"];
        assert_eq!(port == "15020", merged, "{value}");
    }
}

#[test]
fn invalid_annotations_deny_the_pod_by_name() {
    for (key, value) in [
        ("prometheus.istio.io/merge-metrics", "maybe"),
        ("proxy.istio.io/overrides", r#"{"containers": 5}"#),
        ("readiness.status.sidecar.istio.io/periodSeconds", "2147483648"),
        ("readiness.status.sidecar.istio.io/periodSeconds", "-1"),
        ("sidecar.istio.io/interceptionMode", "tproxy"),
        ("sidecar.istio.io/proxyCPU", "-100m"),
        ("sidecar.istio.io/userVolume", r#"{"v": 5}"#),
        ("status.sidecar.istio.io/port", "65536"),
        ("traffic.sidecar.istio.io/excludeInboundPorts", "80,,81"),
        ("traffic.sidecar.istio.io/excludeOutboundIPRanges", "10.0.0.0/8,"),
        ("traffic.sidecar.istio.io/includeOutboundPorts", "80\"\n    - \"--x"),
    ] {
        let error = outcome(&json!({}), &pod(&json!({key: value}), &json!({})), "").unwrap_err();
        assert_eq!(error.word(), "bad_annotation");
        assert!(error.to_string().contains(key), "{error}");
    }
    // Istio does not check this list, and `istio-init` skips empty items.
    let sparse = json!({"traffic.sidecar.istio.io/includeOutboundPorts": "80,,81,"});
    injected(&json!({}), &pod(&sparse, &json!({})));
}

#[test]
fn invalid_selector_leaves_the_others_in_force() {
    let config = "policy: enabled\nneverInjectSelector:\n\
                  - matchExpressions: [{key: app, operator: Is, values: [web]}]\n\
                  - matchLabels: {app: 'not a value!'}\n\
                  - matchLabels: {app: web}";
    let config = Some(Document { source: "the ConfigMap", text: config });
    let documents = Documents { inject_config: config, ..Documents::default() };
    let settings = Settings::parse(&documents, Process::default()).unwrap();
    let pod = pod(&json!({}), &json!({}));
    let InjectionOutcome::Skipped { reason, .. } = inject(&settings, target(&pod)).unwrap() else {
        panic!("the last selector matches");
    };
    assert_eq!(reason.word(), "never_inject_selector");
}

#[test]
fn all_errors_are_reported_together() {
    let annotations = json!({
        "sidecar.istio.io/proxyCPU": "3x", "prometheus.io/port": "15090",
        "inject.istio.io/templates": "sidcar",
    });
    let error = outcome(&json!({}), &pod(&annotations, &json!({})), "").unwrap_err().to_string();
    for part in [
        "annotation sidecar.istio.io/proxyCPU: \"3x\"",
        "annotation prometheus.io/port: \"15090\" is a port of the proxy (Envoy's own metrics)",
        "annotation inject.istio.io/templates: \"sidcar\" requested template",
        "did you mean sidecar?",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn values_kubernetes_rejects_name_their_annotation() {
    let warned = |annotations: Value, spec: &Value| {
        warnings(&injected(&json!({}), &pod(&annotations, spec))).join("\n")
    };
    let mount = || json!({"sidecar.istio.io/userVolumeMount": r#"{"v":{"mountPath":"/v"}}"#});
    let missing = warned(mount(), &json!({}));
    assert!(missing.contains("userVolumeMount of the pod names volume \"v\""), "{missing}");
    let brought = warned(mount(), &json!({"volumes": [{"name": "v"}]}));
    assert!(!brought.contains("userVolumeMount"), "{brought}");
    let request = json!({
        "sidecar.istio.io/proxyCPU": "3", "sidecar.istio.io/proxyCPULimit": "2000m",
    });
    let request = warned(request, &json!({}));
    assert!(request.contains("proxyCPU of the pod is \"3\", above the limit"), "{request}");
}

#[test]
fn annotation_json_errors_name_the_path() {
    let (volume, mount) = ("sidecar.istio.io/userVolume", "sidecar.istio.io/userVolumeMount");
    let overrides = "proxy.istio.io/overrides";
    for (key, value, problem) in [
        (volume, r#"{"v":{"emptyDir":5}}"#, "v.emptyDir is a number, not a mapping"),
        (
            volume,
            r#"{"v":{"secret":{"secretName":5}}}"#,
            "v.secret.secretName is a number, not a string; put it between quotes",
        ),
        (
            volume,
            r#"{"v":{"emptyDir":{},"hostPath":{"path":"/"}}}"#,
            "v has several sources: emptyDir, hostPath",
        ),
        (
            volume,
            r#"[{"name":"filters","comfigMap":{"name":"filters"}}]"#,
            "[0] has the unknown field comfigMap; did you mean configMap?",
        ),
        (volume, r#"{"v":{"name":"w"}}"#, "v has no source, such as configMap or emptyDir"),
        (
            mount,
            r#"{"v":{"mountPath":"/x","redonly":true}}"#,
            "v has the unknown field redonly; did you mean readOnly?",
        ),
        (
            mount,
            r#"{"v":{"mountPath":"/x","readOnly":"yes"}}"#,
            "v.readOnly is a string, not true or false; leave the quotes out",
        ),
        (
            overrides,
            r#"{"containers":[{"name":"istio-proxy","env":"x"}]}"#,
            "containers[0] (istio-proxy).env is a string, not a list",
        ),
        (
            overrides,
            r#"{"initContainers":[{"name":"istio-init","image":5}]}"#,
            "initContainers[0] (istio-init).image is a number, not a string; put it between quotes",
        ),
    ] {
        let error = outcome(&json!({}), &pod(&json!({key: value}), &json!({})), "").unwrap_err();
        assert_eq!(error.word(), "bad_annotation");
        let error = error.to_string();
        assert!(error.starts_with(&format!("annotation {key}: ")), "{error}");
        assert!(error.ends_with(problem), "{error}");
    }
}

#[test]
fn container_too_large_for_the_record_is_denied() {
    let own = json!([{"name": "web", "image": "web:1"}, {"name": "istio-proxy", "env": "x"}]);
    let error = outcome(&json!({}), &pod(&json!({}), &json!({"containers": own})), "").unwrap_err();
    let expected = "pod: container istio-proxy.env is a string, not a list";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn field_of_a_later_kubernetes_version_gets_a_warning() {
    let volumes = r#"[{"name":"v","configMap":{"name":"c","ofALaterVersion":1}}]"#;
    let injection =
        injected(&json!({}), &pod(&json!({"sidecar.istio.io/userVolume": volumes}), &json!({})));
    let shown = warnings(&injection);
    let start = "annotation sidecar.istio.io/userVolume of the pod has the unknown field \
                 [0].configMap.ofALaterVersion (unknown_field)";
    assert!(shown.len() == 1 && shown[0].starts_with(start), "{shown:?}");
}

#[test]
fn merge_directive_in_an_annotation_is_rejected() {
    for (key, value, directive) in [
        ("userVolume", r#"{"v":{"$patch":"replace","emptyDir":{}}}"#, "$patch"),
        ("userVolume", r#"{"mine":{"$patch":"delete"}}"#, "$patch"),
        ("userVolume", r#"{"v":{"$retainKeys":["name"],"emptyDir":{}}}"#, "$retainKeys"),
        (
            "userVolume",
            r#"{"v":{"projected":{"sources":[{"secret":{"$setElementOrder/items":[]}}]}}}"#,
            "$setElementOrder/items",
        ),
        (
            "userVolumeMount",
            r#"{"v":{"mountPath":"/v","$deleteFromPrimitiveList/x":["a"]}}"#,
            "$deleteFromPrimitiveList/x",
        ),
        ("userVolumeMount", r#"{"v":{"mountPath":"/v","$patch":"delete"}}"#, "$patch"),
    ] {
        let annotations = json!({format!("sidecar.istio.io/{key}"): value});
        let error = outcome(&json!({}), &pod(&annotations, &json!({})), "").unwrap_err();
        assert_eq!(error.word(), "bad_annotation");
        assert!(error.to_string().contains(&format!("the merge directive {directive}")), "{error}");
    }
}

#[test]
fn network_invalid_as_a_label_is_only_set_on_the_proxy() {
    let injection =
        injected(&json!({"global": {"network": "vpc/1"}}), &pod(&json!({}), &json!({})));
    assert_eq!(injection.pod["metadata"]["labels"]["topology.istio.io/network"], Value::Null);
    let shown = warnings(&injection);
    assert!(shown[0].starts_with("network \"vpc/1\" is not a valid label value"), "{shown:?}");
}

#[test]
fn invalid_variable_name_is_rejected() {
    for (key, value, name) in [
        ("proxy.istio.io/config", "proxyMetadata: {'A=B': x}", "A=B"),
        ("proxy.istio.io/config", "proxyMetadata: {'': x}", ""),
        ("apm.datadoghq.com/env", r#"{"\u00fc":"x"}"#, "u00fc"),
    ] {
        let annotations = json!({key: value});
        let values = json!({"global": {"proxy": {"tracer": "datadog"}}});
        let error = outcome(&values, &pod(&annotations, &json!({})), "").unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(name), "{error}");
    }
}

#[test]
fn blanks_around_the_status_port_are_ignored() {
    let pod =
        injected(&json!({}), &pod(&json!({"status.sidecar.istio.io/port": " 15022 "}), &json!({})))
            .pod;
    let drain = &container(&pod, "istio-proxy")["lifecycle"]["preStop"]["exec"]["command"];
    assert_eq!(drain[2], "--debug-port=15022");
}

#[test]
fn long_values_are_cut_in_messages() {
    for (key, value) in [
        ("sidecar.istio.io/proxyCPU", "x".repeat(100_000)),
        ("inject.istio.io/templates", "x".repeat(100_000)),
        ("traffic.sidecar.istio.io/includeInboundPorts", format!("80,{}", "x".repeat(100_000))),
        ("proxy.istio.io/config", format!("statusPort: {}", "x".repeat(100_000))),
    ] {
        let annotations = json!({key: value});
        let error =
            outcome(&json!({}), &pod(&annotations, &json!({})), "").unwrap_err().to_string();
        assert!(error.len() < 2000 && error.contains(key), "{} bytes", error.len());
    }
}

#[test]
fn long_template_list_is_rejected() {
    let annotations = json!({"inject.istio.io/templates": "sidecar,".repeat(30_000)});
    let error = outcome(&json!({}), &pod(&annotations, &json!({})), "").unwrap_err().to_string();
    assert!(error.contains("is not a list of at most 32 templates"), "{error}");
}

#[test]
fn windows_pod_is_skipped() {
    let pod = pod(&json!({}), &json!({"os": {"name": "windows"}}));
    let InjectionOutcome::Skipped { reason, .. } = outcome(&json!({}), &pod, "").unwrap() else {
        panic!("Kubernetes refuses users and capabilities there");
    };
    assert_eq!(reason.word(), "windows");
}

#[test]
fn proxy_metadata_converted_by_yaml_gets_a_warning() {
    for (written, text) in [
        ("010", Some("8")),
        ("1.50", Some("1.5")),
        ("yes", Some("true")),
        ("'010'", None),
        ("word", None),
    ] {
        let config = format!("proxyMetadata: {{A: {written}}}");
        let injection =
            injected(&json!({}), &pod(&json!({"proxy.istio.io/config": config}), &json!({})));
        let shown: Vec<_> = injection
            .warnings
            .iter()
            .filter(|warning| warning.word() == "no_text_in_proxy_metadata")
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown.len(), usize::from(text.is_some()), "{written}: {shown:?}");
        if let Some(text) = text {
            let env = container(&injection.pod, "istio-proxy")["env"].as_array().unwrap();
            assert!(env.contains(&json!({"name": "A", "value": text})), "{env:?}");
            assert!(shown[0].contains("proxyMetadata.A is "), "{shown:?}");
            assert!(shown[0].contains(&format!("the text {text:?} is used")), "{shown:?}");
        }
    }
}

#[test]
fn undefined_template_names_who_requested_it() {
    let asked = json!({"inject.istio.io/templates": "a"});
    for (config, annotations, requested_by) in [
        ("defaultTemplates: [nope]", json!({}), "defaultTemplates of the configuration"),
        (
            "{defaultTemplates: [a], aliases: {a: [nope]}}",
            json!({}),
            "alias \"a\" of the configuration",
        ),
        ("aliases: {a: [sidecar, nope]}", asked, "alias \"a\" of the configuration"),
        (
            "aliases: {a: [nope]}",
            json!({"inject.istio.io/templates": "nope"}),
            "annotation inject.istio.io/templates",
        ),
    ] {
        let document = Some(Document { source: "the ConfigMap", text: config });
        let documents = Documents { inject_config: document, ..Documents::default() };
        let settings = Settings::parse(&documents, Process::default()).unwrap();
        let shown =
            settings.notices.iter().filter(|notice| notice.problem.contains("is not a template"));
        assert_eq!(shown.count(), 1, "{config}: {:?}", settings.notices);
        let error = inject(&settings, target(&pod(&annotations, &json!({})))).unwrap_err();
        assert_eq!(error.word(), "unknown_template");
        let of_pod = requested_by.starts_with("annotation");
        assert_eq!(error.without_values().contains("annotation"), of_pod, "{error}");
        assert!(error.to_string().ends_with(&format!("(asked for by {requested_by})")), "{error}");
    }
}

#[test]
fn misspelt_labels_and_annotations_get_a_warning() {
    let mut pod = pod(&json!({"sidecar.istio.io/proxyCpu": "1"}), &json!({}));
    pod["metadata"]["labels"]["sidecar.istio.io/injct"] = "true".into();
    let shown = warnings(&injected(&json!({}), &pod));
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].ends_with("hint: did you mean sidecar.istio.io/inject?"), "{shown:?}");
    assert!(shown[1].ends_with("hint: did you mean sidecar.istio.io/proxyCPU?"), "{shown:?}");
}

#[test]
fn annotation_without_effect_gets_a_warning() {
    let (traffic, own) = ("traffic.sidecar.istio.io/", "sidecar.istio.io/");
    let key = |domain: &str, name: &str| format!("{domain}{name}");
    let listed = || (key(traffic, "includeOutboundIPRanges"), "10.0.0.0/8");
    for (annotations, ineffective) in [
        (vec![(key(traffic, "includeOutboundPorts"), "5432")], Some("includeOutboundPorts")),
        (vec![(key(traffic, "includeOutboundPorts"), "")], None),
        (vec![(key(traffic, "includeOutboundPorts"), "5432"), listed()], None),
        (vec![(key(traffic, "excludeInboundPorts"), "80")], None),
        (
            vec![
                (key(traffic, "excludeInboundPorts"), "80"),
                (key(traffic, "includeInboundPorts"), "80,81"),
            ],
            Some("excludeInboundPorts"),
        ),
        (vec![(key(own, "interceptionMode"), "NONE"), listed()], Some("includeOutboundIPRanges")),
        (vec![(key(own, "proxyImage"), "mine")], Some("proxyImage")),
        (vec![(key(own, "proxyImage"), "a/mine")], None),
        (
            vec![(key(own, "proxyImage"), "a/mine"), (key(own, "proxyImageType"), "debug")],
            Some("proxyImageType"),
        ),
        (
            vec![
                (key(traffic, "kubevirtInterfaces"), "net1"),
                ("istio.io/reroute-virtual-interfaces".to_owned(), "net1"),
            ],
            Some("kubevirtInterfaces"),
        ),
        (
            vec![
                (key("status.", &key(own, "port")), "0"),
                (key("readiness.status.", &key(own, "periodSeconds")), "3"),
            ],
            Some("periodSeconds"),
        ),
        (vec![("apm.datadoghq.com/env".to_owned(), "{}")], Some("apm.datadoghq.com/env")),
        (vec![("policy.istio.io/check".to_owned(), "enable")], Some("policy.istio.io/check")),
        (vec![(key(own, "enableCoreDump"), "true")], Some("enableCoreDump")),
    ] {
        let annotations: serde_json::Map<_, _> =
            annotations.into_iter().map(|(key, value)| (key, value.into())).collect();
        let injection = injected(&json!({}), &pod(&annotations.clone().into(), &json!({})));
        let found: Vec<_> = injection
            .warnings
            .iter()
            .map(|warning| (warning.word(), warning.message().split(' ').nth(1).unwrap()))
            .collect();
        match ineffective {
            None => assert_eq!(found, [], "{annotations:?}"),
            Some(name) => {
                assert_eq!(found.len(), 1, "{annotations:?}: {found:?}");
                assert!(found[0].0 == "no_effect" && found[0].1.ends_with(name), "{found:?}");
            }
        }
        let again = injected(&json!({}), &injection.pod);
        assert_eq!(warnings(&again), [""; 0]);
    }
}

#[test]
fn skipped_pod_gets_warnings_about_misspelt_keys() {
    let off = Some(Document { source: "the ConfigMap", text: "policy: disabled" });
    let documents = Documents { inject_config: off, ..Documents::default() };
    let settings = Settings::parse(&documents, Process::default()).unwrap();
    for (list, key, value, hint) in [
        ("labels", "sidecar.istio.io/injct", "true", "did you mean sidecar.istio.io/inject?"),
        ("annotations", "istio.io/inject", "true", "did you mean sidecar.istio.io/inject?"),
        ("labels", "sidecar.istio.io/inject", "yes", "use \"true\" or \"false\""),
        ("labels", "app.example/injct", "true", ""),
    ] {
        let mut pod = pod(&json!({}), &json!({}));
        pod["metadata"][list][key] = value.into();
        let InjectionOutcome::Skipped { reason, warnings } =
            inject(&settings, target(&pod)).unwrap()
        else {
            panic!("the policy says no");
        };
        assert_eq!(reason.word(), "policy_disabled");
        let hints: Vec<_> = warnings.iter().filter_map(Reason::hint).collect();
        let expected: &[&str] = if hint.is_empty() { &[] } else { &[hint] };
        assert_eq!(hints, expected, "{list} {key}");
    }
}

#[test]
fn containers_changed_by_reinjection_are_recorded() {
    let spec = json!({"containers": [{"name": "web", "image": "web:1"},
        {"name": "side", "image": "side:1", "ports": [{"containerPort": 80}]}]});
    let plain = pod(&json!({}), &spec);
    let mut own_proxy = plain.clone();
    let proxy = json!({"name": "istio-proxy", "image": "auto", "args": ["mine"]});
    own_proxy["spec"]["containers"].as_array_mut().unwrap().push(proxy);
    for (templates, plain) in ["grpc-simple", "grpc-agent", "sidecar,grpc-agent"]
        .into_iter()
        .flat_map(|templates| [(templates, &plain), (templates, &own_proxy)])
    {
        let first = injected(&json!({}), plain).pod;
        let record = |pod: &Value| -> Value {
            let record = pod["metadata"]["annotations"]["proxy.istio.io/overrides"].as_str();
            serde_json::from_str(record.unwrap_or("{}")).unwrap()
        };
        let mut other = first.clone();
        other["metadata"]["annotations"]["inject.istio.io/templates"] = templates.into();
        // The result of a further injection is the same: `injected` checks that.
        let second = injected(&json!({}), &other).pod;
        let recorded = record(&second)["containers"].clone();
        let names: Vec<_> =
            recorded.as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["web", "side"], "{templates}");
        assert_eq!(recorded[1]["ports"], json!([{"containerPort": 80}]), "{templates}");
        assert_eq!(record(&second)["initContainers"], record(&first)["initContainers"]);
        let present = second["spec"]["containers"].as_array().unwrap().iter();
        let present: Vec<_> = present.map(|container| container["image"].clone()).collect();
        assert_eq!(present[..2], ["web:1", "side:1"], "{templates}");

        // A pod that Istio, or an earlier version, changed without a record.
        if templates == "grpc-simple" && names.len() == present.len() {
            let mut unrecorded = second;
            let annotations = unrecorded["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove("proxy.istio.io/overrides");
            assert_eq!(injected(&json!({}), &unrecorded).pod, unrecorded);
        }
    }
}

#[test]
fn user_supplied_native_sidecar_keeps_its_place() {
    for templates in ["grpc-simple", "sidecar", "grpc-agent"] {
        let annotations = json!({"inject.istio.io/templates": templates});
        let proxy = json!({"name": "istio-proxy", "image": "mine:1", "restartPolicy": "Always"});
        let spec = json!({"containers": [{"name": "web", "image": "web:1"}, proxy]});
        injected(&json!({}), &pod(&annotations, &spec));
    }
}

#[test]
fn name_that_is_no_text_is_rejected() {
    for (spec, expected) in [
        (
            json!({"containers": [{"name": "a"}, {"name": true}]}),
            "spec.containers.1.name is a boolean",
        ),
        (
            json!({"containers": [{"name": "a"}], "volumes": [{"name": 5}]}),
            "spec.volumes.0.name is a number",
        ),
    ] {
        let error = outcome(&json!({}), &pod(&json!({}), &spec), "").unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("put it in quotes"), "{error}");
    }
}

#[test]
fn sysctls_that_a_template_replaces_are_named() {
    let gateway = json!({"inject.istio.io/templates": "gateway"});
    let with = |name: &str| {
        let sysctls = json!([{"name": name, "value": "0"}]);
        let spec = json!({"containers": [{"name": "istio-proxy", "image": "auto"}],
            "securityContext": {"sysctls": sysctls}});
        warnings(&injected(&json!({}), &pod(&gateway, &spec)))
    };
    let replaced = with("net.core.somaxconn");
    assert!(replaced.iter().any(|one| one.contains("template gateway")), "{replaced:?}");
    assert_eq!(with("net.ipv4.ip_unprivileged_port_start"), [""; 0]);
}

#[test]
fn items_without_a_name_stay_for_the_api_server_to_reject() {
    for (list, items) in [
        ("volumes", json!([{"nme": "data", "emptyDir": {}}])),
        ("volumes", json!([{"emptyDir": {}}, {"secret": {"secretName": "s"}}])),
        ("initContainers", json!([{"image": "c"}, {"image": "d"}])),
    ] {
        let after = injected(&json!({}), &pod(&json!({}), &json!({ list: items }))).pod;
        let kept = after["spec"][list].as_array().unwrap();
        for item in items.as_array().unwrap() {
            assert!(kept.contains(item), "{list}: {item}: {kept:?}");
        }
    }
}

#[test]
fn capture_request_is_what_the_validation_container_checks() {
    let values =
        json!({"pilot": {"cni": {"enabled": true}}, "outrigger": {"captureRequest": "write"}});
    let annotations = json!({
        "traffic.sidecar.istio.io/excludeOutboundPorts": "5432",
        "proxy.istio.io/config": "proxyMetadata: {ISTIO_META_DNS_CAPTURE: 'true'}",
        CAPTURE: "of the user",
    });
    // A user's fields of the container are in effect, and so in the request.
    let own = json!({"name": "istio-validation", "image": "auto", "env": [
        {"name": "INVALID_DROP", "value": "true"},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]});
    let before = pod(&annotations, &json!({"initContainers": [own]}));
    let after = injected(&values, &before).pod;
    let text = after["metadata"]["annotations"][CAPTURE].as_str().unwrap();
    let request = CaptureRequest::parse(text).unwrap();
    assert_eq!(json!(request.args), container(&after, "istio-validation")["args"]);
    let variables: Vec<_> = request.env.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(variables, [("INVALID_DROP", "true"), ("ISTIO_META_DNS_CAPTURE", "true")]);
    request.plan(&facts()).unwrap();
}

#[test]
fn capture_request_is_written_for_a_plugin_alone() {
    let values = |enabled, request: &str| json!({"pilot": {"cni": {"enabled": enabled}}, "outrigger": {"captureRequest": request}});
    for (values, mode, expected) in [
        (values(true, "write"), "REDIRECT", (true, true)),
        (values(true, "write"), "TPROXY", (true, true)),
        // Istio's plugin fails for a pod without capture that has these annotations.
        (values(true, "write"), "NONE", (false, false)),
        (values(true, "omit"), "NONE", (false, true)),
        (values(true, "omit"), "REDIRECT", (false, true)),
        (values(false, "write"), "REDIRECT", (false, false)),
        (json!({"pilot": {"cni": {"enabled": true}}}), "REDIRECT", (false, true)),
    ] {
        let annotations = json!({"sidecar.istio.io/interceptionMode": mode});
        let after = injected(&values, &pod(&annotations, &json!({}))).pod;
        let annotations = &after["metadata"]["annotations"];
        let has = |key: &str| annotations.get(key).is_some();
        let found = (has(CAPTURE), has("traffic.sidecar.istio.io/includeInboundPorts"));
        assert_eq!(found, expected, "{values} {mode}");
    }
}

#[test]
fn init_container_of_the_user_with_the_name_of_the_other_mode_stays() {
    for (enabled, name) in [(false, "istio-validation"), (true, "istio-init")] {
        let values = json!({"pilot": {"cni": {"enabled": enabled}}});
        let before = pod(&json!({}), &json!({"initContainers": [{"name": name, "image": "q"}]}));
        let after = injected(&values, &before).pod;
        let back = uninject(&after, &Origin::from_pod(&after)).unwrap().unwrap().pod;
        assert_eq!(back["spec"], before["spec"], "{name}");
    }
}

#[test]
fn capture_request_goes_with_the_capture_and_with_the_injection() {
    let values =
        json!({"pilot": {"cni": {"enabled": true}}, "outrigger": {"captureRequest": "write"}});
    let first = injected(&values, &pod(&json!({}), &json!({}))).pod;
    let back = uninject(&first, &Origin::from_pod(&first)).unwrap().unwrap().pod;
    assert_eq!(back["metadata"]["annotations"].get(CAPTURE), None);

    // A stored pod keeps its init containers.
    let mut other = first;
    other["spec"]["initContainers"] = json!([]);
    other["metadata"]["annotations"]["sidecar.istio.io/interceptionMode"] = "NONE".into();
    let second = injected(&values, &other).pod;
    assert_eq!(second["metadata"]["annotations"].get(CAPTURE), None);
}

#[test]
fn plan_of_the_plugin_is_that_of_the_init_container() {
    let with_plugin =
        json!({"pilot": {"cni": {"enabled": true}}, "outrigger": {"captureRequest": "write"}});
    let of_traffic = |name: &str, value: &str| {
        let annotation = format!("traffic.sidecar.istio.io/{name}");
        json!({annotation: value})
    };
    let metadata = |text: &str| json!({"proxy.istio.io/config": format!("proxyMetadata: {text}")});
    for annotations in [
        json!({}),
        of_traffic("includeOutboundIPRanges", "10.0.0.0/8,fd00::/8"),
        of_traffic("excludeOutboundIPRanges", "10.1.0.0/16"),
        of_traffic("includeInboundPorts", "80,8443"),
        of_traffic("includeInboundPorts", ""),
        of_traffic("excludeInboundPorts", "22,9000"),
        of_traffic("includeOutboundPorts", "443"),
        of_traffic("excludeOutboundPorts", "3306,5432"),
        of_traffic("excludeInterfaces", "net1,net2"),
        of_traffic("kubevirtInterfaces", "net1"),
        json!({"istio.io/reroute-virtual-interfaces": "net1"}),
        json!({"sidecar.istio.io/interceptionMode": "TPROXY"}),
        json!({"status.sidecar.istio.io/port": "0"}),
        json!({"status.sidecar.istio.io/port": "16000"}),
        metadata("{ISTIO_META_DNS_CAPTURE: 'true'}"),
        metadata("{ISTIO_DUAL_STACK: 'true'}"),
        metadata("{INVALID_DROP: 'true'}"),
        metadata("{ISTIO_OUTBOUND_OWNER_GROUPS: '0,1000'}"),
        metadata("{ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE: '101'}"),
        metadata("{DISABLE_REDIRECTION_ON_LOCAL_LOOPBACK: 'true'}"),
        json!({"proxy.istio.io/config": "{proxyListenPort: 16001, proxyInboundListenPort: 16006}"}),
    ] {
        let pod = pod(&annotations, &json!({}));
        let own = injected(&json!({}), &pod).pod;
        let own = container(&own, "istio-init");
        let env = own["env"].as_array().into_iter().flatten();
        let env: serde_json::Map<_, _> = env
            .filter(|variable| variable.get("valueFrom").is_none())
            .map(|it| (it["name"].as_str().unwrap().to_owned(), it["value"].clone()))
            .collect();
        let own = json!({"args": own["args"], "env": env}).to_string();
        let captured = injected(&with_plugin, &pod).pod;
        let request = captured["metadata"]["annotations"][CAPTURE].as_str().unwrap();
        let plan = |request: &str| CaptureRequest::parse(request).unwrap().plan(&facts()).unwrap();
        assert_eq!(plan(request), plan(&own), "{annotations}");
    }
}

fn facts() -> NetworkFacts {
    NetworkFacts {
        addresses: vec!["10.0.0.7".parse().unwrap()],
        name_servers: None,
        host: Ok(HostEvidence::default()),
    }
}

fn injected(values: &Value, pod: &Value) -> Injection {
    match outcome(values, pod, "").unwrap() {
        InjectionOutcome::Injected(injection) => {
            let InjectionOutcome::Injected(again) = outcome(values, &injection.pod, "").unwrap()
            else {
                panic!("not injected again");
            };
            assert!(again.patch().is_empty(), "a second injection: {:?}", again.patch());
            *injection
        }
        InjectionOutcome::Skipped { reason, .. } => panic!("{reason}"),
    }
}

fn outcome(values: &Value, pod: &Value, revision: &str) -> Result<InjectionOutcome, InjectError> {
    let values = values.to_string();
    let values = Some(Document { source: "the values", text: &values });
    let documents = Documents { values, ..Documents::default() };
    let revision = revision.to_owned();
    let process = Process { native_sidecars: true, revision, ..Process::default() };
    inject(&Settings::parse(&documents, process).unwrap(), target(pod))
}

fn target(pod: &Value) -> Target<'static> {
    Target::at_admission(pod.clone(), "shop")
}

fn pod(annotations: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let lists = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
    lists.into_iter().flatten().flatten().find(|container| container["name"] == name).unwrap()
}

fn warnings(injection: &Injection) -> Vec<String> {
    injection.warnings.iter().map(ToString::to_string).collect()
}
