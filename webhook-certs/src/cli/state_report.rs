//! What the Secret and the webhook configurations show, for people and for programs.

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Serialize;
use webhook_certs::bundle::TrustedCa;
use webhook_certs::clock;
use webhook_certs::cluster::Options;
use webhook_certs::requests::Requests;
use webhook_certs::rotation::{Observation, rotates_at};
use webhook_certs::secret::{Phase, State};

/// Where the rotation stands, which CAs there are, and who trusts them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StateReport {
    secret: String,
    generation: u64,
    phase: &'static str,
    phase_since: Timestamp,
    /// When the next step is due, where that depends on the time alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_step_at: Option<Timestamp>,
    authorities: Vec<AuthorityReport>,
    entries: Vec<EntryReport>,
    /// How far this machine's clock is ahead of the API server's, at least; negative: behind.
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
    /// The roles of the CAs that it trusts, and the names of those that the Secret does not know.
    trusts: Vec<String>,
}

impl StateReport {
    pub(super) fn of(seen: &Observation, options: &Options, now: Timestamp) -> Result<Self> {
        let name = format!("{}/{}", options.namespace, options.secret_name);
        let Some(secret) = &seen.secret else {
            anyhow::bail!("there is no Secret {name}");
        };
        let state = State::parse(secret).with_context(|| format!("Secret {name}"))?;
        let requests = Requests::read(secret);
        let roles = roles(&state);
        let active = state.active.ca();
        let mut problems: Vec<_> = requests.complaint.into_iter().collect();
        if clock::is_notable(seen.clock_ahead) {
            problems.push(clock::complaint(seen.clock_ahead));
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
        Ok(Self {
            secret: name,
            generation: state.generation,
            phase: state.phase.word(),
            phase_since: state.phase_since,
            next_step_at: match state.phase {
                Phase::Steady => Some(rotates_at(active)),
                Phase::Prepared { .. } => None,
                Phase::Activated { .. } => {
                    state.phase_since.checked_add(options.parameters.retire_delay).ok()
                }
            },
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

    /// Tells whether the CA that signs is valid and trusted by every entry.
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
            self.next_step_at.map(|at| format!(", next step {at}")).unwrap_or_default()
        )];
        for AuthorityReport { role, name, not_after } in &self.authorities {
            lines.push(format!("CA {role}: {name}, valid until {not_after}"));
        }
        for EntryReport { configuration, name, trusts } in &self.entries {
            let trusts = if trusts.is_empty() { "nothing".to_owned() } else { trusts.join(", ") };
            lines.push(format!("{configuration} {name}: trusts {trusts}"));
        }
        lines.extend(self.problems.iter().map(|problem| format!("problem: {problem}")));
        lines
    }

    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context("cannot write JSON")
    }
}

/// The CAs of the Secret, each with what it is for.
fn roles(state: &State) -> Vec<(&'static str, &TrustedCa)> {
    let other = match &state.phase {
        Phase::Steady => None,
        Phase::Prepared { next } => Some(("next", next.ca())),
        Phase::Activated { retiring } => Some(("retiring", retiring.ca())),
    };
    [("active", state.active.ca())].into_iter().chain(other).collect()
}
