//! Kubernetes Events on the CA Secret.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;

use super::probe_result::ProbeFailure;
use crate::authority::Authority;
use crate::rotation::Revocation;
use crate::rotation::clock_skew;
use crate::secret::rotation_requests::{ROTATE, ROTATE_NOW};
use crate::secret::{Phase, State, immutable_message};

/// Content of a Kubernetes Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventContent {
    /// True if a user should act.
    pub(super) is_warning: bool,
    /// Reason: one word in camel case, the same for all Events of its kind.
    pub(super) reason: &'static str,
    /// Action that was done or tried.
    pub(super) action: &'static str,
    /// Message to users.
    pub(super) note: String,
}

impl EventContent {
    /// The Secret was unusable or missing, and has been written again.
    ///
    /// `manager` is the other field manager that the API server names as a writer of its data.
    pub(super) fn secret_restored(name: &str, problem: &str, manager: Option<&str>) -> Self {
        let by = manager.map(|manager| format!(" (data in it was written by `{manager}`)"));
        Self::new(
            SECRET_RESTORED,
            format!(
                "{problem}{}; hint: to replace the CA, `kubectl annotate secret {name} \
                 {ROTATE}={ROTATE_NOW}`",
                by.unwrap_or_default()
            ),
        )
    }

    /// The Secret is immutable and can only be deleted.
    pub(super) fn secret_immutable(secret: &Secret) -> Self {
        Self::new(SECRET_IMMUTABLE, immutable_message(secret))
    }

    /// This replica wrote the state `after` in place of `before`.
    pub(super) fn state_written(before: Option<&State>, after: &State) -> Option<Self> {
        let active = after.active.ca();
        let Some(before) = before else {
            let is_new = after.phase == Phase::Steady;
            return is_new.then(|| {
                let (name, until) = (active.name(), active.not_after());
                let note = format!("the CA {name} was made, valid until {until}");
                Self::new(CA_CREATED, note)
            });
        };
        Self::step(before, after).map(|note| Self::new(CA_ROTATION, note))
    }

    /// Describes the change of the CAs.
    fn step(before: &State, after: &State) -> Option<String> {
        let active = after.active.ca();
        let name = active.name();
        let no_longer = |dropped: &Authority| {
            let dropped = dropped.ca();
            let why = if after.has_revoked(dropped) { ", as it is revoked" } else { "" };
            format!("the CA {} is trusted no longer{why}", dropped.name())
        };
        if before.active != after.active && before.active.ca().is_same_signer(active) {
            let until = active.not_after();
            return Some(format!("the CA {name} was near its end and is renewed until {until}"));
        }
        Some(match (&before.phase, &after.phase) {
            (Phase::Steady, Phase::Prepared { next }) => {
                format!("the CA {} is published beside {name}", next.ca().name())
            }
            (
                Phase::Prepared { next: dropped } | Phase::Activated { retiring: dropped },
                Phase::Steady,
            ) => no_longer(dropped),
            (Phase::Prepared { .. }, Phase::Activated { retiring }) => {
                let retiring = retiring.ca().name();
                format!("the CA {name} signs; {retiring} stays trusted for now")
            }
            (Phase::Activated { retiring: before }, Phase::Activated { retiring })
                if *before == after.active =>
            {
                let retiring = retiring.ca().name();
                format!("the CA {name} signs again, as {retiring} is revoked")
            }
            (Phase::Activated { .. }, Phase::Activated { retiring })
                if before.phase_since != after.phase_since =>
            {
                let retiring = retiring.ca().name();
                format!(
                    "entries were set back to trust {retiring} alone; it stays trusted for another \
                     retire delay"
                )
            }
            _ => return None,
        })
    }

    /// A user revokes a CA.
    pub(super) fn revocation(revocation: &Revocation) -> Self {
        let Revocation { authority, role, next_step, .. } = revocation;
        let note = format!("the CA {authority} ({role}) is revoked: {next_step}");
        Self::new(CA_REVOCATION, note)
    }

