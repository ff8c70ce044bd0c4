//! State from another version or another program, found at the start.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use e2e::wait;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::json;
use webhook_certs::bundle::Bundle;
use webhook_certs::secret::State;

use crate::files::Keeper;
use crate::fixture::{Fixture, SECRET};
use crate::mount::Mount;

/// A24: an older program used the same CA, and wrote nothing else into the Secret.
pub(crate) async fn secret_without_annotations_is_adopted_with_its_ca(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    let keeper = Keeper::create()?;
    let bundle = Bundle::new(keeper.0.ca().clone(), []);
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": SECRET}}))?;
    let mut secret = State::new(keeper.0.clone(), 1, Timestamp::now()).write(secret);
    secret.metadata.annotations = None;
    fixture.secrets().create(&PostParams::default(), &secret).await?;
    // The older program still serves, with a leaf of that CA.
    let mut mount =
        Mount::create(&fixture.shared.servers.folder().folder("mounted")?.join("earlier"))?;
    let leaf = keeper.issue()?;
    mount.swap(&leaf.certificate_pem(), &leaf.key_pem())?;
    let own = fixture.serve_files(&mount, "1s");
    fixture.start(1)?;
    fixture.until_ready()?;
    fixture.configure().await?;
    fixture.publish(bundle.to_pem().as_bytes()).await?;
    fixture.until_injected().await?;
    let load = fixture.load();
    load.until_admitted(50).await?;

    fixture.set_flags(own);
    for index in 0..2 {
        fixture.add()?;
        load.until_admitted(50).await.with_context(|| format!("beside replica {index}"))?;
    }
    let end = fixture.retire(0)?;
    let state = fixture.until_published().await?;
    ensure!(state.active == keeper.0, "another CA signs");
    load.until_admitted(100).await?;
    let mut tally = load.stop().await?;
    // An API server may send a call at the moment when its connection is closed.
    let lost = tally.excuse(|failure| failure.broke_off_in(&end));
    let patches = fixture.writes("mutatingwebhookconfigurations")?;
    fixture.tell(&tally, &format!("{lost} calls met the end of their connection"))?;
    ensure!(patches == 0, "{patches} writes of bundles that were right");
    tally.expect_no_failure()
}

/// A24: the Secret of another program.
pub(crate) async fn foreign_secret_becomes_usable_and_keeps_its_data(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    let keeper = Keeper::create()?;
    let bundle = Bundle::new(keeper.0.ca().clone(), []);
    let leaf = keeper.issue()?;
    let (ca, ca_key) = (keeper.0.certificate_pem(), keeper.0.key_pem().to_string());
    let (certificate, key) = (leaf.certificate_pem(), leaf.key_pem().to_string());
    let nothing = String::new();
    let layouts = [
        (
            "istio.io/ca-root",
            vec![
                ("ca-cert.pem", &ca),
                ("ca-key.pem", &ca_key),
                ("cert-chain.pem", &nothing),
                ("key.pem", &nothing),
                ("root-cert.pem", &nothing),
            ],
        ),
        (
            "Opaque",
            vec![
                ("ca.crt", &ca),
                ("ca.key", &ca_key),
                ("tls.crt", &certificate),
                ("tls.key", &key),
            ],
        ),
        ("kubernetes.io/tls", vec![("ca.crt", &ca), ("tls.crt", &certificate), ("tls.key", &key)]),
    ];
    for (kind, layout) in layouts {
        let mut fixture = Fixture::set(fixture.shared, fixture.name).await?;
        let theirs: BTreeMap<_, _> =
            layout.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes())).collect();
        let played = found(&mut fixture, kind, &theirs, &bundle).await;
        played.with_context(|| kind.to_owned()).map_err(|error| fixture.explain(&error))?;
    }
    Ok(())
}

async fn found(
    fixture: &mut Fixture<'_>,
    kind: &str,
    theirs: &BTreeMap<String, &[u8]>,
    bundle: &Bundle,
) -> Result<()> {
    let mut secret: Secret =
        serde_json::from_value(json!({"type": kind, "metadata": {"name": SECRET}}))?;
    let data = theirs.iter().map(|(key, value)| (key.clone(), ByteString(value.to_vec())));
    secret.data = Some(data.collect());
    fixture.secrets().create(&PostParams::default(), &secret).await?;
    fixture.configure().await?;
    fixture.publish(bundle.to_pem().as_bytes()).await?;
    fixture.start(2)?;
    fixture.until_ready()?;
    fixture.until_injected().await?;
    let state = fixture.state().await?;
    // Servers with a leaf of that CA are trusted until the grace period ends.
    wait::until_async("both CAs are trusted", async || {
        for published in fixture.bundles().await? {
            ensure!(published.is_superset_of(bundle), "theirs is gone: {published:?}");
            ensure!(published.is_superset_of(&state.bundle()), "ours is not there: {published:?}");
        }
        Ok(())
    })
    .await?;
    let after = fixture.secrets().get(SECRET).await?.data.unwrap_or_default();
    for (key, value) in theirs {
        let is_kept = after.get(key).is_some_and(|now| now.0 == *value);
        ensure!(is_kept || key == "ca.crt", "key {key} of theirs is not what it was");
    }
    let load = fixture.load();
    load.until_admitted(50).await?;
    let tally = load.stop().await?;
    fixture.tell(&tally, &format!("a Secret of type {kind}"))?;
    tally.expect_no_failure()
}
