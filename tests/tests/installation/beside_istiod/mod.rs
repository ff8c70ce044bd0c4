//! The whole mesh as a revision of its own, beside Istio's own control plane with the same CA.

mod object_versions;
mod peer;
mod program;
mod shared_ca;
mod sidecar;

use anyhow::{Context, Result, ensure};
use e2e::istio_programs::{IstioPrograms, Istiod};
use e2e::istiod;
use e2e::manifests::Composition;
use e2e::wait;

use crate::fixture::Fixture;
use crate::injector::Injector;
use crate::pods;

use object_versions::ObjectVersions;
use peer::Peer;
use program::Program;
use shared_ca::SharedCa;
use sidecar::Sidecar;

pub(crate) fn revision_beside_istiod_shares_its_root_alone(fixture: &Fixture) -> Result<()> {
    let Some(programs) = IstioPrograms::find_if_any("the whole mesh beside istiod")? else {
        return Ok(());
    };
    let ca = SharedCa::create()?;
    let mut istiod = install_istiod(fixture, &programs, &ca)?;
    let before = ObjectVersions::now(fixture)?;
    let audited = fixture.servers.audited()?;

    let rendered = MESH.render_over(&fixture.programs, "mesh")?;
    fixture.apply(&rendered)?;
    let mut ours = Program::of_manifests(fixture, &rendered, &ca)?;
    let mut injector = Injector::of_manifests(fixture, &rendered)?;
    fixture.until_published("istio-sidecar-injector-canary")?;

    // Pods of both namespaces get our control plane; those of istiod's do not reach our injector.
    for namespace in [OURS, TAGGED] {
        let pod = sidecar::injected_pod(fixture, namespace)?;
        ensure!(pod.contains("istiod-canary.istio-system.svc:15012"), "{namespace}: {pod}");
    }
    let injections = injector.count(INJECTIONS)?;
    let client = fixture.admin.clone();
    let called = fixture.runtime.block_on(pods::create(&client, THEIRS));
    let called = format!("{:#}", called.err().context("istiod's injector does not run")?);
    ensure!(called.contains("\"namespace.sidecar-injector.istio.io\""), "{called}");
    ensure!(injector.count(INJECTIONS)? == injections, "our injector was called");

    // Mutual TLS in both directions.
    let peer = Peer::start(fixture, &istiod, &ca)?;
    let mut sidecar = Sidecar::start(fixture, &ours.address)?;
    sidecar.until_ready()?;
    let talk = || {
        sidecar.calls_peer()?;
        peer.calls_sidecar()
    };
    wait::until("both workloads talk to each other", talk)?;
    peer.rejects_clients_without_certificate()?;

    // Without istiod, namespaces of our revision get their roots, and others stay istiod's.
    istiod.kill()?;
    let theirs = [("istio-theirs-late", "istio-injection=enabled"), ("istio-plain-late", "a=b")];
    let of_ours = [
        ("istio-ours-late", "istio.io/rev=canary"),
        ("istio-ours-tagged-late", "istio.io/rev=prod"),
    ];
    for (namespace, label) in theirs.into_iter().chain(of_ours) {
        pods::namespace(fixture, namespace, label)?;
    }
    for (namespace, _) in of_ours {
        ensure!(until_rooted(fixture, namespace)? == ca.root, "{namespace}: another root");
    }
    for (namespace, _) in theirs {
        ensure!(roots(fixture, namespace).is_err(), "{namespace} has roots without istiod");
    }
    talk()?;
    peer.sign(fixture, &ours.channel(&ca))?;
    let together = ObjectVersions::now(fixture)?;
    istiod.start_again(fixture.servers.folder())?;
    for (namespace, _) in theirs {
        until_rooted(fixture, namespace)?;
    }

    // And the other way round.
    ours.process.kill()?;
    talk()?;
    peer.sign(fixture, &peer::istiods(&istiod, &ca))?;
    ours.process.start_again(fixture.servers.folder())?;
    ours.until_ready()?;
    peer.sign(fixture, &ours.channel(&ca))?;
    talk()?;

    before.are_unchanged(fixture).context("since ours was installed")?;
    together.are_unchanged(fixture).context("since the restarts")?;
    program::writes_concern_own_objects_alone(fixture, &audited)?;
    let delete = ["delete", "--ignore-not-found", "--wait=false", "--filename", "-"];
    fixture.kubectl().must_with_input(delete, &rendered)?;
    drop(ours);
    injector.process.stop()?;
    before.are_unchanged(fixture).context("since ours was deleted")?;
    peer.sign(fixture, &peer::istiods(&istiod, &ca))
}

