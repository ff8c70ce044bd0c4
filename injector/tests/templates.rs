//! Templates of a configuration: in addition to the built-in ones, under aliases, rejected if
//! invalid, and safe from injection through a pod's annotations.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::collections::BTreeMap;

use injector::budget::Budget;
use injector::inject::cluster_state::ClusterFacts;
use injector::inject::{InjectError, InjectionOutcome, Target, inject};
use injector::settings::{Document, Documents, Process, Settings};
use serde_json::{Value, json};

#[test]
fn overlay_of_the_proxy_applies_to_the_native_sidecar() {
    let settings = settings(SPIRE, true);
    let pod = injected(&settings, &pod(&json!({"inject.istio.io/templates": "sidecar,spire"})));
    assert_eq!(names(&pod, "containers"), ["web"]);
    assert_eq!(names(&pod, "initContainers"), ["istio-init", "istio-proxy"]);
    let proxy = &pod["spec"]["initContainers"][1];
    let mounts = proxy["volumeMounts"].as_array().unwrap();
    let socket = mounts.iter().find(|mount| mount["name"] == "workload-socket").unwrap();
    assert_eq!(socket["readOnly"], true);
    assert_eq!(proxy["restartPolicy"], "Always");
    let status = pod["metadata"]["annotations"]["sidecar.istio.io/status"].as_str().unwrap();
    assert!(status.contains(r#""containers":null"#), "{status}");
    assert_eq!(injected(&settings, &pod), pod, "a second injection changes nothing");
}

#[test]
fn overlay_of_the_proxy_applies_to_the_classic_container() {
    let settings = settings(SPIRE, false);
    let pod = injected(&settings, &pod(&json!({"inject.istio.io/templates": "with-spire"})));
    assert_eq!(names(&pod, "containers"), ["web", "istio-proxy"]);
    assert_eq!(names(&pod, "initContainers"), ["istio-init"]);
    assert_eq!(injected(&settings, &pod), pod, "a second injection changes nothing");
}

#[test]
fn template_of_metadata_only_keeps_the_spec() {
    let settings = settings("templates: {mine: \"metadata: {labels: {a: b}}\"}", true);
    let before = pod(&json!({"inject.istio.io/templates": "mine"}));
    let after = injected(&settings, &before);
    assert_eq!(after["metadata"]["labels"]["a"], "b");
    assert_eq!(after["spec"]["containers"], before["spec"]["containers"]);
}

#[test]
fn other_top_level_template_keys_are_ignored() {
    let template = "x-labels: &labels {a: b, containers: [{image: i}]}\nmetadata: {labels: {a: b}}";
    let config = json!({"templates": {"mine": template}}).to_string();
    let settings = settings(&config, true);
    let before = pod(&json!({"inject.istio.io/templates": "mine"}));
    let after = injected(&settings, &before);
    assert_eq!(after["metadata"]["labels"]["a"], "b");
    assert_eq!(after.get("x-labels"), None);
    assert_eq!(injected(&settings, &after), after);
}

#[test]
fn template_with_text_as_spec_is_rejected() {
    for (problem, template) in [
        ("its output is not a pod: spec is a string, not a mapping", "spec: text"),
        ("its output is not a pod: spec is null, not a mapping", "spec: null"),
        (
            "its output is not a pod: metadata.labels is a list, not a mapping",
            "metadata: {labels: [a]}",
        ),
    ] {
        let config = format!("templates: {{mine: \"{template}\"}}");
        let pod = pod(&json!({"inject.istio.io/templates": "mine"}));
        let error = outcome(&settings(&config, true), &pod).unwrap_err().to_string();
        assert_eq!(error, format!("template \"mine\": {problem}"));
    }
}

#[test]
fn template_value_of_the_wrong_type_is_rejected() {
    let config = "templates: {mine: \"spec: {containers: [{name: web, image: {{ true }}}]}\"}";
    let pod = pod(&json!({"inject.istio.io/templates": "mine"}));
    let error = outcome(&settings(config, true), &pod).unwrap_err();
    assert_eq!(error.word(), "template_failed");
    assert_eq!(
        error.to_string(),
        "template \"mine\": its output is not a pod: spec.containers[0] (web).image is true or \
         false, not a string; put it between quotes, as with `| quote`"
    );
}

#[test]
fn invalid_template_rejects_the_configuration() {
    for (template, expected) in [
        (
            "a: 1\\nb: {{ randAlphaNum 5 }}",
            "line 2, column 7: function randAlphaNum is not supported: it is random, and the same pod must get the same result: \"b: {{ randAlphaNum 5 }}\"",
        ),
        (
            "b: {{ qoute 5 }}",
            "line 1, column 7: function qoute not defined; did you mean quote?: \"b: {{ qoute 5 }}\"",
        ),
        ("{{ if }}", "line 1, column 7: missing value for if: \"{{ if }}\""),
    ] {
        let config = format!("templates: {{mine: \"{template}\"}}");
        let error = parse(&config, Process::default()).unwrap_err();
        assert_eq!(error, format!("the ConfigMap: template \"mine\", {expected}"));
    }
}

#[test]
fn failing_template_names_the_position() {
    let config = "templates: {mine: \"a: 1\\nb: {{ fail `on purpose` }}\"}";
    let settings = settings(config, true);
    let error =
        outcome(&settings, &pod(&json!({"inject.istio.io/templates": "mine"}))).unwrap_err();
    assert_eq!(error.word(), "template_failed");
    assert_eq!(error.to_string(), "template \"mine\", line 2, column 7: on purpose");
    let error =
        outcome(&settings, &pod(&json!({"inject.istio.io/templates": "none"}))).unwrap_err();
    assert_eq!(error.word(), "unknown_template");
    let near = json!({"inject.istio.io/templates": "sidcar"});
    let near = outcome(&settings, &pod(&near)).unwrap_err().to_string();
    assert!(near.ends_with("; did you mean sidecar?"), "{near}");
    assert_eq!(
        error.to_string(),
        "requested template \"none\" not found; have gateway, grpc-agent, grpc-simple, mine, sidecar \
         (asked for by annotation inject.istio.io/templates)"
    );
}

#[test]
fn annotation_never_becomes_structure() {
    let text = "a\"\n'b\\: {c}\r\n- d: [e], g #f\u{85}\u{2028}<<: *g\u{F0022}\
                \0\u{7f}\u{9f}\u{fdd0}\u{fffe}\u{ffff}\u{1fffe}\u{FFFFE}\u{10ffff}";
    for sink in [
        "\"{{ $x }}\"",
        "'{{ $x }}'",
        "{{ $x | quote }}",
        "{{ $x | squote }}",
        "{{ printf \"%s\" $x | quote }}",
        "{{ $x | replace \"nothing\" \"here\" | quote }}",
        "{{ trunc 500 $x | trim | quote }}",
        "|-\n      {{ $x }}",
        "{{ toJson $x }}",
        "{{ splitList \",\" $x | join \",\" | quote }}",
        "{{ (fromJson (toJson (dict \"k\" $x))).k | quote }}",
    ] {
        let template = format!(
            "{{{{ $x := index .ObjectMeta.Annotations \"x\" }}}}\nmetadata:\n  annotations:\n    \
             y: {sink}\n    z: end"
        );
        let config = json!({"templates": {"mine": template}}).to_string();
        let annotations = json!({"inject.istio.io/templates": "mine", "x": text});
        let pod = injected(&settings(&config, true), &pod(&annotations));
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!((&annotations["y"], &annotations["z"]), (&json!(text), &json!("end")), "{sink}");
    }
}

#[test]
fn characters_invalid_in_yaml_are_preserved() {
    let odd = "a\u{fffe}\u{ffff}\u{7f}";
    let template = "metadata:\n  annotations:\n    \
                    whole: '{{ toJson .ObjectMeta.Annotations }}'\n    \
                    values: {{ .Values.odd | quote }}\n    \
                    {{ toYaml (dict `own` (index .ObjectMeta.Annotations `odd`)) | indent 4 }}\n\
                    spec:\n  containers:\n  - {{ toYaml (index .Spec.Containers 0) | nindent 4 }}";
    let config = json!({"templates": {"mine": template}}).to_string();
    let values = r#"{"odd": "a\ufffe\uffff\u007f"}"#;
    let documents = Documents {
        inject_config: Some(Document { source: "the ConfigMap", text: &config }),
        values: Some(Document { source: "the values", text: values }),
        ..Documents::default()
    };
    let settings = Settings::parse(&documents, Process::default()).unwrap();
    let mut pod = pod(&json!({"inject.istio.io/templates": "mine", "odd": odd, odd: "1"}));
    pod["spec"]["containers"][0]["args"] = json!([odd]);
    let injected = injected(&settings, &pod);
    let annotations = &injected["metadata"]["annotations"];
    assert_eq!((&annotations["own"], &annotations["values"]), (&json!(odd), &json!(odd)));
    let whole: Value = serde_json::from_str(annotations["whole"].as_str().unwrap()).unwrap();
    assert_eq!(whole, pod["metadata"]["annotations"]);
    assert_eq!(injected["spec"]["containers"][0]["args"], json!([odd]));
}

#[test]
fn container_list_of_istio_template_grows_in_place() {
    // Copied for each container, the list would cost 40 million units.
    let template = "{{- $containers := list }}\n\
        {{- range $index, $container := .Spec.Containers }}{{ if not (eq $container.Name \"istio-proxy\") }}\
        {{ $containers = append $containers $container.Name }}{{ end }}{{- end }}\n\
        metadata:\n  annotations:\n    last: {{ index $containers (sub (len $containers) 1) | quote }}\n    \
        number: {{ len $containers | quote }}";
    let config = json!({"templates": {"mine": template}}).to_string();
    let settings = settings(&config, true);
    let mut pod = pod(&json!({"inject.istio.io/templates": "mine"}));
    let containers = (0..1_000).map(|number| json!({"name": format!("c{number}")}));
    pod["spec"]["containers"] = containers.collect();
    let pod = Budget::new(15_000_000).enter(|| injected(&settings, &pod));
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!((&annotations["last"], &annotations["number"]), (&json!("c999"), &json!("1000")));
}

#[test]
fn quote_placeholder_ends_no_json_string() {
    let hostile = "x\u{F0022},\u{F0022}meshId\u{F0022}:\u{F0022}evil";
    let template = "metadata:\n  annotations:\n    proxy: '{{ protoToJSON .ProxyConfig }}'\n    \
                    read: {{ (fromJSON (index .ObjectMeta.Annotations `json`)).Q | quote }}\n    \
                    yaml: |-\n      {{ toYaml (fromJSON (index .ObjectMeta.Annotations `json`)) | indent 6 }}";
    let config = json!({"templates": {"mine": template}}).to_string();
    let metadata = json!({"Q": hostile}).to_string();
    let annotations = json!({
        "inject.istio.io/templates": "mine",
        "json": metadata,
        "proxy.istio.io/config": json!({"proxyMetadata": {"Q": hostile}}).to_string(),
    });
    let pod = injected(&settings(&config, true), &pod(&annotations));
    let annotations = &pod["metadata"]["annotations"];
    let proxy = annotations["proxy"].as_str().unwrap();
    let proxy: serde_json::Value = serde_json::from_str(proxy).unwrap();
    assert_eq!((&proxy["proxyMetadata"]["Q"], &proxy["meshId"]), (&json!(hostile), &json!(null)));
    assert_eq!(annotations["read"], hostile);
    assert_eq!(annotations["yaml"], format!("Q: {hostile}"));
}

#[test]
fn ambiguous_yaml_key_is_found_by_index() {
    let template = "metadata:\n  annotations:\n    index: {{ index .ObjectMeta.Annotations `on` | quote }}\n    \
                    isset: '{{ isset .ObjectMeta.Annotations `80` }}'\n    \
                    annotation: {{ annotation .ObjectMeta `null` `none` | quote }}\n    \
                    get: {{ get .ObjectMeta.Annotations `y` | quote }}\n    \
                    dig: {{ dig `a: b` `none` (fromJSON (index .ObjectMeta.Annotations `json`)) | quote }}\n    \
                    rest: '{{ keys (omit .ObjectMeta.Annotations `on` `80` `null` `y` `json`) | join `,` }}'";
    let config = json!({"templates": {"mine": template}}).to_string();
    let annotations = json!({
        "inject.istio.io/templates": "mine",
        "80": "2", "json": json!({"a: b": "5"}).to_string(), "null": "3", "on": "1", "y": "4",
    });
    let pod = injected(&settings(&config, true), &pod(&annotations));
    let found = ["index", "isset", "annotation", "get", "dig", "rest"]
        .map(|name| pod["metadata"]["annotations"][name].as_str().unwrap());
    assert_eq!(found, ["1", "true", "3", "4", "5", "inject.istio.io/templates"]);
}

#[test]
fn ambiguous_yaml_key_is_found_after_a_dot() {
    let template = "metadata:\n  annotations:\n    label: {{ .ObjectMeta.Labels.y | quote }}\n    \
                    annotation: {{ $.ObjectMeta.Annotations.on | quote }}\n    \
                    json: {{ (fromJSON (index .ObjectMeta.Annotations `json`)).null.off | quote }}\n    \
                    values: {{ .Values.on.no | quote }}\n    \
                    {{- range $key, $value := .ObjectMeta.Labels }}\n    of-{{ $value }}: {{ if ne $key `y` }}{{ $key }}{{ end }}\n    {{- end }}";
    let config = json!({"templates": {"mine": template}}).to_string();
    let documents = Documents {
        inject_config: Some(Document { source: "the ConfigMap", text: &config }),
        values: Some(Document { source: "the values", text: r#"{"on": {"no": "5"}}"# }),
        ..Documents::default()
    };
    let settings = Settings::parse(&documents, Process::default()).unwrap();
    let json = json!({"null": {"off": "3"}}).to_string();
    let annotations = json!({"inject.istio.io/templates": "mine", "on": "2", "json": json});
    let mut pod = pod(&annotations);
    pod["metadata"]["labels"] = json!({"y": "1", "true": "4"});
    let found = injected(&settings, &pod);
    let found = ["label", "annotation", "json", "values", "of-4"]
        .map(|name| found["metadata"]["annotations"][name].as_str());
    assert_eq!(found, ["1", "2", "3", "5", "true"].map(Some));
}

#[test]
fn rendered_yaml_is_parsed_as_in_go() {
    let template = "metadata:\n  annotations:\n    folded: '{{ .Values.text }}'\n    \
                    port: {{ annotation .ObjectMeta `status.sidecar.istio.io/port` 1 | quote }}\n\
                    spec: {containers: [{name: web, ports: [{containerPort: 8080.0}]}]}";
    let config = json!({"templates": {"mine": template}}).to_string();
    let documents = Documents {
        inject_config: Some(Document { source: "the ConfigMap", text: &config }),
        values: Some(Document { source: "the values", text: r#"{"text": "a\nb: c\nd"}"# }),
        ..Documents::default()
    };
    let settings = Settings::parse(&documents, Process::default()).unwrap();
    let annotations = json!({
        "inject.istio.io/templates": "mine", "status.sidecar.istio.io/port": " 15021 ",
    });
    let pod = injected(&settings, &pod(&annotations));
    assert_eq!(pod["metadata"]["annotations"]["folded"], "a b: c d");
    assert_eq!(pod["metadata"]["annotations"]["port"], "15021");
    let port = &pod["spec"]["containers"][0]["ports"][0]["containerPort"];
    assert_eq!(port.to_string(), "8080");
}

#[test]
fn from_yaml_gives_structure() {
    let template = "metadata:\n  annotations:\n    {{ toYaml (fromYaml (index \
                    .ObjectMeta.Annotations `x`)) | indent 4 }}";
    let config = json!({"templates": {"mine": template}}).to_string();
    let annotations =
        json!({"inject.istio.io/templates": "mine", "x": "{y: 'it''s', z: \"1\\n2\"}"});
    let pod = injected(&settings(&config, true), &pod(&annotations));
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!((&annotations["y"], &annotations["z"]), (&json!("it's"), &json!("1\n2")));
}

#[test]
fn pod_written_as_yaml_has_json_field_names() {
    let template = "metadata:\n  annotations:\n    json: '{{ toJson (index .Spec.Containers 0).Resources }}'\n    \
                    port: '{{ toJSON (index (index .Spec.Containers 0).Ports 0) }}'\n    \
                    own: '{{ toJson (dict `Mine` .Spec.SecurityContext) }}'\n\
                    spec:\n  securityContext:\n    {{ toYaml .Spec.SecurityContext | indent 4 }}\n    \
                    runAsGroup: 9\n";
    let config = json!({"templates": {"mine": template}}).to_string();
    let mut before = pod(&json!({"inject.istio.io/templates": "mine"}));
    before["spec"]["securityContext"] =
        json!({"fsGroup": 7, "runAsUser": 0, "runAsNonRoot": false});
    before["spec"]["containers"][0]["resources"] = json!({"limits": {"CPU": "1"}});
    let pod = injected(&settings(&config, true), &before);
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["json"], r#"{"limits":{"CPU":"1"}}"#);
    assert_eq!(annotations["port"], r#"{"containerPort":80}"#);
    assert_eq!(annotations["own"], r#"{"Mine":{"runAsUser":0,"runAsNonRoot":false,"fsGroup":7}}"#);
    let expected = json!({"fsGroup": 7, "runAsGroup": 9, "runAsUser": 0, "runAsNonRoot": false});
    assert_eq!(pod["spec"]["securityContext"], expected);
}

#[test]
fn last_repeated_key_of_a_template_is_used() {
    let template = "metadata: {annotations: {y: a, y: b}}";
    let config = json!({"templates": {"mine": template}}).to_string();
    let pod =
        injected(&settings(&config, true), &pod(&json!({"inject.istio.io/templates": "mine"})));
    assert_eq!(pod["metadata"]["annotations"]["y"], "b");
}

#[test]
fn template_data_has_go_names() {
    let template = "metadata: {annotations: {y: '{{ range .Spec.Containers }}{{ .Name }} {{ .Image }} \
                    {{ range .Env }}{{ .Name }}={{ .Value }}{{ end }}{{ range .Ports }}{{ .ContainerPort }}\
                    {{ end }}{{ end }}{{ .Spec.HostNetwork }}{{ .Spec.DNSPolicy }}{{ .Spec.ServiceAccountName }} \
                    {{ .DeploymentMeta.Name }} {{ .TypeMeta.Kind }} {{ .ObjectMeta.Labels.app }} \
                    {{ .ProxyConfig.InterceptionMode.String }} {{ .ProxyConfig.InterceptionMode }} \
                    {{ .ProxyConfig.StatusPort }} {{ .ObjectMeta.Namespace }} \
                    {{ .ProxyConfig.GetDiscoveryAddress }} {{ .MeshConfig.TrustDomain }} {{ .Values.global.tag }} \
                    {{ .ProxyUID }} {{ .NativeSidecars }} {{ .InboundTrafficPolicyMode }}'}}";
    let config = json!({"templates": {"mine": template}}).to_string();
    let pod =
        injected(&settings(&config, true), &pod(&json!({"inject.istio.io/templates": "mine"})));
    assert_eq!(
        pod["metadata"]["annotations"]["y"],
        "web app:1 A=b80falsecart web Pod web REDIRECT REDIRECT \
         15020 shop istiod.istio-system.svc:15012 \
         cluster.local 1.28.0 1337 true passthrough"
    );
}

#[test]
fn proxy_ids_come_from_openshift() {
    let process = Process { native_sidecars: true, openshift: true, ..Process::default() };
    let settings = parse("policy: enabled", process).unwrap();
    // `OpenShift` wrote this into both containers before the review.
    let assigned = json!({"runAsUser": 1000, "runAsGroup": 1000});
    let mut pod = pod(&json!({}));
    pod["spec"]["containers"][0]["securityContext"] = assigned.clone();
    let proxy = json!({"name": "istio-proxy", "image": "auto", "securityContext": assigned});
    pod["spec"]["containers"].as_array_mut().unwrap().push(proxy);
    let injected = injected(&settings, &pod);
    assert_eq!(names(&injected, "initContainers"), ["istio-init", "istio-proxy"]);
    let security = &injected["spec"]["initContainers"][1]["securityContext"];
    assert_eq!((&security["runAsUser"], &security["runAsGroup"]), (&json!(1999), &json!(2004)));
}

fn parse(config: &str, process: Process) -> Result<Settings, String> {
    let inject_config = Some(Document { source: "the ConfigMap", text: config });
    let documents = Documents { inject_config, ..Documents::default() };
    Settings::parse(&documents, process).map_err(|error| error.to_string())
}

fn settings(config: &str, native_sidecars: bool) -> Settings {
    parse(config, Process { native_sidecars, ..Process::default() }).unwrap()
}

fn outcome(settings: &Settings, pod: &Value) -> Result<InjectionOutcome, InjectError> {
    let namespace_annotations = BTreeMap::from([
        ("openshift.io/sa.scc.uid-range".to_owned(), "1000/1000".to_owned()),
        ("openshift.io/sa.scc.supplemental-groups".to_owned(), "2000/5,3000/5".to_owned()),
    ]);
    let target = Target {
        cluster: ClusterFacts {
            namespace_annotations: Some(&namespace_annotations),
            ..ClusterFacts::default()
        },
        ..Target::at_admission(pod.clone(), "shop")
    };
    inject(settings, target)
}

fn injected(settings: &Settings, pod: &Value) -> Value {
    match outcome(settings, pod).unwrap() {
        InjectionOutcome::Injected(injection) => injection.pod,
        InjectionOutcome::Skipped { reason, .. } => panic!("{reason}"),
    }
}

fn pod(annotations: &Value) -> Value {
    let container = json!({
        "name": "web", "image": "app:1", "env": [{"name": "A", "value": "b"}], "ports": [{"containerPort": 80}],
    });
    json!({
        "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [container], "serviceAccountName": "cart"},
    })
}

fn names<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    let containers = pod["spec"][list].as_array().unwrap();
    containers.iter().map(|container| container["name"].as_str().unwrap()).collect()
}

const SPIRE: &str = include_str!("../testdata/config/spire.yaml");