    /// Another writer keeps overwriting `caBundle`.
    pub(super) fn contended(configuration: &str, managers: &[String]) -> Self {
        let by = if managers.is_empty() {
            "an unknown field manager".to_owned()
        } else {
            managers.join(", ")
        };
        Self::new(
            BUNDLE_CONTENDED,
            format!(
                "caBundle in mutatingwebhookconfigurations/{configuration} was overwritten \
                 repeatedly within {CONTENTION:#} by {by}; it is restored at a limited rate; hint: \
                 remove caBundle from what that writer applies"
            ),
        )
    }

    /// Webhook entries trust a CA of another origin.
    pub(super) fn foreign(name: &str) -> Self {
        Self::new(
            FOREIGN_CA,
            format!(
                "a caBundle holds the CA `{name}`, which neither the Secret nor a --signer-ca-file \
                 holds; --foreign-ca says how long it stays"
            ),
        )
    }

    /// This machine's clock differs from the API server's.
    pub(super) fn clock_skew(ahead: SignedDuration) -> Self {
        Self::new(CLOCK_SKEW, clock_skew::message(ahead))
    }

    /// The API server does not call the webhook.
    pub(super) fn probe_failed(failure: &ProbeFailure) -> Self {
        Self::new(PROBE_FAILED, failure.to_string())
    }

    /// The API server calls the webhook again.
    pub(super) fn probe_succeeded() -> Self {
        let note = "the API server calls the webhook and trusts its certificate again";
        Self::new(PROBE_SUCCEEDED, note.to_owned())
    }

    /// The signer does not sign, or signs unusable certificates.
    pub(super) fn request_failed(error: &str) -> Self {
        Self::new(REQUEST_FAILED, error.to_owned())
    }

    fn new(spec: &EventSpec, note: String) -> Self {
        let &EventSpec { is_warning, reason, action, .. } = spec;
        Self { is_warning, reason, action, note }
    }
}

/// Row of the table of Events.
#[derive(Debug)]
pub(super) struct EventSpec {
    is_warning: bool,
    reason: &'static str,
    action: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page"))]
    when: &'static str,
}

macro_rules! events {
    ($($constant:ident = $reason:literal, $is_warning:literal, $action:literal, $when:literal;)*) => {
        $(
            #[doc = $when]
            const $constant: &EventSpec =
                &EventSpec { is_warning: $is_warning, reason: $reason, action: $action, when: $when };
        )*

        /// The whole table.
        #[cfg(test)]
        const EVENTS: &[&EventSpec] = &[$($constant),*];
    };
}

// Reason, whether it is a warning, action, and condition.
events! {
    SECRET_RESTORED = "CASecretRestored", true, "Restore",
        "the Secret was missing or unusable and was written again";
    SECRET_IMMUTABLE = "CASecretImmutable", true, "Look",
        "the Secret is immutable, so it cannot be kept up to date";
    CA_CREATED = "CACreated", false, "Create",
        "the first CA was made";
    CA_ROTATION = "CARotation", false, "Rotate",
        "a rotation made a step, or a CA was renewed";
    CA_REVOCATION = "CARevocation", false, "Revoke",
        "a user revokes a CA";
    BUNDLE_CONTENDED = "CABundleContended", true, "Publish",
        "another writer overwrote `caBundle` repeatedly within 10 minutes";
    FOREIGN_CA = "ForeignCA", true, "Publish",
        "a `caBundle` has a CA of another origin";
    CLOCK_SKEW = "ClockSkew", true, "Look",
        "the clock of this machine differs from that of the API server";
    PROBE_FAILED = "TrustProbeFailed", true, "Probe",
        "the API server does not call the webhook (`--trust-probe`)";
    PROBE_SUCCEEDED = "TrustProbeSucceeded", false, "Probe",
        "the API server calls the webhook again";
    REQUEST_FAILED = "CertificateRequestFailed", true, "Request",
        "the signer does not sign, or signs an unusable certificate";
}

