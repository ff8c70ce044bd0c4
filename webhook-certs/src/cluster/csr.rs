//! Leaves from a signer of the cluster, by `CertificateSigningRequest`s.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring::default_provider;
use rustls_pki_types::UnixTime;

use crate::authority::Lifetime;
use crate::bundle::Bundle;
use crate::server_names::ServerNames;
use crate::serving::Identity;

/// State of a certificate signing request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsrState {
    /// Not approved, or not signed yet.
    Pending,
    /// Denied or failed, with the reason.
    Refused(String),
    /// Signed, with the chain in PEM, leaf first.
    Signed(Vec<u8>),
}

/// Returns the state of a request. A denial takes precedence over a certificate.
pub fn state(request: &CertificateSigningRequest) -> CsrState {
    let Some(status) = &request.status else {
        return CsrState::Pending;
    };
    let refusal = status.conditions.iter().flatten().find(|condition| {
        matches!(condition.type_.as_str(), "Denied" | "Failed") && condition.status != "False"
    });
    if let Some(refusal) = refusal {
        let word = if refusal.type_ == "Denied" { "denied" } else { "failed" };
        let reason = refusal.reason.as_deref().unwrap_or("no reason given");
        let message = refusal.message.as_deref().unwrap_or_default();
        return CsrState::Refused(format!("{word}: {reason} {message}").trim_end().to_owned());
    }
    match &status.certificate {
        Some(chain) if !chain.0.is_empty() => CsrState::Signed(chain.0.clone()),
        _ => CsrState::Pending,
    }
}

/// True if the request is approved.
pub fn is_approved(request: &CertificateSigningRequest) -> bool {
    let conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Approved" && condition.status != "False")
}

/// Instant of the next request: between half and two thirds of the lifetime, by `spread`, so that
/// replicas do not request together.
pub fn renew_at(lifetime: Lifetime, spread: u8) -> Timestamp {
    let span = lifetime.not_after.duration_since(lifetime.not_before);
    let percent = 50 + i32::from(spread) * 16 / i32::from(u8::MAX);
    lifetime.not_before.saturating_add(span / 100 * percent).unwrap_or(lifetime.not_after)
}

/// Pause after a number of failures in a row: `first`, doubled each time, up to an hour.
pub fn pause_after(refusals: u32, first: Duration) -> Duration {
    let times = 2_u32.saturating_pow(refusals.saturating_sub(1));
    first.saturating_mul(times).min(Duration::from_secs(3600))
}

/// Verifies that API servers which trust `bundle` accept the certificate at `now`, for the first of
/// `names`, which they call.
pub fn verify(
    identity: &Identity,
    bundle: &Bundle,
    names: &ServerNames,
    now: Timestamp,
) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.certificates().iter().map(|ca| ca.der().clone()));
    let provider = Arc::new(default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())?;
    let (leaf, rest) = identity.chain().split_first().ok_or("there is no certificate")?;
    let name = names.iter().next().ok_or("there is no name")?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(
        u64::try_from(now.as_second()).unwrap_or_default(),
    ));
    verifier
        .verify_server_cert(leaf, rest, name, &[], now)
        .map(drop)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use k8s_openapi::ByteString;
    use k8s_openapi::api::certificates::v1::{
        CertificateSigningRequestCondition, CertificateSigningRequestStatus,
    };

    use super::*;
    use crate::authority::Entropy;
    use crate::rotation::fixtures::{at, authority, names};

    fn answered(conditions: &[&str], certificate: Option<&[u8]>) -> CsrState {
        let condition = |type_: &&str| CertificateSigningRequestCondition {
            type_: (*type_).to_owned(),
            status: "True".to_owned(),
            reason: Some("Policy".to_owned()),
            ..CertificateSigningRequestCondition::default()
        };
        state(&CertificateSigningRequest {
            status: Some(CertificateSigningRequestStatus {
                conditions: Some(conditions.iter().map(condition).collect()),
                certificate: certificate.map(|chain| ByteString(chain.to_vec())),
            }),
            ..CertificateSigningRequest::default()
        })
    }

    #[test]
    fn denials_take_precedence_over_certificates() {
        assert_eq!(state(&CertificateSigningRequest::default()), CsrState::Pending);
        assert_eq!(answered(&["Approved"], None), CsrState::Pending);
        assert_eq!(answered(&["Approved"], Some(b"")), CsrState::Pending);
        assert_eq!(answered(&["Approved"], Some(b"chain")), CsrState::Signed(b"chain".to_vec()));
        let refused = |text: &str| CsrState::Refused(text.to_owned());
        assert_eq!(answered(&["Denied"], None), refused("denied: Policy"));
        assert_eq!(answered(&["Approved", "Failed"], Some(b"chain")), refused("failed: Policy"));
    }

    #[test]
    fn renewal_is_between_half_and_two_thirds_of_the_lifetime() {
        let lifetime = Lifetime { not_before: at(0), not_after: at(100) };
        assert_eq!(renew_at(lifetime, 0), at(50));
        assert_eq!(renew_at(lifetime, u8::MAX), at(66));
    }

    #[test]
    fn pauses_after_failures_double_up_to_an_hour() {
        let pauses = [1, 2, 3, 7, 8, u32::MAX]
            .map(|refusals| pause_after(refusals, Duration::from_secs(30)).as_secs());
        assert_eq!(pauses, [30, 60, 120, 1920, 3600, 3600]);
    }

    #[test]
    fn certificate_is_verified_for_name_time_and_ca() {
        let ca = authority(1, 0);
        let lifetime = Lifetime::starting(at(0), SignedDuration::from_hours(1));
        let leaf = ca.issue(&names(), lifetime, Entropy::draw().unwrap()).unwrap();
        let identity = Identity::from_leaf(&leaf).unwrap();
        let bundle = |ca: &crate::authority::Authority| Bundle::new(ca.ca().clone(), None);
        assert_eq!(verify(&identity, &bundle(&ca), &names(), at(0)), Ok(()));
        let other = ServerNames::parse(["other.test.svc"]).unwrap();
        for (bundle, names, at) in [
            (bundle(&authority(2, 0)), names(), at(0)),
            (bundle(&ca), other, at(0)),
            (bundle(&ca), names(), at(3)),
            (bundle(&ca), names(), at(-3)),
        ] {
            assert!(verify(&identity, &bundle, &names, at).is_err());
        }
        assert!(verify(&identity, &Bundle::default(), &names(), at(0)).is_err());
    }
}
