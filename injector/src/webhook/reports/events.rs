//! Kubernetes Events on workloads with pods that lack a sidecar or have a stale one.
//!
//! Every replica examines the pods itself. All replicas give the Event of a workload's state the
//! same name: only the first write succeeds, and no leader election is needed. As long as
//! Kubernetes keeps the Event, a recurring state writes no further one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::core::Status;
use kube::{Api, Client};
use kube_access::with_causes;
use reason::Reason;
use serde_json::{Value, json};

use super::state::SharedReport;
use crate::cluster::error::ClusterError;
use crate::report::tally::{Affected, EventTarget, Tally};

/// Attempts to write Events, kept as long as their state lasts.
#[derive(Debug, Default)]
pub(super) struct Events {
    tried: BTreeMap<EventTarget, Tried>,
    round: u64,
    /// Kinds of error in the latest round.
    complaints: BTreeSet<Complaint>,
}

/// Latest attempt for a workload.
#[derive(Clone, Copy, Debug)]
struct Tried {
    state: State,
    /// Round of a rejection that may pass with time; `None` if no further attempt is needed.
    refused_in: Option<u64>,
}

/// State of a workload, the subject of an Event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::webhook) enum State {
    Missing,
    Stale,
}

/// Kind of error for the log.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Complaint {
    /// The permission to create Events is missing.
    Right,
    /// The API server rejects the Event for another reason.
    Refusal,
}

impl Events {
    /// Writes the Events of states that are new since the last round, at most [`WRITES`]; the next
    /// rounds write the rest.
    ///
    /// A rejected Event does not delay any other.
    pub(super) async fn tell(&mut self, client: &Client, tally: &Tally, telling: &SharedReport) {
        let workloads = tally.workloads();
        self.tried.retain(|subject, _| workloads.contains_key(subject));
        self.round += 1;
        let mut complaints = BTreeSet::new();
        for (subject, affected, state) in self.news(workloads) {
            let refused_in = match write(client, subject, affected, state).await {
                Ok(written) => {
                    if written {
                        telling.event();
                    }
                    None
                }
                Err(error) => {
                    telling.event_failed();
                    let ClusterError::Refused(status) = &error else {
                        tracing::debug!(error = with_causes(&error), "an Event was not written");
                        // Without an answer to this request, the next one would hardly succeed.
                        return;
                    };
                    let complaint = Complaint::from_status(status);
                    let is_news = complaints.insert(complaint);
                    complaint.log(&error, is_news && !self.complaints.contains(&complaint));
                    may_end(status).then_some(self.round)
                }
            };
            self.tried.insert(subject.clone(), Tried { state, refused_in });
        }
        self.complaints = complaints;
    }

    /// Returns the Events to write in this round: first those never attempted, then the rejected
    /// ones, the oldest rejection first.
    fn news<'a>(
        &self,
        workloads: &'a BTreeMap<EventTarget, Affected>,
    ) -> Vec<(&'a EventTarget, &'a Affected, State)> {
        let news = workloads.iter().filter_map(|(subject, affected)| {
            let state = State::from_affected(affected);
            let refused_in = match self.tried.get(subject).filter(|tried| tried.state == state) {
                Some(tried) => tried.refused_in?,
                None => 0,
            };
            Some((refused_in, (subject, affected, state)))
        });
        let mut news: Vec<_> = news.collect();
        news.sort_by_key(|(refused_in, _)| *refused_in);
        news.into_iter().take(WRITES).map(|(_, one)| one).collect()
    }
}

/// True if the API server may accept the same Event at another time.
fn may_end(status: &Status) -> bool {
    matches!(status.code, 401 | 403 | 429 | 500..)
}

impl Complaint {
    fn from_status(status: &Status) -> Self {
        // An exhausted quota is "Forbidden" too.
        let is_right = status.reason == "Forbidden" && !status.message.contains("exceeded quota");
        if is_right { Self::Right } else { Self::Refusal }
    }

    fn log(self, error: &ClusterError, is_news: bool) {
        let error = with_causes(error);
        match self {
            Self::Right if is_news => {
                let hint = "grant the service account create on events in the whole cluster";
                tracing::warn!(
                    error,
                    hint,
                    "Events are disabled; metrics have the same information"
                );
            }
            Self::Refusal if is_news => {
                tracing::warn!(
                    error,
                    "the API server rejected an Event; metrics have the same information"
                );
            }
            Self::Right | Self::Refusal => tracing::debug!(error, "an Event was not written"),
        }
    }
}

