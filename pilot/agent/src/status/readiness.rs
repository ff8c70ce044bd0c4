//! Readiness of the proxy, from Envoy's statistics and the conditions of the agent's parts.

use std::fmt::Write;

use crate::admin::Stats;
use crate::health::Part;

/// Regular expression of the statistics that [`Readiness::assess`] reads.
pub const STATS_FILTER: &str = concat!(
    r"^(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected)$",
    r"|^server\.state$|^listener_manager\.workers_started$"
);

/// Conditions that have been met by the serving Envoy, and stay met while it serves.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Readiness {
    epoch: Option<u32>,
    configured: bool,
    live: bool,
}

/// State of everything that readiness depends on.
#[derive(Debug)]
pub struct Observation<'a> {
    /// Envoy; `None` for an agent without Envoy.
    pub envoy: Option<EnvoyObservation<'a>>,
    /// True if the DNS proxy has its first name table; `None` without DNS proxy. Without Envoy, the
    /// application's first xDS stream asks for it, perhaps after the pod must be ready.
    pub names: Option<bool>,
    /// Conditions of the agent's parts.
    pub conditions: &'a [(Part, String)],
}

/// State of Envoy.
#[derive(Debug)]
pub struct EnvoyObservation<'a> {
    /// Restart epoch of the Envoy that serves; `None` if there is none.
    pub epoch: Option<u32>,
    /// Its statistics, or the reason for their absence. Ignored once [`Readiness::needs_stats`] is
    /// false.
    pub stats: Result<&'a Stats, String>,
}

/// Answer of the readiness path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// True if the proxy is ready.
    pub ready: bool,
    /// The reason, and the conditions of the agent's parts, in lines.
    pub text: String,
}

impl Readiness {
    /// True if the statistics of this epoch are needed: not all conditions have been met. Without a
    /// serving epoch they tell what a starting Envoy waits for.
    pub fn needs_stats(&self, epoch: Option<u32>) -> bool {
        epoch.is_none() || self.epoch != epoch || !self.configured || !self.live
    }

    /// Decides whether the proxy is ready. Another epoch voids the conditions that have been met.
    pub fn assess(&mut self, observation: &Observation<'_>) -> Verdict {
        let missing = observation.envoy.as_ref().and_then(|envoy| {
            self.missing_in_envoy(envoy).or_else(|| {
                (observation.names == Some(false)).then(|| {
                    "the DNS proxy waits for the first name table of the control plane".to_owned()
                })
            })
        });
        Verdict { ready: missing.is_none(), text: text(missing, observation.conditions) }
    }

    fn missing_in_envoy(&mut self, envoy: &EnvoyObservation<'_>) -> Option<String> {
        if self.epoch != envoy.epoch {
            *self = Self { epoch: envoy.epoch, ..Self::default() };
        }
        if envoy.epoch.is_none() {
            let starting = envoy.stats.as_ref().ok().and_then(|stats| missing_configuration(stats));
            return Some(starting.unwrap_or_else(|| "Envoy does not serve yet".to_owned()));
        }
        if self.configured && self.live {
            return None;
        }
        let stats = match &envoy.stats {
            Ok(stats) => stats,
            Err(reason) => return Some(reason.clone()),
        };
        if !self.configured {
            if let Some(missing) = missing_configuration(stats) {
                return Some(missing);
            }
            self.configured = true;
        }
        let missing = missing_liveness(stats);
        self.live = missing.is_none();
        missing
    }
}

