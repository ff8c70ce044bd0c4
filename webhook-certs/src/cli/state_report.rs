//! Report on the Secret and the webhook configurations, as text and JSON.

use crate::cluster::Options;
use crate::rotation::clock_skew;
use crate::rotation::{Observation, Revocation, rotates_at};
use crate::secret::rotation_requests::RotationRequests;
use crate::secret::{Phase, State, immutable_message, is_immutable};
use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Serialize;

/// Phase of the rotation, CAs, and the entries that trust them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StateReport {
    secret: String,
    generation: u64,
    phase: &'static str,
    phase_since: Timestamp,
    /// Instant of the next step, if it depends on time only.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step_at: Option<Timestamp>,
    /// Condition of the next step, if it depends on more than time.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    /// Pending revocations.
    revocations: Vec<Revocation>,
    authorities: Vec<AuthorityReport>,
    entries: Vec<EntryReport>,
    /// Minimum difference of this machine's clock to the API server's; negative if it is behind.
    clock_ahead_seconds: i64,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthorityReport {
    role: &'static str,
    name: String,
    not_after: Timestamp,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryReport {
    configuration: String,
    name: String,
    /// Roles of the trusted CAs, and names of those that are not in the Secret.
    trusts: Vec<String>,
}

impl StateReport {
    pub(super) fn new(seen: &Observation, options: &Options, now: Timestamp) -> Result<Self> {
        let name = format!("{}/{}", options.namespace, options.secret_name);
        let Some(secret) = &seen.secret else {
            anyhow::bail!(
                "Secret {name} does not exist; \
                 hint: replicas create it when they start; check --namespace, --revision and \
                 --secret-name"
            );
        };
        let immutable = is_immutable(secret).then(|| immutable_message(secret));
        let state = State::parse(secret).with_context(|| match &immutable {
            Some(problem) => format!("Secret {name}: {problem}"),
            None => format!("Secret {name}"),
        })?;
        let requests = RotationRequests::from_secret(secret);
        let roles = state.roles();
        let active = state.active.ca();
        let revocations = Revocation::pending(secret, &state, &options.parameters, now);
        let problem = requests.problem_with(&state);
        let mut problems: Vec<_> = immutable.into_iter().chain(problem).collect();
        if clock_skew::is_notable(seen.clock_ahead) {
            problems.push(clock_skew::message(seen.clock_ahead));
        }
        if !active.is_valid_at(now) {
            problems.push(format!("the CA {} is not valid now", active.name()));
        }
        let mut entries = Vec::new();
        for configuration in &seen.configurations {
            for entry in &configuration.entries {
                let trusts = entry.bundle.certificates().iter().map(|ca| {
                    let role = roles.iter().find(|(_, known)| *known == ca);
                    role.map_or_else(|| ca.name().to_owned(), |(role, _)| (*role).to_owned())
                });
                if !entry.bundle.trusts(active, now) {
                    problems.push(format!(
                        "{} {} does not trust the active CA",
                        configuration.name, entry.name
                    ));
                }
                entries.push(EntryReport {
                    configuration: configuration.name.clone(),
                    name: entry.name.clone(),
                    trusts: trusts.collect(),
                });
            }
        }
        // The CA of workloads is in no webhook configuration.
        if entries.is_empty() && !options.webhook_configurations.is_empty() {
            problems.push(format!(
                "no webhook entry calls the Service {}/{} in {}; hint: apply the webhook \
                 configuration, or check --webhook-configuration",
                options.namespace,
                options.service,
                options.webhook_configurations.join(", ")
            ));
        }
        Ok(Self {
            secret: name,
            generation: state.generation,
            phase: state.phase.word(),
            phase_since: state.phase_since,
            next_step_at: match &state.phase {
                Phase::Steady if revocations.is_empty() => Some(rotates_at(active)),
                Phase::Steady | Phase::Prepared { .. } => None,
                Phase::Activated { .. } if revocations.is_empty() => {
                    state.phase_since.checked_add(options.parameters.retire_delay).ok()
                }
                Phase::Activated { .. } => {
                    revocations.iter().filter_map(|revocation| revocation.not_before).min()
                }
            },
            waits_for: match &state.phase {
                Phase::Prepared { next } if !requests.revokes(next.ca()) => {
                    let delay = options.parameters.propagation_delay;
                    Some(format!(
                        "every entry to trust the next CA for {delay:#}, unchanged, and, with \
                         --trust-probe, a probe that succeeds"
                    ))
                }
                _ => None,
            },
            revocations,
            authorities: roles
                .iter()
                .map(|(role, ca)| AuthorityReport {
                    role,
                    name: ca.name().to_owned(),
                    not_after: ca.not_after(),
                })
                .collect(),
            entries,
            clock_ahead_seconds: seen.clock_ahead.as_secs(),
            problems,
        })
    }

    /// True if the signing CA is valid and trusted by every entry.
    pub(super) fn is_healthy(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn to_table(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "Secret {}: generation {}, {} since {}{}",
            self.secret,
            self.generation,
            self.phase,
            self.phase_since,
            match (self.next_step_at, &self.waits_for) {
                (Some(at), _) => format!(", next step {at}"),
                (None, Some(what)) => format!(", waits for {what}"),
                (None, None) => String::new(),
            }
        )];
        for AuthorityReport { role, name, not_after } in &self.authorities {
            lines.push(format!("CA {role}: {name}, valid until {not_after}"));
        }
        lines.extend(self.revocations.iter().map(ToString::to_string));
        for EntryReport { configuration, name, trusts } in &self.entries {
            let trusts = if trusts.is_empty() { "nothing".to_owned() } else { trusts.join(", ") };
            lines.push(format!("{configuration} {name}: trusts {trusts}"));
        }
        lines.push(match self.clock_ahead_seconds {
            0 => "clock: agrees with the API server's".to_owned(),
            ahead if ahead < 0 => format!("clock: {} s behind the API server's", -ahead),
            ahead => format!("clock: {ahead} s ahead of the API server's"),
        });
        lines.extend(self.problems.iter().map(|problem| format!("problem: {problem}")));
        lines
    }

    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context("cannot write JSON")
    }
}

