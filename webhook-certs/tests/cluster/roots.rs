//! Roots of workloads: their `ConfigMaps`, and the CA that signs for workloads.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::wait;
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use webhook_certs::bundle::{Bundle, TrustedCa};
use webhook_certs::status::Status;
use webhook_certs::workload::authority::WorkloadAuthority;
use webhook_certs::workload::ca_folder::CaFolder;

use crate::fixture::{Fixture, create};
use crate::rotation::{ask_for_rotation, hasten, until_phase};

const ROOTS: &str = "istio-ca-root-cert";

/// Makes the fixture's namespace and others of its revision managed, and grants the rights, each
/// pinned to the name of the `ConfigMap`.
async fn manage(fixture: &mut Fixture<'_>) -> Result<()> {
    let name = fixture.options.namespace.clone();
    fixture.options.revision.clone_from(&name);
    fixture.options.webhook_configurations.clear();
    fixture.options.root_config_maps = true;
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["admissionregistration.k8s.io"],
         "resources": ["mutatingwebhookconfigurations"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [ROOTS],
         "verbs": ["list", "watch", "create", "patch"]},
    ]);
    let metadata = json!({"name": format!("{name}-roots")});
    let roles = Api::<ClusterRole>::all(fixture.admin.clone());
    create(&roles, json!({"metadata": metadata, "rules": rules})).await?;
    let bindings = Api::<ClusterRoleBinding>::all(fixture.admin.clone());
    let binding = json!({
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}],
    });
    create(&bindings, binding).await?;
    label(fixture, &name, json!(name)).await
}

