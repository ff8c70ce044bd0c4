//! Reports on pods, with the webhook configuration of our own manifests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use documents::yaml;
use injector::inject::{InjectionOutcome, Target, inject};
use injector::kubernetes::webhook_configuration::HookConfiguration;
use injector::report::explanation::explain;
use injector::report::inspection::{Answer, Injector, Injectors};
use injector::report::sidecar_state::SidecarState;
use injector::report::tally::{Counts, OTHERS, Tally};
use injector::settings::proxy_configs::{Origin, ProxyConfigResource, ProxyConfigs};
use injector::settings::{Document, Documents, Process, Settings};
use serde_json::{Value, json};

#[test]
fn reasons_begin_with_istios_words() {
    let fixture = Fixture::new(&[("default", ""), ("canary", "")]);
    let mut report = String::new();
    for (namespace, labels, pod) in [
        ("enabled", json!({"istio-injection": "enabled"}), pod(&json!({}))),
        ("disabled", json!({"istio-injection": "disabled"}), pod(&json!({}))),
        ("revision", json!({"istio.io/rev": "canary"}), pod(&json!({}))),
        ("nothing", json!({}), pod(&json!({}))),
        ("nothing", json!({}), pod(&json!({"sidecar.istio.io/inject": "true"}))),
        ("nothing", json!({}), pod(&json!({"istio.io/rev": "canary"}))),
        (
            "enabled",
            json!({"istio-injection": "enabled"}),
            pod(&json!({"sidecar.istio.io/inject": "false"})),
        ),
        ("istio-system", json!({"istio-injection": "enabled"}), pod(&json!({}))),
        ("enabled", json!({"istio-injection": "enabled"}), on_the_nodes_network()),
        ("enabled", json!({"istio-injection": "enabled"}), mirror()),
        ("enabled", json!({"istio-injection": "enabled"}), with_a_wrong_annotation()),
    ] {
        writeln!(report, "namespace {labels}, pod {}", pod["metadata"]["labels"]).unwrap();
        for one in explain(&fixture.injectors(), &Fixture::labelled(namespace, &labels), &pod) {
            let mark = if one.injected { "✔" } else { "✘" };
            writeln!(report, "  {} {} {mark} {}", one.webhook, one.revision, one.reason).unwrap();
        }
    }
    insta::assert_snapshot!(report);
}

#[test]
fn denial_does_not_quote_the_pod() {
    let fixture = Fixture::new(&[("default", "")]);
    let labels = Fixture::labelled("shop", &json!({"istio-injection": "enabled"}));
    let mut pod = pod(&json!({}));
    pod["spec"]["volumes"] = json!("s3cret");
    let sidecar_state = SidecarState::new(&fixture.injectors(), &labels, &pod);
    let SidecarState::Missing(reason) = sidecar_state else { panic!("{sidecar_state:?}") };
    insta::assert_snapshot!(reason, @"the pod would be denied: pod: spec.volumes is not a list of objects (bad_pod); hint: create it with --dry-run=server to see the error");
}

#[test]
fn deactivated_tag_is_reported() {
    let never = json!({"matchLabels": {"istio.io/deactivated": "never-match"}});
    let mut configuration = manifest("default");
    for hook in configuration["webhooks"].as_array_mut().unwrap() {
        hook["namespaceSelector"] = never.clone();
        hook["objectSelector"] = never.clone();
    }
    let fixture = Fixture::from_manifests(&[configuration], BTreeMap::new());
    let said =
        explain(&fixture.injectors(), &json!({"istio-injection": "enabled"}), &pod(&json!({})));
    assert_eq!(
        said[0].reason,
        "The injection webhook is deactivated, and will never match labels."
    );
}