/// Returns the rows of the reference page: reason, type, and condition.
#[cfg(test)]
pub(crate) fn rows() -> impl Iterator<Item = [&'static str; 3]> {
    EVENTS
        .iter()
        .map(|spec| [spec.reason, if spec.is_warning { "Warning" } else { "Normal" }, spec.when])
}

/// Period in which several overwrites are a contention.
pub(super) const CONTENTION: SignedDuration = SignedDuration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Entropy, Lifetime};
    use crate::options::Parameters;
    use crate::rotation::fixtures::{at, authority};

    #[test]
    fn each_step_of_a_rotation_has_its_event() {
        let new = State::new(authority(1, 0), 1, at(0));
        let prepared = new.clone().prepared(authority(2, 0), at(0));
        let Phase::Prepared { next } = prepared.phase.clone() else { panic!() };
        let activated = prepared.clone().activated(next, at(1));
        let steady = activated.clone().retired(at(2));
        let hours = Parameters::default().authority_lifetime;
        let lifetime = Lifetime::starting(at(5), hours);
        let renew = |state: &State| State {
            active: state.active.renewed(lifetime, Entropy::draw().unwrap()).unwrap(),
            ..state.clone()
        };
        let renewed = renew(&new);
        let event_of = |before: Option<&State>, after: &State| {
            EventContent::state_written(before, after).map(|event| (event.reason, event.note))
        };
        let notes = [
            event_of(None, &new),
            event_of(Some(&new), &prepared),
            event_of(Some(&prepared), &activated),
            event_of(Some(&activated), &steady),
            event_of(Some(&new), &renewed),
            // A renewal sets no entry back.
            event_of(Some(&activated), &renew(&activated)),
            event_of(Some(&activated), &activated.clone().prolonged(at(2))),
            event_of(Some(&activated), &activated.clone().activated(new.active.clone(), at(2))),
            event_of(Some(&activated), &activated.clone().revoking(new.active.ca()).retired(at(2))),
            event_of(
                Some(&prepared),
                &prepared.clone().revoking(steady.active.ca()).retired(at(1)),
            ),
        ];
        let notes =
            notes.map(|event_of| event_of.map(|(reason, note)| format!("{reason}: {note}")));
        assert_eq!(
            notes.map(Option::unwrap),
            [
                "CACreated: the CA CN=test-ca 1 was made, valid until 2020-12-19T00:00:00Z",
                "CARotation: the CA CN=test-ca 2 is published beside CN=test-ca 1",
                "CARotation: the CA CN=test-ca 2 signs; CN=test-ca 1 stays trusted for now",
                "CARotation: the CA CN=test-ca 1 is trusted no longer",
                "CARotation: the CA CN=test-ca 1 was near its end and is renewed until \
                 2020-12-19T05:00:00Z",
                "CARotation: the CA CN=test-ca 2 was near its end and is renewed until \
                 2020-12-19T05:00:00Z",
                "CARotation: entries were set back to trust CN=test-ca 1 alone; it stays trusted \
                 for another retire delay",
                "CARotation: the CA CN=test-ca 1 signs again, as CN=test-ca 2 is revoked",
                "CARotation: the CA CN=test-ca 1 is trusted no longer, as it is revoked",
                "CARotation: the CA CN=test-ca 2 is trusted no longer, as it is revoked",
            ]
        );
        assert_eq!(event_of(Some(&new), &new), None);
    }

    #[test]
    fn contention_event_names_the_field_managers() {
        let event = EventContent::contended("hook", &["flux".to_owned(), "kubectl".to_owned()]);
        assert!(
            event.note.contains("hook was overwritten repeatedly within 10m by flux, kubectl; ")
        );
        let event = EventContent::contended("hook", &[]);
        assert!(event.note.contains("by an unknown field manager; "));
    }
}