fn missing_configuration(stats: &Stats) -> Option<String> {
    let get = |name: &str| stats.get(name).unwrap_or_default();
    let kinds =
        [("CDS", "cluster_manager.cds"), ("LDS", "listener_manager.lds")].map(|(kind, prefix)| {
            let success = get(&format!("{prefix}.update_success"));
            (kind, success, get(&format!("{prefix}.update_rejected")))
        });
    if kinds.iter().all(|(_, success, _)| *success > 0) {
        return None;
    }
    let rejected: Vec<&str> = kinds
        .iter()
        .filter(|(_, success, rejected)| *success == 0 && *rejected > 0)
        .map(|(kind, ..)| *kind)
        .collect();
    let reason = if !rejected.is_empty() {
        format!(
            "Envoy received configuration and rejected it ({}; Envoy's log has the reason)",
            rejected.join(" and ")
        )
    } else if kinds.iter().all(|(_, success, _)| *success == 0) {
        "Envoy has not received configuration from the control plane".to_owned()
    } else {
        "Envoy has received an incomplete configuration from the control plane".to_owned()
    };
    let counts = kinds.map(|(kind, success, rejected)| {
        format!("{kind} updates: {success} accepted, {rejected} rejected")
    });
    Some(format!("{reason}: {}", counts.join("; ")))
}

fn missing_liveness(stats: &Stats) -> Option<String> {
    match stats.get("server.state") {
        Some(LIVE) => {}
        Some(state) => return Some(format!("Envoy is {}", server_state(state))),
        None => return Some("Envoy does not report the statistic server.state".to_owned()),
    }
    if stats.get("listener_manager.workers_started") != Some(1) {
        return Some("Envoy has not started its worker threads".to_owned());
    }
    None
}

fn server_state(state: u64) -> String {
    match state {
        1 => "draining".to_owned(),
        2 => "waiting for its first clusters (PRE_INITIALIZING)".to_owned(),
        3 => "initializing (INITIALIZING)".to_owned(),
        state => format!("in the unknown state {state}"),
    }
}

fn text(missing: Option<String>, conditions: &[(Part, String)]) -> String {
    let mut text = match missing {
        Some(missing) => format!("not ready: {missing}\n"),
        None => "ready\n".to_owned(),
    };
    for (part, message) in conditions {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}: {message}", title(*part));
    }
    text
}

fn title(part: Part) -> &'static str {
    match part {
        Part::Configuration => "configuration",
        Part::Bootstrap => "bootstrap",
        Part::ControlPlane => "control plane",
        Part::Clusters => "clusters",
        Part::Listeners => "listeners",
        Part::Certificate => "workload certificate",
    }
}

