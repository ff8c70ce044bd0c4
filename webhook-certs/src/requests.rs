//! What people ask for by annotations of the CA's Secret.

use k8s_openapi::api::core::v1::Secret;

use crate::bundle::TrustedCa;
use crate::secret::{Phase, State};

/// The annotation that asks for a new CA; its value is [`ROTATE_NOW`].
pub const ROTATE: &str = "outrigger.io/rotate";
/// The one value of [`ROTATE`].
pub const ROTATE_NOW: &str = "now";
/// The annotation that withdraws trust from a CA; its value is the number in the CA's name.
///
/// A CA that signs is rotated away first.
pub const REVOKE: &str = "outrigger.io/revoke";

/// What the annotations of a Secret ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// A new CA is wanted.
    pub rotate: bool,
    /// The number of the CA that must not be trusted any longer.
    pub revoke: Option<u64>,
    /// What cannot be understood, for people to read.
    pub complaint: Option<String>,
}

impl Requests {
    /// Reads the annotations of a Secret; what cannot be understood asks for nothing.
    pub fn read(secret: &Secret) -> Self {
        let value = |name: &str| secret.metadata.annotations.as_ref()?.get(name).cloned();
        let (rotate, revoke) = (value(ROTATE), value(REVOKE));
        let mut requests = Self {
            rotate: rotate.as_deref() == Some(ROTATE_NOW),
            revoke: revoke.as_deref().and_then(|number| number.parse().ok()),
            complaint: None,
        };
        if let (Some(value), false) = (rotate, requests.rotate) {
            requests.complaint = Some(format!(
                "annotation `{ROTATE}`: `{value}` asks for nothing; hint: only `{ROTATE_NOW}` does"
            ));
        } else if let (Some(value), None) = (revoke, requests.revoke) {
            requests.complaint = Some(format!(
                "annotation `{REVOKE}`: `{value}` is not the number of a CA; hint: it stands at \
                 the end of the CA's name"
            ));
        }
        requests
    }

    /// Tells whether `ca` must not be trusted any longer.
    pub fn revokes(&self, ca: &TrustedCa) -> bool {
        self.revoke.is_some() && self.revoke == ca.generation()
    }

    /// What cannot be understood, or asks for something that there is not.
    pub fn complaint_about(&self, state: &State) -> Option<String> {
        let others = state.phase.other().map(|authority| authority.ca().clone());
        let is_known = others.iter().chain([state.active.ca()]).any(|ca| self.revokes(ca));
        self.complaint.clone().or_else(|| {
            self.revoke.filter(|_| !is_known).map(|number| {
                format!(
                    "annotation `{REVOKE}`: the Secret holds no CA with the number {number}; hint: \
                     take the annotation away, or it revokes the CA that gets that number"
                )
            })
        })
    }

    /// Takes a request out of a Secret that is about to be written, if the step from `before` to
    /// `after` is what it asks for. One that comes during a rotation asks for another one.
    pub fn fulfil(secret: &mut Secret, before: &State, after: &State) {
        let requests = Self::read(secret);
        let Some(annotations) = secret.metadata.annotations.as_mut() else {
            return;
        };
        match (&before.phase, &after.phase) {
            (Phase::Steady, Phase::Prepared { .. }) => {
                annotations.remove(ROTATE);
            }
            (Phase::Activated { retiring }, Phase::Steady) if requests.revokes(retiring.ca()) => {
                annotations.remove(REVOKE);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn read(name: &str, value: &str) -> Requests {
        let annotations = Some([(name.to_owned(), value.to_owned())].into());
        Requests::read(&Secret {
            metadata: ObjectMeta { annotations, ..ObjectMeta::default() },
            ..Secret::default()
        })
    }

    #[test]
    fn only_known_values_ask_for_something_and_others_are_told() {
        assert_eq!(Requests::read(&Secret::default()), Requests::default());
        assert!(read(ROTATE, "now").rotate);
        assert_eq!(read(REVOKE, "7").revoke, Some(7));
        assert_eq!(
            read(ROTATE, "soon").complaint.as_deref(),
            Some(
                "annotation `outrigger.io/rotate`: `soon` asks for nothing; hint: only `now` does"
            )
        );
        let complaint = read(REVOKE, "all").complaint.unwrap();
        assert!(complaint.starts_with("annotation `outrigger.io/revoke`: `all` is not"));
    }
}
