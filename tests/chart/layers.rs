//! Components of `manifests/` and the values of the chart by which they are there.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::thread;

use anyhow::{Context, Result, anyhow};
use e2e::manifests;
use e2e::programs::Programs;
use serde_json::{Value, json};

use crate::names::{REVISION, TAG, without_revision};
use crate::tree::{Guard, Tree};

/// Two lists of components and the value that makes the difference between them.
///
/// The first list has the components whose objects the others of the second list change as well.
struct Layer {
    guard: Guard,
    before: Components,
    after: Components,
}

/// Stands among the components for `manifests/mesh` in place of `manifests/base`.
const MESH: &str = "mesh";
/// Stands where the component `revision` has its place. `mesh-revision` is its name over the mesh.
const R: &str = "revision";

static LAYERS: [Layer; 29] = [
    layer(Guard::If("$.Values.mesh.enabled"), &[R], &[MESH, R]),
    layer(Guard::If("$.Values.injector.highAvailability"), &[R], &["ha", R]),
    layer(
        Guard::If("and $.Values.mesh.enabled $.Values.pilot.autoscaleEnabled"),
        &[MESH, R],
        &[MESH, "mesh-ha", R],
    ),
    layer(
        Guard::If("has $.Values.injector.certificates.provider (list \"files\" \"cert-manager\")"),
        &[R],
        &["files", R],
    ),
    layer(
        Guard::If("eq $.Values.injector.certificates.provider \"cert-manager\""),
        &["files", R],
        &["cert-manager", R],
    ),
    layer(Guard::If("$.Values.injector.certificates.emptySecret"), &[R], &["no-create", R]),
    layer(Guard::If("$.Values.pilot.cni.enabled"), &[R], &["istio-cni", R]),
    layer(Guard::If("eq $.Values.global.platform \"openshift\""), &[R], &["openshift", R]),
    layer(Guard::If("$.Values.networkPolicy.restrictEgress"), &[R], &["network-policy", R]),
    layer(Guard::If("$.Values.prometheus.enabled"), &[R], &["prometheus", R]),
    layer(
        Guard::If(
            "and $.Values.prometheus.enabled (eq $.Values.prometheus.monitor \"PodMonitor\")",
        ),
        &["prometheus", R],
        &["prometheus-pods", R],
    ),
    layer(
        Guard::If("and $.Values.mesh.enabled $.Values.prometheus.enabled"),
        &[MESH, R],
        &[MESH, "mesh-prometheus", R],
    ),
    layer(
        Guard::If(
            "and $.Values.mesh.enabled $.Values.prometheus.enabled \
             (eq $.Values.prometheus.monitor \"PodMonitor\")",
        ),
        &[MESH, "mesh-prometheus", R],
        &[MESH, "mesh-prometheus-pods", R],
    ),
    layer(Guard::If("$.Values.prometheus.proxies"), &[R], &["proxies-prometheus", R]),
    layer(Guard::If("$.Values.grafana.enabled"), &[R], &["grafana", R]),
    layer(
        Guard::If("and $.Values.mesh.enabled $.Values.grafana.enabled"),
        &[MESH, R],
        &[MESH, "mesh-grafana", R],
    ),
    layer(
        Guard::If("$.Values.sidecarInjectorWebhook.includeKubeSystem"),
        &[R],
        &["kube-system", R],
    ),
    layer(
        Guard::If("$.Values.injector.trustProbe"),
        &["prometheus", R],
        &["prometheus", "trust-probe", R],
    ),
    layer(
        Guard::If("$.Values.injector.reports"),
        &["prometheus", "trust-probe", R],
        &["prometheus", "trust-probe", "reports", R],
    ),
    layer(Guard::If("$.Values.injector.requireInjection"), &[R], &["require-injection", R]),
    layer(
        Guard::If("$.Values.sidecarInjectorWebhook.enableNamespacesByDefault"),
        &["trust-probe", R],
        &["trust-probe", "auto", R],
    ),
    layer(
        Guard::Unless("$.Values.injector.guardPolicies"),
        &["trust-probe", R],
        &["trust-probe", "no-guard-policy", R],
    ),
    layer(Guard::If("eq $.Values.injector.certificates.provider \"csr\""), &[R], &[R, "csr"]),
    layer(
        Guard::If(
            "and (eq $.Values.injector.certificates.provider \"csr\") \
             $.Values.injector.certificates.approve",
        ),
        &[R, "csr"],
        &[R, "csr", "csr-approval"],
    ),
    layer(
        Guard::Each("range $tag := reverse (without $.Values.revisionTags \"default\")"),
        &[R],
        &[R, "tag"],
    ),
    layer(
        Guard::If("$.Values.injector.clientCertificates.enabled"),
        &[R],
        &[R, "client-certificates"],
    ),
    // Those that change every webhook entry, the ones of other components too.
    layer(
        Guard::If(IS_AKS),
        &["trust-probe", "auto", R, "tag"],
        &["trust-probe", "auto", R, "tag", "aks"],
    ),
    layer(Guard::If(IS_OPEN), &["auto", R, "tag"], &["auto", R, "tag", "fail-open"]),
    layer(
        Guard::If(IS_DORMANT),
        &["trust-probe", "auto", R, "tag"],
        &["trust-probe", "auto", R, "tag", "dormant"],
    ),
];