/// Installs the parts of Istio that the control planes could dispute, and starts istiod.
fn install_istiod(fixture: &Fixture, programs: &IstioPrograms, ca: &SharedCa) -> Result<Istiod> {
    let kubectl = fixture.kubectl();
    programs.prepare(kubectl)?;
    for (name, label) in [
        (THEIRS, "istio-injection=enabled"),
        ("istio-theirs-tagged", "istio.io/rev=stable"),
        ("istio-plain", "app=any"),
        (OURS, "istio.io/rev=canary"),
        (TAGGED, "istio.io/rev=prod"),
    ] {
        pods::namespace(fixture, name, label)?;
    }
    for object in [istiod::of_default_revision(false), istiod::of_tag("stable")] {
        kubectl.must_with_input(["create", "--filename", "-"], &object.to_string())?;
    }
    kubectl.must_with_input(["create", "--filename", "-"], ISTIOS_OBJECTS)?;
    let mesh = fixture.servers.folder().write("mesh", "rootNamespace: istio-system\n")?;
    let folder = format!("ROOT_CA_DIR={}", ca.folder().display());
    let istiod = Istiod::start(programs, &fixture.servers, &mesh, &[&folder])?;
    for namespace in [THEIRS, "istio-theirs-tagged", "istio-plain", OURS, TAGGED] {
        ensure!(until_rooted(fixture, namespace)? == ca.root, "{namespace}: another root");
    }
    Ok(istiod)
}

/// Waits until a namespace has the roots of workloads.
fn until_rooted(fixture: &Fixture, namespace: &str) -> Result<String> {
    wait::until(&format!("{namespace} has roots"), || roots(fixture, namespace))
}

fn roots(fixture: &Fixture, namespace: &str) -> Result<String> {
    let map = fixture.objects.get("configmap", namespace, "istio-ca-root-cert");
    let map = fixture.runtime.block_on(map)?;
    Ok(map["data"]["root-cert.pem"].as_str().context("it has no roots")?.to_owned())
}

const MESH: Composition =
    Composition { components: &["mesh-revision"], revision: Some("canary"), tags: &["prod"] };
/// Namespace of our revision.
const OURS: &str = "istio-ours";
/// Namespace of a tag of our revision.
const TAGGED: &str = "istio-ours-tagged";
/// Namespace of istiod's revision.
const THEIRS: &str = "istio-theirs";
const INJECTIONS: &str = "sidecar_injection_total{";
/// Objects with names that ours have in the default revision.
const ISTIOS_OBJECTS: &str = r#"
{apiVersion: v1, kind: Service, metadata: {name: istiod, namespace: istio-system},
 spec: {ports: [{name: https-dns, port: 15012}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: istio, namespace: istio-system},
 data: {mesh: "rootNamespace: istio-system"}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: istiod, namespace: istio-system}}
---
{apiVersion: v1, kind: Secret, metadata: {name: istio-ca-secret, namespace: istio-system}}
---
{apiVersion: security.istio.io/v1, kind: PeerAuthentication,
 metadata: {name: default, namespace: istio-theirs}, spec: {mtls: {mode: STRICT}}}
"#;