#[cfg(test)]
mod tests {
    use crate::authority::{Authority, Entropy, Lifetime};
    use crate::secret::rotation_requests::REVOKE;
    use jiff::SignedDuration;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::Value;

    use super::*;

    #[test]
    fn pending_revocations_name_their_next_step_and_its_time() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let lifetime = Lifetime::starting(now, SignedDuration::from_hours(24 * 365));
        let authority =
            |number| Authority::create("test", number, lifetime, Entropy::draw().unwrap()).unwrap();
        let steady = State::new(authority(1), 1, now);
        let prepared = steady.clone().prepared(authority(2), now);
        let activated = prepared.clone().activated(authority(2), now);
        let dropped = "(retiring) is revoked: it is dropped when all replicas have known of it for \
                       5m, not before 2026-01-01T00:05:00Z";
        for (state, numbers, expected) in [
            (
                &steady,
                "1",
                &["1 (active) is revoked: a next CA is made at once, to sign in its place"][..],
            ),
            (
                &prepared,
                "1",
                &["1 (active) is revoked: CN=test-ca 2 signs in its place when every entry has \
                   trusted that for 5m, unchanged, not before 2026-01-01T00:05:00Z"],
            ),
            (
                &prepared,
                "2",
                &[
                    "2 (next) is revoked: it is dropped at once and never signs; another one is made",
                ],
            ),
            (&activated, "1", &[&format!("1 {dropped}")]),
            (
                &activated,
                "2",
                &["2 (active) is revoked: CN=test-ca 1 signs again, and this one retires"],
            ),
            (
                &activated,
                "1,2",
                &[
                    "2 (active) is revoked: CN=test-ca 1 is dropped first, and then a next CA \
                     made, not before 2026-01-01T00:05:00Z",
                    &format!("1 {dropped}"),
                ],
            ),
        ] {
            let mut secret = state.write(Secret::default());
            let annotations = secret.metadata.annotations.get_or_insert_default();
            annotations.insert(REVOKE.to_owned(), numbers.to_owned());
            let seen = Observation { secret: Some(secret), ..Observation::default() };
            let report = StateReport::new(&seen, &Options::default(), now).unwrap();
            let lines = report.to_table();
            let reported = lines.iter().filter_map(|line| line.strip_prefix("CN=test-ca "));
            assert_eq!(reported.collect::<Vec<_>>(), expected, "{} {numbers}", state.phase);
            let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
            let schema = include_str!("../../../docs/schemas/webhook-certs-status.schema.json");
            let schema: Value = serde_json::from_str(schema).unwrap();
            assert_eq!(reference_pages::schema::validate(&json, &schema), Ok(()));
            let reported = json["revocations"].as_array().unwrap().iter();
            let steps = reported.map(|one| one["nextStep"].as_str().unwrap());
            for (step, line) in steps.zip(expected) {
                assert!(line.contains(step), "{step}");
            }
        }
    }

    #[test]
    fn table_names_the_awaited_condition_and_problems() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let lifetime = Lifetime::starting(now, SignedDuration::from_hours(24));
        let authority =
            |number| Authority::create("test", number, lifetime, Entropy::draw().unwrap()).unwrap();
        let state = State::new(authority(1), 1, now).prepared(authority(2), now);
        let seen = Observation {
            secret: Some(state.write(Secret::default())),
            is_complete: true,
            clock_ahead: SignedDuration::from_mins(-40),
            ..Observation::default()
        };
        let report = StateReport::new(&seen, &Options::default(), now).unwrap();
        assert!(!report.is_healthy());
        assert_eq!(
            report.to_table(),
            [
                "Secret istio-system/sidecar-injector-ca: generation 1, prepared since \
                 2026-01-01T00:00:00Z, waits for every entry to trust the next CA for 5m, unchanged, \
                 and, with --trust-probe, a probe that succeeds",
                "CA active: CN=test-ca 1, valid until 2026-01-02T00:00:00Z",
                "CA next: CN=test-ca 2, valid until 2026-01-02T00:00:00Z",
                "clock: 2400 s behind the API server's",
                "problem: this machine's clock is 40m behind the API server's; hint: check the time services of this node and of the API server's node",
                "problem: no webhook entry calls the Service istio-system/sidecar-injector in \
                 istio-sidecar-injector; hint: apply the webhook configuration, or check --webhook-configuration",
            ]
        );
    }
}
