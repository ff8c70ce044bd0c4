//! What people should hear of without looking for it: as Events on the CA's Secret.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;

use crate::authority::Authority;
use crate::clock;
use crate::probe::ProbeFailure;
use crate::requests::{ROTATE, ROTATE_NOW};
use crate::rotation::Revocation;
use crate::secret::{Phase, State, immutable_complaint};

/// Something that has happened, in the terms of a Kubernetes Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Whether somebody should do something.
    pub is_warning: bool,
    /// Why it is told: one word in camel case, the same for all of its kind.
    pub reason: &'static str,
    /// What was done or tried.
    pub action: &'static str,
    /// What has happened, for people to read.
    pub note: String,
}

impl News {
    /// The Secret was unusable or not there, and has been written again.
    ///
    /// `manager` is the field manager that the API server names as another writer of its data.
    pub fn secret_restored(name: &str, complaint: &str, manager: Option<&str>) -> Self {
        let by = manager.map(|manager| format!(" (data in it was written by `{manager}`)"));
        Self::warning(
            "CASecretRestored",
            "Restore",
            format!(
                "{complaint}{}; hint: to replace the CA, `kubectl annotate secret {name} \
                 {ROTATE}={ROTATE_NOW}`",
                by.unwrap_or_default()
            ),
        )
    }

    /// The Secret can only be deleted.
    pub fn secret_immutable(secret: &Secret) -> Self {
        Self::warning("CASecretImmutable", "Look", immutable_complaint(secret))
    }

    /// The state of the Secret went on from `before` by a write of ours.
    pub fn state_written(before: Option<&State>, after: &State) -> Option<Self> {
        let active = after.active.ca();
        let Some(before) = before else {
            let is_new = after.phase == Phase::Steady;
            return is_new.then(|| {
                let (name, until) = (active.name(), active.not_after());
                let note = format!("the CA {name} was made, valid until {until}");
                Self::normal("CACreated", "Create", note)
            });
        };
        Self::step(before, after).map(|note| Self::normal("CARotation", "Rotate", note))
    }

    /// What has become of the CAs, for people to read.
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

    /// Somebody asks not to trust a CA any longer.
    pub fn revocation(revocation: &Revocation) -> Self {
        let Revocation { authority, role, next_step, .. } = revocation;
        let note = format!("the CA {authority} ({role}) is revoked: {next_step}");
        Self::normal("CARevocation", "Revoke", note)
    }

    /// Somebody else keeps writing `caBundle`.
    pub fn contended(configuration: &str, managers: &[String]) -> Self {
        let by = if managers.is_empty() {
            "somebody whom the API server does not name".to_owned()
        } else {
            managers.join(", ")
        };
        Self::warning(
            "CABundleContended",
            "Publish",
            format!(
                "caBundle in mutatingwebhookconfigurations/{configuration} was overwritten again \
                 and again within {CONTENTION:#} by {by}; it is written back less and less often; hint: \
                 take caBundle out of what they apply"
            ),
        )
    }

    /// Webhook entries trust a CA that is not of this installation.
    pub fn foreign(name: &str) -> Self {
        Self::warning(
            "ForeignCA",
            "Publish",
            format!(
                "a caBundle holds the CA `{name}`, which neither the Secret nor a --signer-ca-file \
                 holds; --foreign-ca says how long it stays"
            ),
        )
    }

    /// The clock is wrong.
    pub fn clock_skew(ahead: SignedDuration) -> Self {
        Self::warning("ClockSkew", "Look", clock::complaint(ahead))
    }

    /// The API server does not call the webhook.
    pub fn probe_failed(failure: &ProbeFailure) -> Self {
        Self::warning("TrustProbeFailed", "Probe", failure.to_string())
    }

    /// It does again.
    pub fn probe_succeeded() -> Self {
        let note = "the API server calls the webhook and trusts its certificate again";
        Self::normal("TrustProbeSucceeded", "Probe", note.to_owned())
    }

    /// The signer does not sign, or what it signs is of no use.
    pub fn request_failed(error: &str) -> Self {
        Self::warning("CertificateRequestFailed", "Request", error.to_owned())
    }

    fn warning(reason: &'static str, action: &'static str, note: String) -> Self {
        Self { is_warning: true, reason, action, note }
    }

    fn normal(reason: &'static str, action: &'static str, note: String) -> Self {
        Self { is_warning: false, reason, action, note }
    }
}

/// The time in which several overwrites make a contention.
pub const CONTENTION: SignedDuration = SignedDuration::from_mins(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::{Entropy, Lifetime};
    use crate::options::Parameters;
    use crate::rotation::tests::{at, authority};

    #[test]
    fn each_step_of_a_rotation_is_told_once() {
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
        let told = |before: Option<&State>, after: &State| {
            News::state_written(before, after).map(|news| (news.reason, news.note))
        };
        let notes = [
            told(None, &new),
            told(Some(&new), &prepared),
            told(Some(&prepared), &activated),
            told(Some(&activated), &steady),
            told(Some(&new), &renewed),
            // Nothing was set back by that.
            told(Some(&activated), &renew(&activated)),
            told(Some(&activated), &activated.clone().prolonged(at(2))),
            told(Some(&activated), &activated.clone().activated(new.active.clone(), at(2))),
            told(Some(&activated), &activated.clone().revoking(new.active.ca()).retired(at(2))),
            told(Some(&prepared), &prepared.clone().revoking(steady.active.ca()).retired(at(1))),
        ];
        let notes = notes.map(|told| told.map(|(reason, note)| format!("{reason}: {note}")));
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
        assert_eq!(told(Some(&new), &new), None);
    }

    #[test]
    fn whoever_fights_for_a_bundle_is_named() {
        let news = News::contended("hook", &["flux".to_owned(), "kubectl".to_owned()]);
        assert!(
            news.note
                .contains("hook was overwritten again and again within 10m by flux, kubectl; ")
        );
        let news = News::contended("hook", &[]);
        assert!(news.note.contains("by somebody whom the API server does not name; "));
    }
}
