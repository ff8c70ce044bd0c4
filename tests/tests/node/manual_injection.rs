//! `istioctl kube-inject -f FILE | kubectl apply -f -`.

use anyhow::Result;
use e2e::programs::repository;

use crate::difference::differences;
use crate::fixture::{Fixture, manifest};
use crate::istioctl::KubeInject;

pub(crate) fn manual_injection_equals_automatic(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let automatic = cluster.namespace("automatic", &["istio-injection=enabled"])?;
    automatic.apply(&manifest("examples/web.yaml")?)?;
    automatic.wait_until_available("web")?;

    let by_hand = cluster.namespace("by-hand", &[])?;
    let web = repository().join("manifests/examples/web.yaml");
    by_hand.apply(&KubeInject::new(web).run()?)?;
    by_hand.wait_until_available("web")?;

    let (by_hand_pod, automatic_pod) = (by_hand.pod("app=web")?, automatic.pod("app=web")?);
    let mut different = differences(&by_hand_pod["spec"], &automatic_pod["spec"]);
    different.retain(|(path, ..)| !ALLOWED.iter().any(|(allowed, _)| path.ends_with(allowed)));
    assert!(different.is_empty(), "by hand, and automatic: {different:#?}");
    automatic.delete()?;
    by_hand.delete()
}

/// Allowed differences, by the end of the path, with the reason.
const ALLOWED: [(&str, &str); 4] = [
    (":kube-api-access/name", "its end is random"),
    (":ISTIO_KUBE_APP_PROBERS/value", "the API server has defaulted what the webhook reviews"),
    (":ISTIO_META_POD_PORTS/value", "the API server has defaulted what the webhook reviews"),
    (":ISTIO_META_OWNER/value", "by hand the namespace is not known: the file does not say it"),
];