/// Sets the revision of a namespace.
async fn label(fixture: &Fixture<'_>, namespace: &str, revision: Value) -> Result<()> {
    let namespaces = Api::<Namespace>::all(fixture.admin.clone());
    let patch = json!({"metadata": {"labels": {"istio.io/rev": revision}}});
    namespaces.patch(namespace, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn create_namespace(fixture: &Fixture<'_>, name: &str, revision: &str) -> Result<()> {
    let namespaces = Api::<Namespace>::all(fixture.admin.clone());
    let labels = json!({"istio.io/rev": revision});
    create(&namespaces, json!({"metadata": {"name": name, "labels": labels}})).await
}

fn maps(fixture: &Fixture<'_>, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(fixture.admin.clone(), namespace)
}

/// Published roots of a namespace.
async fn published(fixture: &Fixture<'_>, namespace: &str) -> Result<Bundle> {
    let map = maps(fixture, namespace).get(ROOTS).await?;
    let roots = map.data.and_then(|mut data| data.remove("root-cert.pem"));
    Ok(Bundle::parse(roots.context("it has no roots")?.as_bytes())?)
}

async fn until_published(fixture: &Fixture<'_>, namespace: &str, wanted: &Bundle) -> Result<()> {
    wait::until_async("the roots are published", async || {
        let found = published(fixture, namespace).await?;
        ensure!(found.is_same_set(wanted), "{namespace} has {found:?}");
        Ok(())
    })
    .await
}

async fn signing(
    authorities: &mut watch::Receiver<Option<Arc<WorkloadAuthority>>>,
) -> Result<Arc<WorkloadAuthority>> {
    let found = authorities.wait_for(Option::is_some).await?;
    Ok(Arc::clone(found.as_ref().context("no CA")?))
}

pub(crate) async fn roots_are_kept_in_namespaces_of_the_revision(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    manage(&mut fixture).await?;
    let own = fixture.options.namespace.clone();
    let other = format!("other-{own}");
    create_namespace(&fixture, &other, "blue").await?;
    let foreign = json!({"metadata": {"name": ROOTS}, "data": {"root-cert.pem": "theirs"}});
    create(&maps(&fixture, &other), foreign).await?;
    let (mut one, mut authorities) = fixture.workload_replica(None).await?;
    let (mut two, _) = fixture.workload_replica(None).await?;
    let roots = signing(&mut authorities).await?.roots().clone();
    until_published(&fixture, &own, &roots).await?;

    let new = format!("new-{own}");
    create_namespace(&fixture, &new, &own).await?;
    until_published(&fixture, &new, &roots).await?;
    maps(&fixture, &new).delete(ROOTS, &DeleteParams::default()).await?;
    until_published(&fixture, &new, &roots).await?;
    let tagged = format!("tagged-{own}");
    create_namespace(&fixture, &tagged, &tagged).await?;
    let configurations = Api::<MutatingWebhookConfiguration>::all(fixture.admin.clone());
    let labels = json!({"istio.io/tag": tagged, "istio.io/rev": own});
    create(&configurations, json!({"metadata": {"name": tagged, "labels": labels}})).await?;
    until_published(&fixture, &tagged, &roots).await?;
    for broken in [json!({"root-cert.pem": "theirs"}), json!({"root-cert.pem": null})] {
        let patch = Patch::Merge(json!({"data": broken}));
        maps(&fixture, &new).patch(ROOTS, &PatchParams::default(), &patch).await?;
        until_published(&fixture, &new, &roots).await?;
    }
    let served = |status: &Status| status.trusted && status.last_error.is_none();
    one.until("the first has no error", served).await?;
    two.until("the second has no error", served).await?;
    // The version stays while both see what they want.
    let version = maps(&fixture, &new).get(ROOTS).await?.metadata.resource_version;
    let further = format!("further-{own}");
    create_namespace(&fixture, &further, &own).await?;
    until_published(&fixture, &further, &roots).await?;
    ensure!(maps(&fixture, &new).get(ROOTS).await?.metadata.resource_version == version);

    let theirs = maps(&fixture, &other).get(ROOTS).await?;
    ensure!(theirs.data.unwrap_or_default()["root-cert.pem"] == "theirs", "it was written");
    label(&fixture, &other, json!(own)).await?;
    until_published(&fixture, &other, &roots).await
}

pub(crate) async fn roots_are_published_before_the_ca_signs(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    manage(&mut fixture).await?;
    hasten(&mut fixture);
    let own = fixture.options.namespace.clone();
    let (_one, mut authorities) = fixture.workload_replica(None).await?;
    let (_two, _) = fixture.workload_replica(None).await?;
    let before = signing(&mut authorities).await?;
    until_published(&fixture, &own, before.roots()).await?;
    ask_for_rotation(&fixture).await?;
    until_phase(&fixture, "prepared").await?;
    // Each CA that signs has been published beside its predecessor.
    let holds_both = |bundle: &Bundle, new: &TrustedCa| {
        [before.certificate(), new].iter().all(|ca| bundle.certificates().contains(ca))
    };
    let after = {
        let is_new = |current: &Option<Arc<WorkloadAuthority>>| {
            current.as_ref().is_some_and(|ca| ca.certificate() != before.certificate())
        };
        Arc::clone(authorities.wait_for(is_new).await?.as_ref().context("no CA")?)
    };
    let bundle = published(&fixture, &own).await?;
    ensure!(holds_both(&bundle, after.certificate()), "{bundle:?}");
    ensure!(holds_both(after.roots(), after.certificate()), "{:?}", after.roots());
    until_phase(&fixture, "steady").await?;
    let roots = Bundle::new(after.certificate().clone(), []);
    until_published(&fixture, &own, &roots).await
}

pub(crate) async fn restarted_replica_keeps_the_ca_of_workloads(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    manage(&mut fixture).await?;
    let (one, mut authorities) = fixture.workload_replica(None).await?;
    let before = signing(&mut authorities).await?;
    drop(one);
    let (_two, mut authorities) = fixture.workload_replica(None).await?;
    let after = signing(&mut authorities).await?;
    ensure!(before.certificate() == after.certificate(), "another CA signs");
    Ok(())
}

/// Writes the files of a self-signed CA, as Istio's Secret `istio-ca-secret`.
fn write_ca(folder: &Path, name: &str) -> Result<()> {
    let arguments = format!(
        "req -x509 -newkey rsa:2048 -nodes -keyout ca-key.pem -out ca-cert.pem -days 30 \
         -subj /CN={name} -addext keyUsage=critical,keyCertSign,cRLSign"
    );
    let made = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

pub(crate) async fn mounted_ca_signs_and_is_read_again(mut fixture: Fixture<'_>) -> Result<()> {
    manage(&mut fixture).await?;
    let parameters = &mut fixture.options.parameters;
    parameters.tick = std::time::Duration::from_millis(100);
    parameters.propagation_delay = SignedDuration::from_secs(3);
    let own = fixture.options.namespace.clone();
    let folder = tempfile::tempdir()?;
    ensure!(CaFolder::find(folder.path()).is_none(), "an empty folder is no CA");
    write_ca(folder.path(), "first")?;
    let mounted = CaFolder::find(folder.path());
    let (mut replica, mut authorities) = fixture.workload_replica(mounted).await?;
    let first = signing(&mut authorities).await?;
    ensure!(first.certificate().name() == "CN=first", "{:?}", first.certificate());
    until_published(&fixture, &own, first.roots()).await?;
    replica.until("it serves", |status| status.leaf_not_after.is_some()).await?;
    let leaf = replica.leaf()?;

    // Half of a new CA is not used.
    let key = fs::read(folder.path().join("ca-key.pem"))?;
    write_ca(folder.path(), "second")?;
    let second = fs::read(folder.path().join("ca-key.pem"))?;
    fs::write(folder.path().join("ca-key.pem"), key)?;
    let complains = |status: &Status| {
        status.last_error.as_ref().is_some_and(|error| error.contains("the last one stays"))
    };
    replica.until("it complains", complains).await?;
    ensure!(replica.leaf()? == leaf, "another leaf is served");
    fs::write(folder.path().join("ca-key.pem"), second)?;
    // Both roots are published before the new CA signs, and while certificates of the old one are
    // renewed.
    let has_both = |ca: &WorkloadAuthority| ca.roots().certificates().len() == 2;
    for (name, both) in [("CN=first", true), ("CN=second", true), ("CN=second", false)] {
        let is_next = |current: &Option<Arc<WorkloadAuthority>>| {
            let is_next = |ca: &Arc<WorkloadAuthority>| {
                ca.certificate().name() == name && has_both(ca) == both
            };
            current.as_ref().is_some_and(is_next)
        };
        let roots = {
            let current = authorities.wait_for(is_next).await?;
            current.as_ref().context("no CA")?.roots().clone()
        };
        ensure!(roots.certificates().len() == if both { 2 } else { 1 }, "{roots:?}");
        until_published(&fixture, &own, &roots).await?;
    }
    replica.until("the error has gone", |status| status.last_error.is_none()).await?;
    ensure!(replica.leaf()? != leaf, "the leaf of the first CA is served");
    let secret = fixture.secrets().get_opt(&fixture.options.secret_name).await?;
    ensure!(secret.is_none(), "a CA of our own was made");
    Ok(())
}