#[test]
fn one_webhook_injects_beside_istiod() {
    let mut istiods = manifest("default");
    let mut ours = istiods.clone();
    ours["metadata"] = json!({"name": "sidecar-injector", "labels": {"app": "sidecar-injector"}});
    let expression = "!has(object.metadata.annotations) || \
                      !('sidecar.istio.io/status' in object.metadata.annotations)";
    let condition = json!({"name": "not-injected-by-istiod", "expression": expression});
    for (istiods, ours) in hooks(&mut istiods).iter_mut().zip(hooks(&mut ours)) {
        istiods.as_object_mut().unwrap().remove("matchConditions");
        ours["matchConditions"] = json!([condition]);
    }
    let fixture = Fixture::new(&[("default", "")]);
    let both = Fixture::from_manifests(&[istiods, ours.clone()], fixture.known.clone());
    let labels = Fixture::labelled("shop", &json!({"istio-injection": "enabled"}));
    let running = injected(&fixture.known["default"].settings, &pod(&json!({})));
    for pod in [pod(&json!({})), running.clone()] {
        let said = explain(&both.injectors(), &labels, &pod);
        let injected: Vec<_> = said.iter().map(|one| one.injected).collect();
        assert_eq!(injected, [true, false], "{said:?}");
        assert!(said[1].reason.ends_with(
            "a match condition of namespace.sidecar-injector.istio.io \
                                          does not hold"
        ));
    }
    assert_eq!(SidecarState::new(&both.injectors(), &labels, &running), SidecarState::Current);
    // Without istiod's webhook configuration, ours injects.
    let alone = Fixture::from_manifests(&[ours], fixture.known);
    assert!(explain(&alone.injectors(), &labels, &running)[0].injected);
}

#[test]
fn pod_revision_label_decides_if_the_settings_say_so() {
    let own = "outrigger: {podRevision: own}";
    let labels = Fixture::labelled("shop", &json!({"istio.io/rev": "default"}));
    let canary = pod(&json!({"istio.io/rev": "canary"}));
    let any = Fixture::new(&[("default", ""), ("canary", "")]);
    assert_eq!(word(&any, &labels, &canary), "no_sidecar");
    // The injector of its namespace's revision skips it, and no webhook of its own revision selects
    // it.
    let strict = Fixture::new(&[("default", own), ("canary", own)]);
    assert_eq!(word(&strict, &labels, &canary), "other_revision");
    let said = explain(&strict.injectors(), &labels, &canary);
    assert!(said.iter().all(|one| !one.injected), "{said:?}");
    // A webhook of the other revision that selects only by the pod's labels injects it.
    let mut open = manifest("canary");
    let hooks = open["webhooks"].as_array_mut().unwrap();
    hooks.retain(|hook| hook["name"].as_str().unwrap().starts_with("rev.object."));
    hooks[0]["namespaceSelector"] = json!({});
    let strict = Fixture::from_manifests(&[manifest("default"), open], strict.known);
    let said = explain(&strict.injectors(), &labels, &canary);
    let injecting: Vec<_> = said.iter().filter(|one| one.injected).collect();
    assert_eq!(injecting.iter().map(|one| &*one.revision).collect::<Vec<_>>(), ["canary"]);
    let injected = injected(&strict.known["canary"].settings, &canary);
    assert_eq!(SidecarState::new(&strict.injectors(), &labels, &injected), SidecarState::Current);
}

#[test]
fn pod_is_stale_by_revision_image_or_containers() {
    let before = Fixture::new(&[("default", "")]);
    let labels = Fixture::labelled("shop", &json!({"istio-injection": "enabled"}));
    let running = injected(&before.known["default"].settings, &pod(&json!({})));
    assert_eq!(SidecarState::new(&before.injectors(), &labels, &running), SidecarState::Current);

    for (values, expected) in [
        ("global: {tag: 9.9.9, proxy_init: {image: init}}", &["istio-init", "istio-proxy"][..]),
        ("global: {tag: 9.9.9}", &["istio-proxy"]),
        ("global: {proxy: {image: registry.example/proxy:2}}", &["istio-proxy"]),
    ] {
        let now = Fixture::new(&[("default", values)]);
        let SidecarState::Stale(reasons) = SidecarState::new(&now.injectors(), &labels, &running)
        else {
            panic!("{values}: not stale");
        };
        let words: Vec<_> = reasons.iter().map(reason::Reason::word).collect();
        assert_eq!(words, vec!["image_changed"; expected.len()], "{reasons:?}");
        for (reason, container) in reasons.iter().zip(expected) {
            assert!(reason.message().contains(container), "{reason}");
        }
    }
    let cni = Fixture::new(&[("default", "pilot: {cni: {enabled: true}}")]);
    let SidecarState::Stale(reasons) = SidecarState::new(&cni.injectors(), &labels, &running)
    else {
        panic!("not stale");
    };
    let said: Vec<_> = reasons.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    a new pod would not have container istio-init (containers_changed)
    a new pod would have container istio-validation (containers_changed)
    ");
    let other = Fixture::new(&[("canary", "")]);
    let labels = Fixture::labelled("shop", &json!({"istio.io/rev": "canary"}));
    let SidecarState::Stale(reasons) = SidecarState::new(&other.injectors(), &labels, &running)
    else {
        panic!("not stale");
    };
    assert_eq!(reasons[0].word(), "revision_changed");
    assert!(
        reasons[0]
            .message()
            .contains("\"default\"; a new pod would be injected by revision \"canary\"")
    );
}

