//! Namespaces with a Pod Security Standard that forbids a sidecar.

use anyhow::{Result, ensure};
use e2e::wait;

use crate::fixture::Fixture;
use crate::load::Tally;

/// A21
pub(crate) async fn pod_security_rejection_includes_our_warnings(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.install(2).await?;
    let kubectl = fixture.shared.servers.kubectl();
    kubectl.must_with_input(["apply", "--filename", "-"], BASELINE)?;
    let create = ["create", "--dry-run=server", "--filename", "-"];
    // The API server learns of a namespace with a delay.
    wait::until_async("the namespace is one of those with injection", async || {
        let answer = kubectl.run_with_input(create, POD)?;
        ensure!(answer.stderr.contains("Warning: "), "{}{}", answer.stdout, answer.stderr);
        let said = &answer.stderr;
        ensure!(!answer.succeeded && said.contains("violates PodSecurity \"baseline"), "{said}");
        ensure!(said.contains("container \"istio-init\" must not include"), "{said}");
        ensure!(said.contains("did you mean sidecar.istio.io/inject?"), "{said}");
        Ok(())
    })
    .await?;
    // The application alone would be admitted.
    let plain =
        POD.replace("\"labels\": {}", "\"labels\": {\"sidecar.istio.io/inject\": \"false\"}");
    kubectl.must_with_input(create, &plain)?;
    kubectl.must(["delete", "namespace", "baseline", "--wait=false"])?;
    fixture.tell(&Tally::default(), "")
}

const BASELINE: &str = r#"
{"apiVersion": "v1", "kind": "Namespace",
 "metadata": {"name": "baseline", "labels": {
   "istio-injection": "enabled", "pod-security.kubernetes.io/enforce": "baseline"}}}
"#;
const POD: &str = r#"
{"apiVersion": "v1", "kind": "Pod",
 "metadata": {"name": "app", "namespace": "baseline", "labels": {},
              "annotations": {"sidecar.istio.io/injekt": "true"}},
 "spec": {"serviceAccountName": "default", "containers": [{"name": "app", "image": "app:1"}]}}
"#;