const IS_AKS: &str = "eq $.Values.global.platform \"aks\"";
const IS_OPEN: &str = "eq $.Values.sidecarInjectorWebhook.failurePolicy \"Ignore\"";
const IS_DORMANT: &str = "$.Values.dormant";

/// Layers of another revision than the default one.
static OF_REVISIONS: [Layer; 4] = [
    layer(Guard::If("has \"default\" $.Values.revisionTags"), &[R], &[R, "default-tag"]),
    layer(Guard::If(IS_AKS), &[R, "default-tag"], &[R, "default-tag", "aks"]),
    layer(Guard::If(IS_OPEN), &[R, "default-tag"], &[R, "default-tag", "fail-open"]),
    layer(Guard::If(IS_DORMANT), &[R, "default-tag"], &[R, "default-tag", "dormant"]),
];

const fn layer(guard: Guard, before: Components, after: Components) -> Layer {
    Layer { guard, before, after }
}

/// True for another revision than the default one.
pub(crate) const IS_REVISED: Guard = Guard::If("$suffix");

/// Returns the objects of all layers.
pub(crate) fn objects(programs: &Programs) -> Result<Tree> {
    let rendered = renderings(programs)?;
    let default = |components: Components| &rendered[&(components, false)];
    let revised = |components: Components| &rendered[&(components, true)];
    let mut tree = Tree::new(default(&[R]));
    tree.apply(default(&[R]), revised(&[R]), &IS_REVISED)?;
    for Layer { guard, before, after } in &LAYERS {
        let context = || format!("{after:?}");
        tree.apply(default(before), default(after), guard).with_context(context)?;
        tree.apply(default(after), revised(after), &IS_REVISED).with_context(context)?;
    }
    for Layer { guard, before, after } in &OF_REVISIONS {
        let context = || format!("{after:?}");
        tree.apply(revised(before), revised(after), guard).with_context(context)?;
    }
    Ok(tree)
}

type Components = &'static [&'static str];

/// Renders what the layers compare, each composition once: of the default revision, and of another.
fn renderings(programs: &Programs) -> Result<BTreeMap<(Components, bool), Value>> {
    let both = LAYERS.iter().flat_map(|layer| [layer.before, layer.after]);
    let both = both.flat_map(|components| [(components, false), (components, true)]);
    let revised = OF_REVISIONS.iter().flat_map(|layer| [layer.before, layer.after]);
    let wanted: BTreeSet<_> = both.chain(revised.map(|components| (components, true))).collect();
    let wanted: Vec<_> = wanted.into_iter().collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let render_all = |part: &[(Components, bool)]| -> Result<Vec<_>> {
            let one = |&(components, is_revised)| {
                Ok(((components, is_revised), render(programs, components, is_revised)?))
            };
            part.iter().map(one).collect()
        };
        let parts = wanted.chunks(wanted.len().div_ceil(threads));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || render_all(part))).collect();
        let mut rendered = BTreeMap::new();
        for thread in running {
            let part = thread.join().map_err(|_| anyhow!("rendering panicked"))?;
            rendered.extend(part?);
        }
        Ok(rendered)
    })
}

/// Renders components, with a name of each revision in place of the default one if it is wanted.
fn render(programs: &Programs, components: &[&str], is_revised: bool) -> Result<Value> {
    let is_mesh = components.contains(&MESH);
    let components: Vec<_> = components
        .iter()
        .filter(|component| **component != MESH)
        .map(|component| match *component {
            R if !is_revised => "no-namespace",
            R if is_mesh => "mesh-revision",
            component => component,
        })
        .collect();
    let mut names = Vec::new();
    if is_revised {
        names.push(("revision", "revision", REVISION));
    }
    if components.contains(&"tag") {
        names.push(("tag", "tag", TAG));
    }
    let folder = if is_mesh { "mesh" } else { "base" };
    let text = manifests::render(programs, folder, &components, &names)?;
    let documents = text.split("\n---\n").map(|document| {
        let mut document: Value = documents::yaml::parse(document)?;
        forget_settings(&mut document);
        Ok(document)
    });
    documents.collect()
}

/// Replaces the documents in a `ConfigMap`, which the chart makes from its values.
fn forget_settings(document: &mut Value) {
    let name = without_revision(document["metadata"]["name"].as_str().unwrap_or_default());
    let names = ["istio", "istio-sidecar-injector"];
    if document["kind"] == "ConfigMap" && names.contains(&name.as_str()) {
        for (key, text) in document["data"].as_object_mut().into_iter().flatten() {
            *text = json!(format!("the settings {key}"));
        }
    }
}
