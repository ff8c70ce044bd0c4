//! Differences between a workload in a file and a pod at admission.

use injector::inject::InjectionOutcome;
use injector::inject::policy::Rules;
use serde_json::{Value, json};

use crate::fixture::{Fixture, pod_of, variable};

fn injected(pod: &Value, rules: Rules) -> Option<Value> {
    match Fixture::default().run("policy: enabled", &json!({}), pod, rules).unwrap() {
        InjectionOutcome::Injected(injection) => Some(injection.pod),
        InjectionOutcome::Skipped { .. } => None,
    }
}

/// In a file the annotation overlays the mesh configuration. At admission it applies to the proxy
/// only.
#[test]
fn status_port_of_proxy_config_applies_to_probes_and_metrics() {
    let probe = json!({"httpGet": {"port": 80}});
    let pod = pod_of(
        &json!({"proxy.istio.io/config": "statusPort: 15099", "prometheus.io/port": "8080"}),
        &json!([{"name": "app", "image": "app:1", "readinessProbe": probe}]),
    );
    for (rules, port) in [(Rules::Manual, 15099), (Rules::Admission, 15020)] {
        let injected = injected(&pod, rules).expect("is injected");
        let probe = &injected["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"];
        assert_eq!(probe, port, "{rules:?}");
        let scraped = &injected["metadata"]["annotations"]["prometheus.io/port"];
        assert_eq!(scraped, &port.to_string(), "{rules:?}");
        assert!(variable(&injected, "PROXY_CONFIG").unwrap().contains("15099"), "{rules:?}");
        let again = Fixture::default().run("policy: enabled", &json!({}), &injected, rules);
        let InjectionOutcome::Injected(again) = again.unwrap() else { panic!("is injected again") };
        assert_eq!(again.pod, injected, "{rules:?}");
    }
}