const LIVE: u64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURED: &str =
        "cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_success: 1\n";
    const STARTED: &str = "server.state: 0\nlistener_manager.workers_started: 1\n";

    fn assess(readiness: &mut Readiness, epoch: Option<u32>, stats: &str) -> Verdict {
        let stats = Stats::parse(stats);
        let envoy = Some(EnvoyObservation { epoch, stats: Ok(&stats) });
        readiness.assess(&Observation { envoy, names: None, conditions: &[] })
    }

    fn verdict(stats: &str) -> Verdict {
        assess(&mut Readiness::default(), Some(0), stats)
    }

    #[test]
    fn reason_tells_missing_from_rejected_configuration() {
        for (stats, reason) in [
            ("", "Envoy has not received configuration from the control plane: CDS updates: 0"),
            (STARTED, "Envoy has not received configuration"),
            ("cluster_manager.cds.update_success: 1", "Envoy has received an incomplete"),
            ("listener_manager.lds.update_success: 2", "Envoy has received an incomplete"),
            (
                "cluster_manager.cds.update_rejected: 1",
                "Envoy received configuration and rejected it (CDS; ",
            ),
            (
                "cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_rejected: 3",
                "Envoy received configuration and rejected it (LDS; Envoy's log has the reason): \
                 CDS updates: 1 accepted, 0 rejected; LDS updates: 0 accepted, 3 rejected",
            ),
            (CONFIGURED, "Envoy does not report the statistic server.state"),
            (&format!("{CONFIGURED}server.state: 2"), "Envoy is waiting for its first clusters"),
            (&format!("{CONFIGURED}server.state: 0"), "Envoy has not started its worker threads"),
        ] {
            let verdict = verdict(stats);
            assert!(!verdict.ready, "{stats}");
            let text = &verdict.text;
            assert!(text.starts_with(&format!("not ready: {reason}")), "{text} {reason}");
        }
    }

    #[test]
    fn later_rejection_does_not_prevent_readiness() {
        let rejected = "cluster_manager.cds.update_rejected: 1\n";
        let verdict = verdict(&format!("{CONFIGURED}{STARTED}{rejected}"));
        assert_eq!(verdict, Verdict { ready: true, text: "ready\n".to_owned() });
    }

    #[test]
    fn met_conditions_hold_while_the_epoch_serves() {
        let mut readiness = Readiness::default();
        assert!(readiness.needs_stats(Some(0)));
        assert!(assess(&mut readiness, Some(0), &format!("{CONFIGURED}{STARTED}")).ready);
        assert!(!readiness.needs_stats(Some(0)));
        assert!(assess(&mut readiness, Some(0), "").ready);
    }

    #[test]
    fn received_configuration_is_not_asked_for_again() {
        let mut readiness = Readiness::default();
        assert!(!assess(&mut readiness, Some(0), &format!("{CONFIGURED}server.state: 2")).ready);
        assert!(assess(&mut readiness, Some(0), STARTED).ready);
    }

    #[test]
    fn hot_restart_voids_met_conditions() {
        let mut readiness = Readiness::default();
        let all = format!("{CONFIGURED}{STARTED}");
        assert!(assess(&mut readiness, Some(0), &all).ready);
        assert!(readiness.needs_stats(Some(1)));
        assert!(!assess(&mut readiness, Some(1), STARTED).ready);
        assert!(assess(&mut readiness, Some(1), &all).ready);
        let ended = assess(&mut readiness, None, &all);
        assert_eq!(ended.text, "not ready: Envoy does not serve yet\n");
        let waiting = assess(&mut readiness, None, "server.state: 2");
        assert!(waiting.text.contains("has not received configuration"), "{}", waiting.text);
        assert!(!assess(&mut readiness, Some(1), STARTED).ready);
    }

    #[test]
    fn missing_name_table_prevents_readiness() {
        let stats = Stats::parse(STARTED);
        for (names, ready) in [(None, true), (Some(true), true), (Some(false), false)] {
            let envoy = Some(EnvoyObservation { epoch: Some(0), stats: Ok(&stats) });
            let mut readiness =
                Readiness { configured: true, epoch: Some(0), ..Readiness::default() };
            let verdict = readiness.assess(&Observation { envoy, names, conditions: &[] });
            assert_eq!(verdict.ready, ready, "{verdict:?}");
            let without_envoy = Observation { envoy: None, names, conditions: &[] };
            assert!(Readiness::default().assess(&without_envoy).ready);
        }
    }

    #[test]
    fn conditions_change_the_text_and_not_the_status() {
        let conditions = [
            (Part::ControlPlane, "disconnected from istiod:15012".to_owned()),
            (Part::Certificate, "expires in 5 minutes".to_owned()),
        ];
        let observation = Observation { envoy: None, names: None, conditions: &conditions };
        let verdict = Readiness::default().assess(&observation);
        assert!(verdict.ready);
        let expected = "ready\ncontrol plane: disconnected from istiod:15012\n\
            workload certificate: expires in 5 minutes\n";
        assert_eq!(verdict.text, expected);
    }

    #[test]
    fn unreachable_admin_interface_is_the_reason() {
        let stats = Err("Envoy's admin interface does not accept connections".to_owned());
        let envoy = Some(EnvoyObservation { epoch: Some(0), stats });
        let observation = Observation { envoy, names: Some(true), conditions: &[] };
        let verdict = Readiness::default().assess(&observation);
        assert_eq!(
            verdict.text,
            "not ready: Envoy's admin interface does not accept connections\n"
        );
    }
}