#[test]
fn image_type_of_a_proxy_config_is_not_stale() {
    let mut fixture = Fixture::new(&[("default", "global: {variant: debug}")]);
    let labels = Fixture::labelled("shop", &json!({"istio-injection": "enabled"}));
    let running = injected(&fixture.known["default"].settings, &pod(&json!({})));
    assert_eq!(SidecarState::new(&fixture.injectors(), &labels, &running), SidecarState::Current);
    let origin = Origin {
        namespace: "shop".to_owned(),
        name: "distroless".to_owned(),
        created: jiff::Timestamp::UNIX_EPOCH,
    };
    let spec = json!({"image": {"imageType": "distroless"}});
    let resource = ProxyConfigResource::parse(origin, &spec).unwrap();
    fixture.known.get_mut("default").unwrap().proxy_configs = [resource].into_iter().collect();
    // The resource was created after the pod, and changes its image.
    assert_eq!(word(&fixture, &labels, &running), "image_changed");
    let Answer::Inject(now) = fixture.known["default"].answer(&pod(&json!({}))) else { panic!() };
    assert_eq!(SidecarState::new(&fixture.injectors(), &labels, &now.pod), SidecarState::Current);
}

#[test]
fn user_supplied_proxy_image_is_not_stale() {
    let fixture = Fixture::new(&[("default", "")]);
    let labels = Fixture::labelled("shop", &json!({"istio-injection": "enabled"}));
    let mut own = pod(&json!({}));
    let proxy = json!({"name": "istio-proxy", "image": "mine:1"});
    own["spec"]["containers"].as_array_mut().unwrap().push(proxy);
    let running = injected(&fixture.known["default"].settings, &own);
    let newer =
        Fixture::new(&[("default", "global: {proxy: {image: other}, proxy_init: {image: other}}")]);
    assert_eq!(SidecarState::new(&fixture.injectors(), &labels, &running), SidecarState::Current);
    let SidecarState::Stale(reasons) = SidecarState::new(&newer.injectors(), &labels, &running)
    else {
        panic!("istio-init is not stale");
    };
    assert!(reasons.iter().all(|one| one.message().contains("istio-init")), "{reasons:?}");
}

#[test]
fn sidecar_without_matching_webhook_is_not_reported() {
    let fixture = Fixture::new(&[("default", "")]);
    let by_hand = injected(&fixture.known["default"].settings, &pod(&json!({})));
    assert_eq!(word(&fixture, &Fixture::labelled("shop", &json!({})), &by_hand), "not_selected");
}

#[test]
fn pod_that_would_be_denied_is_reported() {
    let fixture = Fixture::new(&[("default", "")]);
    let labels = Fixture::labelled("shop", &json!({"istio-injection": "enabled"}));
    assert_eq!(word(&fixture, &labels, &with_a_wrong_annotation()), "bad_annotation");
}

#[test]
fn namespaces_of_a_tally_are_limited_and_summed() {
    let fixture = Fixture::new(&[("default", "")]);
    let labels = Fixture::labelled("shop", &json!({"istio-injection": "enabled"}));
    let mut tally = Tally::default();
    for index in 0..30 {
        for _ in 0..=index {
            let mut pod = pod(&json!({}));
            pod["metadata"]["namespace"] = format!("n{index:02}").into();
            let sidecar_state = SidecarState::new(&fixture.injectors(), &labels, &pod);
            tally.add(&pod, sidecar_state);
        }
    }
    let counts = tally.namespaces(10);
    let names: Vec<_> = counts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..10], ["n20", "n21", "n22", "n23", "n24", "n25", "n26", "n27", "n28", "n29"]);
    assert_eq!(counts[10], (OTHERS.to_owned(), Counts { without_sidecar: 210, stale: 0 }));
    assert_eq!(tally.pods, 465);
    assert_eq!(tally.workloads().len(), 30);
    assert_eq!(Tally::default().namespaces(10), []);
}

