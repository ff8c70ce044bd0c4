//! Content of the Secret; the only place at which a CA is made.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::authority::{Authority, AuthorityError, Entropy, Lifetime};
use crate::options::Options;
use crate::rotation::{Content, ProductionRules, Rules};
use crate::secret::State;

/// Makes the state to write, with a new CA or certificate where the content needs one.
pub(super) fn state(
    content: Content,
    options: &Options,
    now: Timestamp,
) -> Result<State, AuthorityError> {
    let lifetime = Lifetime::starting(now, options.parameters.authority_lifetime);
    let entropy = Entropy::draw()?;
    match content {
        Content::State(state) => Ok(state),
        Content::Renewed(state) => {
            state.active.renewed(lifetime, entropy).map(|active| State { active, ..state })
        }
        Content::Prepared(state) => {
            Authority::create(&options.install, state.generation, lifetime, entropy)
                .map(|next| ProductionRules::prepare(state, next, now))
        }
        Content::New { generation } => {
            Authority::create(&options.install, generation, lifetime, entropy)
                .map(|active| State::new(active, generation, now))
        }
    }
}

/// Secret without data.
pub(super) fn empty_secret(options: &Options) -> Secret {
    let labels = [
        ("app.kubernetes.io/managed-by", options.field_manager()),
        ("app.kubernetes.io/part-of", options.install.clone()),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(options.secret_name.clone()),
            namespace: Some(options.namespace.clone()),
            labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

/// Field manager other than `ours` that last wrote data into the Secret. A manager that only
/// removed data is not recorded by the API server.
pub(super) fn last_writer(secret: &Secret, ours: &str) -> Option<String> {
    let managers = secret.metadata.managed_fields.iter().flatten();
    managers
        .filter(|fields| fields.manager.as_deref().is_some_and(|manager| manager != ours))
        .filter(|fields| {
            fields.fields_v1.as_ref().is_some_and(|fields| !fields.0["f:data"].is_null())
        })
        .max_by_key(|fields| fields.time.as_ref().map(|time| time.0))
        .and_then(|fields| fields.manager.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rotation::fixtures::{at, authority};

    #[test]
    fn new_secret_is_mutable() {
        let state = State::new(authority(1, 0), 1, at(0));
        let written = state.write(empty_secret(&Options::default()));
        assert_eq!(written.immutable, None);
    }
}