impl State {
    fn from_affected(affected: &Affected) -> Self {
        if affected.is_without_sidecar() { Self::Missing } else { Self::Stale }
    }

    /// Returns every state, with the condition under which its Event is written.
    #[cfg(test)]
    pub(in crate::webhook) fn all() -> [(Self, &'static str); 2] {
        [Self::Missing, Self::Stale].map(|state| {
            let when = match state {
                Self::Missing => {
                    "pods of the workload run without the sidecar that a new pod would get"
                }
                Self::Stale => {
                    "all pods of the workload have a sidecar, and at least one differs from that \
                     of a new pod"
                }
            };
            (state, when)
        })
    }

    /// Returns the Event's reason, its type, and the last part of its name.
    pub(in crate::webhook) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Missing => ("SidecarMissing", "Warning", "sidecar-missing"),
            Self::Stale => ("SidecarStale", "Normal", "sidecar-stale"),
        }
    }
}

/// Writes an Event. Returns false if the Event already exists, or its namespace is being deleted.
async fn write(
    client: &Client,
    subject: &EventTarget,
    affected: &Affected,
    state: State,
) -> Result<bool, ClusterError> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Event"));
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &subject.namespace, &resource);
    let mut subject = subject.clone();
    if subject.uid.is_empty() {
        subject.uid = uid(client, &subject).await.unwrap_or_default();
    }
    let event = event(&subject, affected, state, Timestamp::now());
    let event = serde_json::from_value(event).map_err(kube::Error::SerdeError)?;
    match api.create(&PostParams::default(), &event).await.map_err(ClusterError::from) {
        Ok(_) => Ok(true),
        Err(error) if error.is_conflict() || error.is_of_a_vanishing_namespace() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the UID by which `kubectl describe` finds Events. Without the permission to get the
/// workload the Event has no UID, and only `kubectl events --for` finds it.
async fn uid(client: &Client, subject: &EventTarget) -> Option<String> {
    let (group, version) = subject.api_version.split_once('/')?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &subject.kind));
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &subject.namespace, &resource);
    api.get_metadata(&subject.name).await.ok()?.metadata.uid
}

fn event(subject: &EventTarget, affected: &Affected, state: State, now: Timestamp) -> Value {
    let (reason, kind, ending) = state.words();
    let EventTarget { namespace, kind: of, name, api_version, uid } = subject;
    let mut about = json!({
        "apiVersion": api_version, "kind": of, "name": name, "namespace": namespace,
    });
    if !uid.is_empty() {
        about["uid"] = uid.as_str().into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event_name(subject, ending), "namespace": namespace},
        "involvedObject": about,
        "type": kind,
        "reason": reason,
        "message": message(affected, state),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": seconds(now),
        "lastTimestamp": seconds(now),
        "count": 1,
    })
}

/// Returns a valid name of an Event for any workload name: Kubernetes does not check the names that
/// a pod gives its owners.
fn event_name(EventTarget { kind, name, .. }: &EventTarget, ending: &str) -> String {
    let is_taken = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '.';
    let taken = |c: char| Some(c.to_ascii_lowercase()).filter(is_taken).unwrap_or('-');
    let begun: String = format!("{kind}-{name}").chars().take(NAME).map(taken).collect();
    let parts = begun.split('.').chain([ending]).map(|part| part.trim_matches('-'));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
}

fn message(affected: &Affected, state: State) -> String {
    let counts = affected.counts;
    let (count, what) = match state {
        State::Missing => (counts.without_sidecar, "without the sidecar that a new pod would get"),
        State::Stale => (counts.stale, "with another sidecar than a new pod would get"),
    };
    let (pods, run) = if count == 1 { ("pod", "runs") } else { ("pods", "run") };
    let reasons: Vec<_> = affected.reasons.iter().map(Reason::message).collect();
    let message = format!("{count} {pods} {run} {what}: {}", reasons.join("; "));
    message.chars().take(MESSAGE).collect()
}

/// Formats a time as Kubernetes does: in whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Largest number of Events in one round.
const WRITES: usize = 50;
/// Largest length of the workload's part in the name of an Event. A name has 253 bytes at most.
const NAME: usize = 230;
/// Largest length of a message in characters. Kubernetes accepts 1024 bytes.
const MESSAGE: usize = 500;
const COMPONENT: &str = "sidecar-injector";