struct Fixture {
    configurations: Vec<HookConfiguration>,
    known: BTreeMap<String, Injector>,
}

impl Fixture {
    /// Returns the state of a cluster with these revisions and their values.
    fn new(revisions: &[(&str, &str)]) -> Self {
        let parse = |revision: &str, values: &str| {
            let values = Document { source: "values", text: values };
            let documents = Documents { values: Some(values), ..Documents::default() };
            let revision = if revision == "default" { "" } else { revision };
            let process = Process {
                revision: revision.to_owned(),
                native_sidecars: true,
                ..Process::default()
            };
            Settings::parse(&documents, process).unwrap()
        };
        let known = revisions.iter().map(|(revision, values)| {
            (
                (*revision).to_owned(),
                Injector {
                    settings: Arc::new(parse(revision, values)),
                    proxy_configs: ProxyConfigs::default(),
                },
            )
        });
        let configurations =
            revisions.iter().map(|(revision, _)| manifest(revision)).collect::<Vec<_>>();
        Self::from_manifests(&configurations, known.collect())
    }

    fn from_manifests(configurations: &[Value], known: BTreeMap<String, Injector>) -> Self {
        let configurations = configurations.iter();
        let read = |one| HookConfiguration::read(one).unwrap().unwrap();
        let mut configurations: Vec<_> = configurations.map(read).collect();
        configurations.sort_by(|one, other| one.name.cmp(&other.name));
        Self { configurations, known }
    }

    fn injectors(&self) -> Injectors<'_> {
        Injectors { configurations: &self.configurations, known: &self.known }
    }

    fn labelled(name: &str, labels: &Value) -> Value {
        let mut labels = labels.clone();
        labels["kubernetes.io/metadata.name"] = name.into();
        labels
    }
}

/// Returns the base's configuration, or the component's for a revision.
fn manifest(revision: &str) -> Value {
    let text = include_str!("../../manifests/base/webhook.yaml");
    if revision == "default" {
        return yaml::parse(text).unwrap();
    }
    let text = text.replace("values: [default]", &format!("values: [{revision}]"));
    let mut configuration = yaml::parse(&text).unwrap();
    configuration["metadata"]["name"] = format!("istio-sidecar-injector-{revision}").into();
    configuration["metadata"]["labels"]["istio.io/rev"] = revision.into();
    let hooks = configuration["webhooks"].as_array_mut().unwrap();
    hooks.retain(|hook| hook["name"].as_str().unwrap().starts_with("rev."));
    configuration
}

fn hooks(configuration: &mut Value) -> &mut Vec<Value> {
    configuration["webhooks"].as_array_mut().unwrap()
}

fn word(fixture: &Fixture, labels: &Value, pod: &Value) -> &'static str {
    match SidecarState::new(&fixture.injectors(), labels, pod) {
        SidecarState::Current => "current",
        SidecarState::Stale(reasons) => reasons[0].word(),
        SidecarState::Missing(reason)
        | SidecarState::NotAsked(reason)
        | SidecarState::Unknown(reason) => reason.word(),
    }
}

fn injected(settings: &Settings, pod: &Value) -> Value {
    match inject(settings, Target::at_admission(pod.clone(), "shop")).unwrap() {
        InjectionOutcome::Injected(injection) => injection.pod,
        InjectionOutcome::Skipped { reason, .. } => panic!("{reason}"),
    }
}

fn pod(labels: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "labels": labels},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    })
}

fn on_the_nodes_network() -> Value {
    let mut pod = pod(&json!({"on": "host-network"}));
    pod["spec"]["hostNetwork"] = true.into();
    pod
}

fn mirror() -> Value {
    let mut pod = pod(&json!({"is": "mirror"}));
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    pod
}

fn with_a_wrong_annotation() -> Value {
    let mut pod = pod(&json!({"has": "wrong-annotation"}));
    pod["metadata"]["annotations"] = json!({"sidecar.istio.io/proxyCPU": "much"});
    pod
}
