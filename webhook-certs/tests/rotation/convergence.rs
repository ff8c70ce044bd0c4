//! Replicas converge after any sequence of changes to the cluster.

use k8s_openapi::api::core::v1::Secret;
use proptest::prelude::*;

use webhook_certs::authority::Authority;
use webhook_certs::bundle::Bundle;
use webhook_certs::options::Parameters;
use webhook_certs::rotation::{Action, Content, Memory, Observation, decide};
use webhook_certs::secret::State;

use crate::fixtures::{at, authority, configuration, names};
use crate::replica::serving;

/// Cluster with one Secret, one configuration, and replicas that reconcile in turn.
struct Cluster {
    secret: Option<Secret>,
    version: u64,
    bundle: Bundle,
    replicas: Vec<Memory>,
    hour: i64,
}

impl Cluster {
    fn store(&mut self, secret: Option<Secret>) {
        self.version += 1;
        self.secret = secret.map(|mut secret| {
            secret.metadata.resource_version = Some(self.version.to_string());
            secret
        });
    }

    /// Reconciles a replica; another one may act between its read and its write.
    fn step(&mut self, replica: usize, between: Option<usize>) -> usize {
        let observation = Observation {
            secret: self.secret.clone(),
            configurations: vec![configuration(&self.bundle)],
            is_complete: true,
            ..Observation::default()
        };
        let memory = &mut self.replicas[replica];
        let decision =
            decide(memory, &observation, &names(), &Parameters::default(), at(self.hour));
        if let Some(other) = between {
            self.step(other, None);
        }
        let version = |secret: &Option<Secret>| {
            secret.as_ref().and_then(|secret| secret.metadata.resource_version.clone())
        };
        let current = version(&self.secret) == version(&observation.secret);
        let actions = decision.actions.len();
        for action in decision.actions {
            match action {
                Action::CreateSecret(content) | Action::ReplaceSecret(content) if current => {
                    let state = match content {
                        Content::State(state) | Content::Renewed(state) => state,
                        Content::Prepared(state) => {
                            let next = authority(state.generation, 0);
                            state.prepared(next, at(0))
                        }
                        Content::New { generation } => {
                            State::new(authority(generation, 0), generation, at(0))
                        }
                    };
                    self.store(Some(state.write(observation.secret.clone().unwrap_or_default())));
                    self.replicas[replica].state = Some(state);
                }
                Action::CreateSecret(_) | Action::ReplaceSecret(_) => {}
                Action::PatchBundle(patch) => self.bundle = patch.entries[0].1.clone(),
                Action::Serve { authority, .. } => {
                    let memory = std::mem::take(&mut self.replicas[replica]);
                    self.replicas[replica] = serving(memory, &authority, 0);
                }
            }
        }
        actions
    }
}

#[derive(Clone, Debug)]
enum Event {
    Look(usize, Option<usize>),
    Restart(usize),
    Delete,
    Empty,
    Unannotate,
    Wipe,
    Overwrite,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0_usize..3, prop::option::of(0_usize..3))
            .prop_map(|(one, other)| Event::Look(one, other.filter(|other| *other != one))),
        1 => (1_usize..3).prop_map(Event::Restart),
        1 => Just(Event::Delete),
        1 => Just(Event::Empty),
        1 => Just(Event::Unannotate),
        1 => Just(Event::Wipe),
        1 => Just(Event::Overwrite),
    ]
}

/// Starts three replicas that know the CA, plays `events`, and reconciles until no replica acts.
fn play(events: Vec<Event>) -> (Cluster, Authority) {
    let mut cluster = Cluster {
        secret: None,
        version: 0,
        bundle: Bundle::default(),
        replicas: vec![Memory::default(); 3],
        hour: 0,
    };
    for replica in [0, 0, 1, 2] {
        cluster.step(replica, None);
    }
    let original = cluster.replicas[0].state.clone().unwrap().active;
    for event in events {
        match event {
            Event::Look(one, other) => {
                cluster.step(one, other);
            }
            Event::Restart(replica) => cluster.replicas[replica] = Memory::default(),
            Event::Delete => cluster.store(None),
            Event::Empty => cluster.store(Some(Secret::default())),
            Event::Unannotate => {
                let mut secret = cluster.secret.clone().unwrap_or_default();
                secret.metadata.annotations = None;
                cluster.store(Some(secret));
            }
            Event::Wipe => cluster.bundle = Bundle::default(),
            Event::Overwrite => {
                cluster.bundle = Bundle::new(authority(99, 0).ca().clone(), None);
            }
        }
    }
    // A trusted leaf is given up only after the propagation delay.
    for hour in 0..2 {
        cluster.hour = hour;
        let mut rounds = 0;
        while (0..3).map(|replica| cluster.step(replica, None)).sum::<usize>() > 0 {
            rounds += 1;
            assert!(rounds < 10, "the replicas do not come to rest");
        }
    }
    (cluster, original)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn replicas_converge_to_one_trusted_ca(
        events in prop::collection::vec(event(), 0..40),
    ) {
        let (cluster, _) = play(events);
        let state = State::parse(cluster.secret.as_ref().unwrap()).unwrap();
        for replica in &cluster.replicas {
            prop_assert_eq!(replica.state.as_ref(), Some(&state));
            let leaf = replica.leaf.as_ref().unwrap();
            prop_assert_eq!(leaf.issuer(), state.active.ca());
            prop_assert!(cluster.bundle.trusts(leaf.issuer(), at(0)));
        }
    }

    #[test]
    fn ca_outlives_the_secret_while_a_replica_remembers_it(
        mut events in prop::collection::vec(event(), 0..40),
    ) {
        events.retain(|event| !matches!(event, Event::Restart(_)));
        let (cluster, original) = play(events);
        let state = State::parse(cluster.secret.as_ref().unwrap()).unwrap();
        prop_assert_eq!(&state.active, &original);
    }
}