#[cfg(test)]
mod tests {
    use reason::words;

    use super::*;
    use crate::report::tally::Counts;

    fn affected(without_sidecar: u64, stale: u64) -> Affected {
        let reasons =
            vec![Reason::new(words::NO_SIDECAR, "why"), Reason::new(words::NO_SIDECAR, "also why")];
        Affected { counts: Counts { without_sidecar, stale }, reasons }
    }

    fn subject(name: &str) -> EventTarget {
        EventTarget {
            namespace: "shop".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
            api_version: "apps/v1".to_owned(),
            uid: String::new(),
        }
    }

    #[test]
    fn event_name_depends_only_on_workload_and_state() {
        let name = |affected: &Affected, second: i64| {
            let now = Timestamp::from_second(second).unwrap();
            let event = event(&subject("web"), affected, State::from_affected(affected), now);
            event["metadata"]["name"].as_str().unwrap().to_owned()
        };
        assert_eq!(name(&affected(1, 5), 1), "deployment-web.sidecar-missing");
        assert_eq!(name(&affected(7, 0), 2), "deployment-web.sidecar-missing");
        assert_eq!(name(&affected(0, 1), 3), "deployment-web.sidecar-stale");
    }

    #[test]
    fn long_event_name_is_cut_to_a_valid_name() {
        let long = subject(&format!("{}-{}", "a".repeat(218), "b".repeat(30)));
        let event = event(&long, &affected(1, 0), State::Missing, Timestamp::UNIX_EPOCH);
        let name = event["metadata"]["name"].as_str().unwrap();
        assert!(name.len() <= 253 && name.contains("a.sidecar-missing"), "{name}");
    }

    #[test]
    fn event_for_an_unusual_owner_name_is_valid() {
        let name = |name: &str| event_name(&subject(name), "sidecar-stale");
        assert_eq!(name("Shop_Web/ä"), "deployment-shop-web.sidecar-stale");
        assert_eq!(name("a._b-..c."), "deployment-a.b.c.sidecar-stale");
        let long = name(&"ä.b".repeat(300));
        assert!(long.is_ascii() && long.len() <= 253, "{long}");
    }

    #[test]
    fn rejected_events_do_not_delay_others() {
        let subjects = (0..WRITES + 10).map(|number| subject(&format!("web-{number:03}")));
        let workloads: BTreeMap<_, _> = subjects.map(|subject| (subject, affected(1, 0))).collect();
        let names = |events: &Events| -> Vec<_> {
            events.news(&workloads).iter().map(|(subject, ..)| subject.name.clone()).collect()
        };
        let mut events = Events { round: 1, ..Events::default() };
        let first = names(&events);
        assert_eq!((first.len(), first[0].as_str()), (WRITES, "web-000"));
        for name in first {
            let refused = Tried { state: State::Missing, refused_in: Some(1) };
            events.tried.insert(subject(&name), refused);
        }
        let second = names(&events);
        assert_eq!((second[0].as_str(), second[10].as_str()), ("web-050", "web-000"));
        let done = Tried { state: State::Missing, refused_in: None };
        events.tried.insert(subject("web-000"), done);
        assert_eq!(names(&events)[10], "web-001");
        events.tried.insert(subject("web-000"), Tried { state: State::Stale, ..done });
        assert_eq!(names(&events)[0], "web-000");
    }

    #[test]
    fn only_forbidden_counts_as_a_missing_permission() {
        let refused = |code: u16, reason: &str, message: &str| {
            let status = Status::failure(message, reason).with_code(code);
            (Complaint::from_status(&status), may_end(&status))
        };
        let full = "events \"x\" is forbidden: exceeded quota: small, requested: count/events=1";
        assert_eq!(refused(403, "Forbidden", "cannot create"), (Complaint::Right, true));
        assert_eq!(refused(403, "Forbidden", full), (Complaint::Refusal, true));
        assert_eq!(refused(422, "Invalid", "metadata.name"), (Complaint::Refusal, false));
    }

    #[test]
    fn event_message_has_count_and_reasons() {
        assert_eq!(
            message(&affected(1, 0), State::Missing),
            "1 pod runs without the sidecar that a new pod would get: why; also why"
        );
        assert!(message(&affected(0, 3), State::Stale).starts_with("3 pods run with another"));
    }
}
