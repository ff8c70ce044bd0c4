//! Damage to the Secret and to bundles.

use anyhow::{Context, Result, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::secret::State;
use webhook_certs::secret::ca_numbers::CaNumbers;
use webhook_certs::secret::rotation_requests::{REVOKE, ROTATE, ROTATE_NOW};

use crate::deployer::apply_bundle;
use crate::fixture::{Fixture, OURS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    Deleted,
    Empty,
    Garbage,
    Truncated,
    Unannotated,
    /// An older copy, as from a backup.
    Older,
    /// The same generation with another CA.
    Exchanged,
    /// A later generation with another CA.
    Overtaken,
    /// Deleted, and created anew with another type.
    OtherType,
}

pub(crate) const DAMAGES: [Damage; 9] = [
    Damage::Deleted,
    Damage::Empty,
    Damage::Garbage,
    Damage::Truncated,
    Damage::Unannotated,
    Damage::Older,
    Damage::Exchanged,
    Damage::Overtaken,
    Damage::OtherType,
];

/// Damages the current Secret, unless another writer is faster.
pub(crate) async fn damage(fixture: &Fixture<'_>, damage: Damage, copy: &State) -> Result<()> {
    let (secrets, name) = (fixture.secrets(), &fixture.options.secret_name);
    let mut secret = secrets.get(name).await?;
    let found = State::parse(&secret)?;
    match damage {
        Damage::Deleted | Damage::OtherType => {
            secrets.delete(name, &DeleteParams::default()).await?;
            if damage == Damage::OtherType {
                let other = json!({
                    "metadata": {"name": name},
                    "type": "kubernetes.io/tls",
                    "data": {"tls.crt": "", "tls.key": ""},
                });
                let other: Secret = serde_json::from_value(other)?;
                // A replica may have been faster.
                let _ = secrets.create(&PostParams::default(), &other).await;
            }
            return Ok(());
        }
        Damage::Empty => secret.data = None,
        Damage::Garbage => {
            for value in secret.data.iter_mut().flat_map(|data| data.values_mut()) {
                *value = ByteString(b"garbage".to_vec());
            }
        }
        Damage::Truncated => {
            let data = secret.data.as_mut().context("it is empty")?;
            data.remove("active.key");
        }
        Damage::Unannotated => secret.metadata.annotations = None,
        Damage::Older => secret = copy.write(secret),
        Damage::Exchanged => secret = other(found.generation)?.write(secret),
        Damage::Overtaken => secret = other(found.generation + 5)?.write(secret),
    }
    secrets.replace(name, &PostParams::default(), &secret).await?;
    Ok(())
}

/// CAs to revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revoked {
    None,
    Active,
    /// The next or the retiring one.
    Other,
    Both,
}

/// Requests a rotation, revocations, or both.
pub(crate) async fn ask(fixture: &Fixture<'_>, rotate: bool, revoked: Revoked) -> Result<()> {
    let state = fixture.state().await?;
    let active = [&state.active].into_iter().filter(|_| revoked != Revoked::Other);
    let other = state.phase.other().filter(|_| revoked != Revoked::Active);
    let cas = active.chain(other).filter(|_| revoked != Revoked::None);
    let numbers: CaNumbers = cas.filter_map(|authority| authority.ca().generation()).collect();
    let mut annotations = serde_json::Map::new();
    if rotate {
        annotations.insert(ROTATE.to_owned(), json!(ROTATE_NOW));
    }
    if !numbers.is_empty() {
        annotations.insert(REVOKE.to_owned(), json!(numbers.to_string()));
    }
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    fixture.secrets().patch(&fixture.options.secret_name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Adds foreign CAs to the current bundles, and takes ownership of the fields.
pub(crate) async fn add_foreign(fixture: &Fixture<'_>, count: u64) -> Result<()> {
    let Some(Some(now)) = fixture.bundles().await?.remove(OURS[0]) else {
        bail!("there is no bundle");
    };
    let foreign = (0..count).map(|number| Ok(other(number)?.active.ca().clone()));
    let foreign: Vec<_> = foreign.collect::<Result<_>>()?;
    apply_bundle(fixture, &Bundle::observed(&now).with(foreign)).await
}

fn other(generation: u64) -> Result<State> {
    let now = Timestamp::now();
    let lifetime = Lifetime::starting(now, SignedDuration::from_hours(100));
    let authority = Authority::create("other", generation, lifetime, Entropy::draw()?)?;
    Ok(State::new(authority, generation, now))
}
