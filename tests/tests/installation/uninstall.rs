//! Uninstallation, which leaves nothing behind.

use anyhow::{Context, Result, ensure};
use e2e::manifests::Composition;
use e2e::wait;

use crate::fixture::Fixture;
use crate::injector::Injector;

pub(crate) fn deleting_the_manifests_leaves_nothing(fixture: &Fixture) -> Result<()> {
    for (composition, has_secret) in [
        // The Namespace is deleted with the Secret.
        (
            Composition::new(&["ha", "prometheus", "grafana", "network-policy", "trust-probe"]),
            false,
        ),
        // The Namespace stays, and the manifests contain the Secret.
        (Composition::new(&["no-create", "istiod"]), false),
        // The Namespace stays with the Secret; the documented command deletes it.
        (Composition { tags: &["prod"], ..CANARY }, true),
    ] {
        fixture.clear()?;
        uninstalled(fixture, composition, has_secret)
            .with_context(|| format!("{composition:?}"))?;
    }
    Ok(())
}

fn uninstalled(fixture: &Fixture, composition: Composition, has_secret: bool) -> Result<()> {
    let rendered = fixture.render(composition)?;
    let is_shared = !rendered.contains("\nkind: Namespace\n");
    if is_shared {
        fixture.make_namespace()?;
    }
    if composition.components.contains(&"istiod") {
        fixture.kubectl().must_with_input(["create", "--filename", "-"], ISTIOS)?;
        for map in ["istio", "istio-sidecar-injector"] {
            let namespace = "--namespace=istio-system";
            let (config, values) =
                ("--from-literal=config=policy: enabled", "--from-literal=values={}");
            fixture.kubectl().must(["create", "configmap", map, namespace, config, values])?;
        }
    }
    let before = fixture.objects()?;
    fixture.apply(&rendered)?;
    let mut injector = Injector::of_manifests(fixture, &rendered)?;
    let installed = fixture.objects()?;
    ensure!(installed.iter().any(|one| one.starts_with("Secret istio-system/sidecar-injector-ca")));

    let delete = ["delete", "--ignore-not-found", "--wait=false", "--filename", "-"];
    for kind in ["mutatingwebhookconfigurations", "validatingadmissionpolicybindings"] {
        let label = "--selector=app.kubernetes.io/part-of=outrigger";
        fixture.kubectl().must(["delete", kind, label])?;
    }
    fixture.kubectl().must_with_input(delete, &rendered)?;
    injector.process.stop()?;
    let ours = |found: &std::collections::BTreeSet<String>| -> Vec<String> {
        found.difference(&before).cloned().collect()
    };
    if has_secret {
        let left = ours(&fixture.objects()?);
        ensure!(left == ["Secret istio-system/sidecar-injector-ca-canary"], "{left:?}");
        // The command in docs/install.md.
        let label = "--selector=app.kubernetes.io/managed-by=sidecar-injector-canary-webhook-certs";
        fixture.kubectl().must(["delete", "secret", "--namespace=istio-system", label])?;
    }
    wait::until("nothing is left", || {
        let found = fixture.objects()?;
        let left = ours(&found);
        ensure!(left.is_empty(), "{left:?} is left");
        let gone: Vec<_> = before.difference(&found).collect();
        ensure!(gone.is_empty() || !is_shared, "{gone:?} went too");
        anyhow::Ok(())
    })
}

/// A webhook configuration labelled as Istio's chart labels its injector.
const ISTIOS: &str = r"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: istio-sidecar-injector
  labels: {app: sidecar-injector, app.kubernetes.io/part-of: istio, istio.io/rev: default}
";
const CANARY: Composition =
    Composition { components: &["revision"], revision: Some("canary"), tags: &[] };
