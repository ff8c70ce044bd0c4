//! One Event for each workload whose pods come into a state that somebody should know of.
//!
//! Every replica looks for itself, and all give the Event of a workload's state the same name: the
//! first one to write it is the only one, and nobody has to be elected. As long as Kubernetes keeps
//! it, the state coming back writes nothing either.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use webhook_certs::cause::with_causes;

use super::state::Telling;
use crate::cluster::error::ClusterError;
use crate::reason::Reason;
use crate::report::tally::{Affected, Subject, Tally};

/// What was written about, for as long as it holds.
#[derive(Debug, Default)]
pub(super) struct Events {
    told: BTreeMap<Subject, State>,
    forbidden: bool,
}

/// What an Event is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Missing,
    Stale,
}

impl Events {
    /// Writes of what has changed since the last round, at most [`WRITES`]; the rest is for the
    /// next ones.
    pub(super) async fn tell(&mut self, client: &Client, tally: &Tally, telling: &Telling) {
        let workloads = tally.workloads();
        self.told.retain(|subject, _| workloads.contains_key(subject));
        let told = &self.told;
        let news =
            workloads.iter().map(|(subject, affected)| (subject, affected, State::of(affected)));
        let news = news.filter(|(subject, _, state)| told.get(*subject) != Some(state));
        let news: Vec<_> = news.take(WRITES).collect();
        for (subject, affected, state) in news {
            match write(client, subject, affected, state).await {
                Ok(written) => {
                    self.told.insert(subject.clone(), state);
                    self.forbidden = false;
                    if written {
                        telling.event();
                    }
                }
                Err(error) => {
                    telling.event_failed();
                    let forbidden = error.is_forbidden();
                    let error = with_causes(&error);
                    if forbidden && !self.forbidden {
                        let hint =
                            "grant the service account create on events in the whole cluster";
                        tracing::warn!(error, hint, "no Events are written; metrics tell the same");
                    } else {
                        tracing::debug!(error, "an Event was not written");
                    }
                    self.forbidden = forbidden;
                    // The next would hardly fare better; the next round tries again.
                    return;
                }
            }
        }
    }
}

impl State {
    fn of(affected: &Affected) -> Self {
        if affected.is_without_sidecar() { Self::Missing } else { Self::Stale }
    }

    /// The Event's reason, its type, and what its name ends in.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Missing => ("SidecarMissing", "Warning", "sidecar-missing"),
            Self::Stale => ("SidecarStale", "Normal", "sidecar-stale"),
        }
    }
}

/// Whether it was written; not so where it is there already.
async fn write(
    client: &Client,
    subject: &Subject,
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

/// The UID by which `kubectl describe` finds Events; without the right to get the workload, they
/// have none, and `kubectl events --for` finds them still.
async fn uid(client: &Client, subject: &Subject) -> Option<String> {
    let (group, version) = subject.api_version.split_once('/')?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &subject.kind));
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &subject.namespace, &resource);
    api.get_metadata(&subject.name).await.ok()?.metadata.uid
}

fn event(subject: &Subject, affected: &Affected, state: State, now: Timestamp) -> Value {
    let (reason, kind, ending) = state.words();
    let Subject { namespace, kind: of, name, api_version, uid } = subject;
    let begun: String = format!("{of}-{name}").to_ascii_lowercase().chars().take(NAME).collect();
    let begun = begun.trim_end_matches(['-', '.']);
    let mut about = json!({
        "apiVersion": api_version, "kind": of, "name": name, "namespace": namespace,
    });
    if !uid.is_empty() {
        about["uid"] = uid.as_str().into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{begun}.{ending}"), "namespace": namespace},
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

/// As Kubernetes writes a time: whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Events of one round.
const WRITES: usize = 50;
/// The part of an Event's name that names the workload: a name has 253 characters at most.
const NAME: usize = 230;
/// Kubernetes takes 1024 bytes.
const MESSAGE: usize = 500;
const COMPONENT: &str = "sidecar-injector";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tally::Counts;

    fn affected(without_sidecar: u64, stale: u64) -> Affected {
        let reasons = vec![Reason::new("word", "why"), Reason::new("word", "also why")];
        Affected { counts: Counts { without_sidecar, stale }, reasons }
    }

    fn subject(name: &str) -> Subject {
        Subject {
            namespace: "shop".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
            api_version: "apps/v1".to_owned(),
            uid: String::new(),
        }
    }

    #[test]
    fn an_events_name_tells_workload_and_state_and_nothing_else() {
        let name = |affected: &Affected, second: i64| {
            let now = Timestamp::from_second(second).unwrap();
            let event = event(&subject("web"), affected, State::of(affected), now);
            event["metadata"]["name"].as_str().unwrap().to_owned()
        };
        assert_eq!(name(&affected(1, 5), 1), "deployment-web.sidecar-missing");
        assert_eq!(name(&affected(7, 0), 2), "deployment-web.sidecar-missing");
        assert_eq!(name(&affected(0, 1), 3), "deployment-web.sidecar-stale");
    }

    #[test]
    fn a_long_name_is_cut_where_a_name_may_end() {
        let long = subject(&format!("{}-{}", "a".repeat(218), "b".repeat(30)));
        let event = event(&long, &affected(1, 0), State::Missing, Timestamp::UNIX_EPOCH);
        let name = event["metadata"]["name"].as_str().unwrap();
        assert!(name.len() <= 253 && name.contains("a.sidecar-missing"), "{name}");
    }

    #[test]
    fn a_message_says_how_many_and_why() {
        assert_eq!(
            message(&affected(1, 0), State::Missing),
            "1 pod runs without the sidecar that a new pod would get: why; also why"
        );
        assert!(message(&affected(0, 3), State::Stale).starts_with("3 pods run with another"));
    }
}
