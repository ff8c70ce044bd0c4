//! One reconciliation of a replica, and its expected actions.

use k8s_openapi::api::core::v1::Secret;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::options::Parameters;
use webhook_certs::rotation::{Action, BundlePatch, Memory, Observation, decide};
use webhook_certs::secret::State;

use crate::fixtures::{at, configuration, names};

pub(crate) fn secret(state: &State) -> Secret {
    state.write(Secret::default())
}

pub(crate) fn reconcile(
    memory: &mut Memory,
    secret: impl Into<Option<Secret>>,
    bundle: &Bundle,
    hour: i64,
) -> Vec<Action> {
    let observation = Observation {
        secret: secret.into(),
        configurations: vec![configuration(bundle)],
        is_complete: true,
        ..Observation::default()
    };
    let parameters = Parameters::default();
    decide(memory, &observation, &names(), &parameters, at(hour)).actions
}

pub(crate) fn remembering(state: &State) -> Memory {
    let mut memory = Memory::default();
    memory.state = Some(state.clone());
    memory
}

pub(crate) fn serving(mut memory: Memory, authority: &Authority, hour: i64) -> Memory {
    let lifetime = Lifetime::starting(at(hour), Parameters::default().leaf_lifetime);
    let leaf = authority.issue(&names(), lifetime, Entropy::draw().unwrap());
    memory.leaf = Some(leaf.unwrap());
    memory
}

pub(crate) fn patched(bundle: &Bundle) -> Action {
    Action::PatchBundle(BundlePatch {
        name: "hook".to_owned(),
        uid: "1".to_owned(),
        resource_version: "1".to_owned(),
        entries: ["one", "two"].map(|name| (name.to_owned(), bundle.clone())).into(),
    })
}

pub(crate) fn serve(authority: &Authority) -> Action {
    Action::Serve { authority: authority.clone(), until: None }
}
