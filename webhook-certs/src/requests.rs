//! What people ask for by annotations of the CA's Secret.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use crate::bundle::TrustedCa;
use crate::ca_numbers::CaNumbers;
use crate::secret::{Phase, State};

/// The annotation that asks for a new CA; its value is [`ROTATE_NOW`].
pub const ROTATE: &str = "outrigger.io/rotate";
/// The one value of [`ROTATE`].
pub const ROTATE_NOW: &str = "now";
/// The annotation that withdraws trust from CAs; its value is the number in the CA's name, or
/// several like `3,4`.
///
/// A CA that signs is rotated away first.
pub const REVOKE: &str = "outrigger.io/revoke";

/// What the annotations of a Secret ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// A new CA is wanted.
    pub rotate: bool,
    /// The numbers of the CAs that must not be trusted any longer.
    pub revoke: CaNumbers,
    /// What cannot be understood, for people to read.
    pub complaint: Option<String>,
}

impl Requests {
    /// Reads the annotations of a Secret; what cannot be understood asks for nothing.
    pub fn read(secret: &Secret) -> Self {
        let value = |name: &str| secret.metadata.annotations.as_ref()?.get(name);
        let mut complaints = Vec::new();
        let rotate = value(ROTATE);
        if let Some(value) = rotate.filter(|value| *value != ROTATE_NOW) {
            complaints.push(format!(
                "annotation `{ROTATE}`: `{value}` asks for nothing; hint: only `{ROTATE_NOW}` does"
            ));
        }
        let revoke = value(REVOKE).map(|value| value.parse::<CaNumbers>()).transpose();
        if let Err(error) = &revoke {
            complaints.push(format!(
                "annotation `{REVOKE}`: {error}, so that it asks for nothing; hint: numbers stand \
                 at the end of the CAs' names, several are written like `3,4`"
            ));
        }
        Self {
            rotate: rotate.is_some_and(|value| value == ROTATE_NOW),
            revoke: revoke.ok().flatten().unwrap_or_default(),
            complaint: (!complaints.is_empty()).then(|| complaints.join("; ")),
        }
    }

    /// Tells whether `ca` must not be trusted any longer.
    pub fn revokes(&self, ca: &TrustedCa) -> bool {
        self.revoke.holds(ca)
    }

    /// What cannot be understood, or asks for something that there is not.
    pub fn complaint_about(&self, state: &State) -> Option<String> {
        // What is done already may be asked for time and again by whoever applies the Secret.
        let mut unknown = self.revoke.without(&state.revoked);
        for (_, ca) in state.roles() {
            unknown.remove(ca);
        }
        let unknown = (!unknown.is_empty()).then(|| {
            format!(
                "annotation `{REVOKE}`: the Secret holds no CA with the number {unknown}; hint: it \
                 holds {}; take the number away, or it revokes the CA that gets it",
                held(state)
            )
        });
        let complaints: Vec<_> = self.complaint.clone().into_iter().chain(unknown).collect();
        (!complaints.is_empty()).then(|| complaints.join("; "))
    }

    /// Takes requests out of a Secret that is about to be written, if the step from `before` to
    /// `after` is what they ask for. A rotation that comes during a rotation asks for another one.
    ///
    /// A rotation that a revocation has undone is asked for anew.
    pub fn fulfil(secret: &mut Secret, before: &State, after: &State) {
        let mut revoke = Self::read(secret).revoke;
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

    /// Puts them into a Secret that is written again after it was damaged.
    pub(crate) fn restore(&self, secret: &mut Secret) {
        let annotations = secret.metadata.annotations.get_or_insert_default();
        if self.rotate {
            annotations.entry(ROTATE.to_owned()).or_insert_with(|| ROTATE_NOW.to_owned());
        }
        if !self.revoke.is_empty() {
            annotations.entry(REVOKE.to_owned()).or_insert_with(|| self.revoke.to_string());
        }
    }

    /// When somebody wrote [`REVOKE`] last, where the API server has noted it.
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

    /// The value of [`REVOKE`] that asks for the end of `ca` too.
    pub fn revoking(&self, ca: &TrustedCa) -> String {
        let mut revoke = self.revoke.clone();
        revoke.add(ca);
        revoke.to_string()
    }
}

/// The CA that a request to revoke `number` means, with its role; without a number, the CA that
/// signs, where no other one has signed before it and may be the one that is meant.
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

/// Why it is not known which CA is to be revoked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevocableError {
    /// No CA has that number.
    #[error("--revoke={number}: the Secret holds no CA with that number\nhint: it holds {held}")]
    Unknown {
        /// The number.
        number: u64,
        /// What the Secret holds.
        held: String,
    },
    /// Two CAs may be meant.
    #[error(
        "--revoke: a rotation is under way, and either CA may be the one that is meant\n\
         hint: --revoke=NUMBER says which; the Secret holds {held}"
    )]
    Ambiguous {
        /// What the Secret holds.
        held: String,
    },
    /// The CA was not made by this program, so that nothing calls it by a number.
    #[error("--revoke: the CA `{name}` has no number at the end of its name to revoke it by")]
    NoNumber {
        /// The subject of the CA.
        name: String,
    },
}

/// The CAs of a state for people to read.
fn held(state: &State) -> String {
    let named = |(role, ca): &(&str, &TrustedCa)| format!("{} ({role})", ca.name());
    state.roles().iter().map(named).collect::<Vec<_>>().join(" and ")
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
        assert_eq!(read(REVOKE, "7, 4").revoke, [4, 7].into_iter().collect());
        assert_eq!(
            read(ROTATE, "soon").complaint.as_deref(),
            Some(
                "annotation `outrigger.io/rotate`: `soon` asks for nothing; hint: only `now` does"
            )
        );
        let asked = read(REVOKE, "7,all");
        assert_eq!(
            asked.complaint.as_deref(),
            Some(
                "annotation `outrigger.io/revoke`: `all` is not the number of a CA, so that it \
                 asks for nothing; hint: numbers stand at the end of the CAs' names, several are \
                 written like `3,4`"
            )
        );
        assert!(asked.revoke.is_empty());
    }
}
