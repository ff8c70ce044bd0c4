//! Requests of users by annotations of the CA Secret.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::ca_numbers::CaNumbers;
use super::{Phase, State};
use crate::bundle::TrustedCa;

/// Annotation that requests a new CA; its value is [`ROTATE_NOW`].
pub const ROTATE: &str = "outrigger.io/rotate";
/// Only value of [`ROTATE`].
pub const ROTATE_NOW: &str = "now";
/// Annotation that revokes CAs; its value is the number at the end of a CA's name, or several like
/// `3,4`.
///
/// A signing CA is rotated away first.
pub const REVOKE: &str = "outrigger.io/revoke";

/// Requests in the annotations of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RotationRequests {
    /// True if a new CA is requested.
    pub rotate: bool,
    /// Numbers of the revoked CAs.
    pub revoke: CaNumbers,
    /// Problem of the annotations, if they have one.
    pub problem: Option<String>,
}

impl RotationRequests {
    /// Parses the annotations of a Secret; invalid values request nothing.
    pub fn from_secret(secret: &Secret) -> Self {
        let value = |name: &str| secret.metadata.annotations.as_ref()?.get(name);
        let mut problems = Vec::new();
        let rotate = value(ROTATE);
        if let Some(value) = rotate.filter(|value| *value != ROTATE_NOW) {
            problems.push(format!(
                "annotation `{ROTATE}` has the invalid value `{value}` and is ignored; hint: the \
                 only valid value is `{ROTATE_NOW}`"
            ));
        }
        let revoke = value(REVOKE).map(|value| value.parse::<CaNumbers>()).transpose();
        if let Err(error) = &revoke {
            problems.push(format!(
                "annotation `{REVOKE}` is ignored: {error}; hint: give the numbers at the end of \
                 the CAs' names, several like `3,4`"
            ));
        }
        Self {
            rotate: rotate.is_some_and(|value| value == ROTATE_NOW),
            revoke: revoke.ok().flatten().unwrap_or_default(),
            problem: (!problems.is_empty()).then(|| problems.join("; ")),
        }
    }

    /// True if `ca` is revoked.
    pub fn revokes(&self, ca: &TrustedCa) -> bool {
        self.revoke.holds(ca)
    }

    /// Problem of the annotations, including requests about unknown CAs.
    pub fn problem_with(&self, state: &State) -> Option<String> {
        // Finished revocations may be in a manifest that is applied repeatedly.
        let mut unknown = self.revoke.without(&state.revoked);
        for (_, ca) in state.roles() {
            unknown.remove(ca);
        }
        let unknown = (!unknown.is_empty()).then(|| {
            format!(
                "annotation `{REVOKE}`: the Secret holds no CA with the number {unknown}; hint: it \
                 holds {}; remove the number: a later CA that gets it would be revoked",
                held(state)
            )
        });
        let problems: Vec<_> = self.problem.clone().into_iter().chain(unknown).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    /// Removes the requests that the step from `before` to `after` fulfils. A rotation requested
    /// during a rotation remains.
    ///
    /// A rotation that a revocation has undone is requested again.
    pub fn fulfil(secret: &mut Secret, before: &State, after: &State) {
        let mut revoke = Self::from_secret(secret).revoke;
        let annotations = secret.metadata.annotations.get_or_insert_default();
        match (&before.phase, &after.phase) {
            (Phase::Steady, Phase::Prepared { .. }) => {
                annotations.remove(ROTATE);
            }
            (Phase::Prepared { .. }, Phase::Steady) => {
                annotations.insert(ROTATE.to_owned(), ROTATE_NOW.to_owned());
            }
            (Phase::Activated { retiring }, Phase::Activated { .. })
                if after.active == *retiring =>
            {
                annotations.insert(ROTATE.to_owned(), ROTATE_NOW.to_owned());
            }
            _ => {}
        }
        let dropped: Vec<_> =
            before.roles().into_iter().filter(|(_, ca)| !after.knows(ca)).collect();
        if dropped.iter().any(|(_, ca)| revoke.holds(ca)) {
            for (_, ca) in dropped {
                revoke.remove(ca);
            }
            if revoke.is_empty() {
                annotations.remove(REVOKE);
            } else {
                annotations.insert(REVOKE.to_owned(), revoke.to_string());
            }
        }
    }

    /// Adds the requests to a Secret that is restored.
    pub fn restore(&self, secret: &mut Secret) {
        let annotations = secret.metadata.annotations.get_or_insert_default();
        if self.rotate {
            annotations.entry(ROTATE.to_owned()).or_insert_with(|| ROTATE_NOW.to_owned());
        }
        if !self.revoke.is_empty() {
            annotations.entry(REVOKE.to_owned()).or_insert_with(|| self.revoke.to_string());
        }
    }

    /// Instant at which [`REVOKE`] was last written, if the API server recorded it.
    pub fn revoked_at(secret: &Secret) -> Option<Timestamp> {
        let annotation = format!("f:{REVOKE}");
        let managers = secret.metadata.managed_fields.iter().flatten();
        managers
            .filter(|fields| {
                fields.fields_v1.as_ref().is_some_and(|fields| {
                    !fields.0["f:metadata"]["f:annotations"][&annotation].is_null()
                })
            })
            .filter_map(|fields| fields.time.as_ref().map(|time| time.0))
            .max()
    }

    /// Value of [`REVOKE`] that revokes `ca` too.
    pub fn revoking(&self, ca: &TrustedCa) -> String {
        let mut revoke = self.revoke.clone();
        revoke.add(ca);
        revoke.to_string()
    }
}

/// Finds the CA to revoke, with its role. Without a number it is the signing CA, which is ambiguous
/// during a rotation.
pub fn revocable(
    state: &State,
    number: Option<u64>,
) -> Result<(&'static str, &TrustedCa), RevocableError> {
    let mut roles = state.roles().into_iter();
    let found = match (number, &state.phase) {
        (Some(number), _) => roles
            .find(|(_, ca)| ca.generation() == Some(number))
            .ok_or_else(|| RevocableError::Unknown { number, held: held(state) })?,
        (None, Phase::Activated { .. }) => {
            return Err(RevocableError::Ambiguous { held: held(state) });
        }
        (None, Phase::Steady | Phase::Prepared { .. }) => ("active", state.active.ca()),
    };
    match found.1.generation() {
        Some(_) => Ok(found),
        None => Err(RevocableError::NoNumber { name: found.1.name().to_owned() }),
    }
}

/// Reason for which the CA to revoke is unknown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevocableError {
    /// No CA has the number.
    #[error("--revoke={number}: the Secret holds no CA with that number; hint: it holds {held}")]
    Unknown {
        /// Requested number.
        number: u64,
        /// CAs in the Secret.
        held: String,
    },
    /// Either of two CAs may be meant.
    #[error(
        "--revoke: a rotation is in progress, and two CAs are trusted; \
         hint: choose one with --revoke=NUMBER; the Secret holds {held}"
    )]
    Ambiguous {
        /// CAs in the Secret.
        held: String,
    },
    /// The CA was made by another program and has no number.
    #[error("--revoke: the CA `{name}` has no number at the end of its name and cannot be revoked")]
    NoNumber {
        /// Subject of the CA.
        name: String,
    },
}

/// Names and roles of the CAs in a state.
fn held(state: &State) -> String {
    let named = |(role, ca): &(&str, &TrustedCa)| format!("{} ({role})", ca.name());
    state.roles().iter().map(named).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn read(name: &str, value: &str) -> RotationRequests {
        let annotations = Some([(name.to_owned(), value.to_owned())].into());
        RotationRequests::from_secret(&Secret {
            metadata: ObjectMeta { annotations, ..ObjectMeta::default() },
            ..Secret::default()
        })
    }

    #[test]
    fn invalid_annotation_values_are_reported() {
        assert_eq!(RotationRequests::from_secret(&Secret::default()), RotationRequests::default());
        assert!(read(ROTATE, "now").rotate);
        assert_eq!(read(REVOKE, "7, 4").revoke, [4, 7].into_iter().collect());
        assert_eq!(
            read(ROTATE, "soon").problem.as_deref(),
            Some(
                "annotation `outrigger.io/rotate` has the invalid value `soon` and is ignored; hint: the only valid value is `now`"
            )
        );
        let asked = read(REVOKE, "7,all");
        assert_eq!(
            asked.problem.as_deref(),
            Some(
                "annotation `outrigger.io/revoke` is ignored: `all` is not the number of a CA; hint: give the numbers at the end of the CAs' names, several like `3,4`"
            )
        );
        assert!(asked.revoke.is_empty());
    }
}
