//! Transitions between states of the model, by the rules themselves.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use webhook_certs::authority::{Authority, Entropy, Leaf, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::options::Parameters;
use webhook_certs::rotation::model::{Rules, decide_by};
use webhook_certs::rotation::{
    Action, BundlePatch, Configuration, Content, Decision, Entry, Memory, Observation,
    leaf_lifetime,
};
use webhook_certs::secret::State;
use webhook_certs::secret::rotation_requests::{REVOKE, RotationRequests};
use webhook_certs::server_names::ServerNames;

use super::cluster_state::{ClusterState, Hook, Id, Pool, Replica, Work, at};
use super::moves::{Begin, Bounds, Move};

/// A replica, the Secret, the configuration, and `signs_revoked` after one action.
pub(super) type Worked = (Replica, Id, Hook, bool);

/// Values that states refer to, and cached results of the pure functions.
pub(super) struct Transitions {
    /// CAs by their numbers.
    pub(super) made: BTreeMap<u64, Authority>,
    /// State before the rotation.
    pub(super) steady: State,
    pub(super) names: ServerNames,
    pub(super) parameters: Parameters,
    pub(super) old: Id,
    pub(super) nothing: Replica,
    pub(super) secrets: Pool<(State, Secret)>,
    pub(super) bundles: Pool<Bundle>,
    pub(super) memories: Pool<Memory>,
    pub(super) works: Pool<Work>,
    pub(super) leaves: HashMap<(String, Timestamp), Leaf>,
    pub(super) worked: HashMap<(Replica, Id, Hook, u8), Worked>,
}

impl Transitions {
    pub(super) fn new() -> Self {
        let hours = SignedDuration::from_hours;
        let parameters = Parameters {
            authority_lifetime: hours(100),
            leaf_lifetime: hours(1),
            propagation_delay: hours(1),
            retire_delay: hours(2),
            ..Parameters::default()
        };
        let lifetime = Lifetime::starting(at(0) - hours(70), parameters.authority_lifetime);
        let active = Authority::create("test", 1, lifetime, Entropy::draw().unwrap()).unwrap();
        let steady = State::new(active, 1, at(0) - hours(70));
        let (mut bundles, mut memories, mut works) =
            (Pool::default(), Pool::default(), Pool::default());
        let old = bundles.add(steady.bundle());
        let nothing =
            Replica { memory: memories.add(Memory::default()), work: works.add(Work::Nothing) };
        Self {
            made: BTreeMap::new(),
            steady,
            names: ServerNames::parse(["test.test.svc"]).unwrap(),
            parameters,
            old,
            nothing,
            secrets: Pool::default(),
            bundles,
            memories,
            works,
            leaves: HashMap::new(),
            worked: HashMap::new(),
        }
    }

    /// First state: a CA that is due for replacement, or is being replaced, published, and known to
    /// both API servers.
    pub(super) fn first(&mut self, bounds: Bounds) -> ClusterState {
        let next = self.authority(2);
        let prepared = self.steady.clone().after(0).prepared(next.clone(), at(0));
        let state = match bounds.begin {
            Begin::Steady => self.steady.clone(),
            Begin::Prepared => prepared,
            Begin::Activated => prepared.activated(next, at(0)),
        };
        let bundle = self.bundles.add(state.bundle());
        let hook = Hook { bundle, generation: 0, is_broken: false };
        let secret = state.write(Secret::default());
        ClusterState {
            hour: 0,
            secret: self.secrets.add((state, secret)),
            hook,
            known: [hook; 2],
            replicas: [self.nothing; 2],
            reverts: bounds.reverts,
            revocations: bounds.revocations,
            signs_revoked: false,
        }
    }

    /// Returns the CA with a number; it is made once.
    fn authority(&mut self, number: u64) -> Authority {
        let lifetime = Lifetime::starting(at(0), self.parameters.authority_lifetime);
        let make =
            || Authority::create("test", number, lifetime, Entropy::draw().unwrap()).unwrap();
        self.made.entry(number).or_insert_with(make).clone()
    }

    pub(super) fn moves<R: Rules>(
        &mut self,
        cluster: ClusterState,
        bounds: Bounds,
    ) -> Vec<(Move, ClusterState)> {
        let mut moves = Vec::new();
        for server in 0..bounds.servers {
            if cluster.known[server] != cluster.hook {
                let mut after = cluster;
                after.known[server..3 - bounds.servers + server].fill(cluster.hook);
                moves.push((Move::Learn(server), after));
            }
        }
        for number in 0..2 {
            moves.push((Move::Work(number), self.work::<R>(cluster, number)));
            if bounds.crashes && cluster.replicas[number] != self.nothing {
                let mut after = cluster;
                after.replicas[number] = self.nothing;
                moves.push((Move::Crash(number), after));
            }
        }
        if cluster.hour < bounds.hours && self.may_pass(cluster) {
            moves.push((Move::Hour, self.hour(cluster)));
        }
        let to = self.old;
        if cluster.reverts > 0 && cluster.hook.bundle != to {
            let active = self.secrets.get(cluster.secret).0.active.ca();
            let is_broken = !self.bundles.get(to).trusts(active, at(cluster.hour));
            let generation = cluster.hook.generation + 1;
            let hook = Hook { bundle: to, generation, is_broken };
            moves.push((
                Move::Revert,
                ClusterState { hook, reverts: cluster.reverts - 1, ..cluster },
            ));
        }
        if cluster.revocations > 0 {
            let (state, secret) = self.secrets.get(cluster.secret).clone();
            let asked = RotationRequests::from_secret(&secret);
            let cas = state.roles().into_iter().map(|(_, ca)| ca);
            for ca in cas.filter(|ca| !asked.revokes(ca)) {
                let mut secret = secret.clone();
                let annotations = secret.metadata.annotations.get_or_insert_default();
                annotations.insert(REVOKE.to_owned(), asked.revoking(ca));
                let secret = self.secrets.add((state.clone(), secret));
                let revocations = cluster.revocations - 1;
                let number = ca.generation().unwrap();
                moves.push((Move::Revoke(number), ClusterState { secret, revocations, ..cluster }));
            }
        }
        moves.into_iter().map(|(step, cluster)| (step, cluster.sorted())).collect()
    }

    /// True if an hour may pass: when the API servers know the configuration and, during a
    /// revocation, the serving replicas have reconciled, which each does many times within the
    /// propagation delay.
    fn may_pass(&self, cluster: ClusterState) -> bool {
        let (state, secret) = self.secrets.get(cluster.secret);
        let asked = RotationRequests::from_secret(secret).revoke;
        let has_looked = |replica: &Replica| {
            let memory = self.memories.get(replica.memory);
            memory.leaf.is_none()
                || replica.work == self.nothing.work
                    && memory.state.as_ref() == Some(state)
                    && memory.revoked.keys().copied().eq(asked.iter())
        };
        cluster.known.iter().all(|known| *known == cluster.hook)
            && (asked.is_empty() || cluster.replicas.iter().all(has_looked))
    }

    fn hour(&self, cluster: ClusterState) -> ClusterState {
        let active = self.secrets.get(cluster.secret).0.active.ca();
        let mut hook = cluster.hook;
        hook.is_broken |= !self.bundles.get(hook.bundle).trusts(active, at(cluster.hour));
        ClusterState { hour: cluster.hour + 1, hook, known: [hook; 2], ..cluster }
    }

    /// Performs the next action of a replica.
    pub(super) fn work<R: Rules>(
        &mut self,
        mut cluster: ClusterState,
        number: usize,
    ) -> ClusterState {
        let key = (cluster.replicas[number], cluster.secret, cluster.hook, cluster.hour);
        let (replica, secret, hook, signs_revoked) = if let Some(worked) = self.worked.get(&key) {
            *worked
        } else {
            let before = ClusterState { signs_revoked: false, ..cluster };
            let after = self.work_once::<R>(before, number);
            let worked = (after.replicas[number], after.secret, after.hook, after.signs_revoked);
            self.worked.insert(key, worked);
            worked
        };
        cluster.replicas[number] = replica;
        let signs_revoked = signs_revoked || cluster.signs_revoked;
        ClusterState { secret, hook, signs_revoked, ..cluster }
    }

    pub(super) fn work_once<R: Rules>(
        &mut self,
        mut cluster: ClusterState,
        number: usize,
    ) -> ClusterState {
        let replica = cluster.replicas[number];
        let hour = cluster.hour;
        match self.works.get(replica.work).clone() {
            Work::Nothing => {
                let work = self.works.add(Work::HasRead { secret: cluster.secret, hour });
                cluster.replicas[number].work = work;
            }
            Work::HasRead { secret, hour: read } => {
                let mut after = self.decide::<R>(replica.memory, secret, cluster.hook, hour);
                if let Work::HasDecided { actions, .. } = self.works.get(after.work).clone() {
                    after.work = self.works.add(Work::HasDecided { secret, hour: read, actions });
                }
                cluster.replicas[number] = after;
            }
            Work::HasDecided { hour: read, .. }
                if !R::is_fresh(at(read), &self.parameters, at(hour)) =>
            {
                cluster.replicas[number].work = self.nothing.work;
            }
            Work::HasDecided { secret, hour: read, mut actions } => {
                let action = actions.remove(0);
                cluster.replicas[number].work = if actions.is_empty() {
                    self.nothing.work
                } else {
                    self.works.add(Work::HasDecided { secret, hour: read, actions })
                };
                self.act::<R>(&mut cluster, number, secret, action);
            }
        }
        cluster
    }

    pub(super) fn decide<R: Rules>(
        &mut self,
        memory: Id,
        secret: Id,
        hook: Hook,
        hour: u8,
    ) -> Replica {
        let entry = Entry { name: "one".into(), bundle: self.bundles.get(hook.bundle).clone() };
        let observation = Observation {
            secret: Some(self.secrets.get(secret).1.clone()),
            configurations: vec![Configuration {
                name: "hook".into(),
                uid: "1".into(),
                resource_version: "1".into(),
                generation: hook.generation.into(),
                entries: vec![entry],
                others: Vec::new(),
                published_at: None,
            }],
            is_complete: true,
            ..Observation::default()
        };
        let mut after = self.memories.get(memory).clone();
        let (names, parameters) = (&self.names, &self.parameters);
        let Decision { actions, problem, .. } =
            decide_by::<R>(&mut after, &observation, names, parameters, at(hour));
        assert_eq!(problem, None);
        let work = if actions.is_empty() {
            self.nothing.work
        } else {
            self.works.add(Work::HasDecided { secret, hour, actions })
        };
        Replica { memory: self.memories.add(after), work }
    }

    pub(super) fn act<R: Rules>(
        &mut self,
        cluster: &mut ClusterState,
        number: usize,
        read: Id,
        action: Action,
    ) {
        let mut memory = self.memories.get(cluster.replicas[number].memory).clone();
        match action {
            // A conflict; the next reconciliation sees the other write.
            Action::ReplaceSecret(_) if cluster.secret != read => {}
            Action::ReplaceSecret(content) => {
                let state = match content {
                    Content::State(state) => state,
                    Content::Prepared(state) => {
                        let next = self.authority(state.generation);
                        R::prepare(state, next, at(cluster.hour))
                    }
                    content => panic!("{content:?} in a cluster where nothing is lost"),
                };
                let (before, found) = self.secrets.get(read).clone();
                let asked = RotationRequests::from_secret(&found);
                cluster.signs_revoked |=
                    state.active != before.active && asked.revokes(state.active.ca());
                let mut secret = state.write(found);
                RotationRequests::fulfil(&mut secret, &before, &state);
                memory.adopt(state.clone());
                cluster.secret = self.secrets.add((state, secret));
            }
            Action::PatchBundle(BundlePatch { mut entries, .. }) => {
                cluster.hook = Hook {
                    bundle: self.bundles.add(entries.remove(0).1),
                    generation: cluster.hook.generation + 1,
                    is_broken: false,
                };
            }
            Action::Serve { authority, until } => {
                let lifetime = leaf_lifetime(until, &self.parameters, at(cluster.hour));
                memory.leaf = Some(self.leaf(&authority, lifetime, cluster.hour));
            }
            Action::CreateSecret(_) => panic!("the Secret is never lost"),
        }
        cluster.replicas[number].memory = self.memories.add(memory);
    }

    /// Mints a leaf with renewal in the first half of its lifetime, so that the states are the same
    /// in each run.
    pub(super) fn leaf(&mut self, authority: &Authority, lifetime: Lifetime, hour: u8) -> Leaf {
        let key = (format!("{:?} at {hour}", authority.ca()), lifetime.not_after);
        let names = &self.names;
        let middle = lifetime.issued() + lifetime.not_after.duration_since(lifetime.issued()) / 2;
        let mint = || {
            std::iter::repeat_with(|| {
                authority.issue(names, lifetime, Entropy::draw().unwrap()).unwrap()
            })
            .find(|leaf| leaf.renew_at() <= middle)
            .unwrap()
        };
        self.leaves.entry(key).or_insert_with(mint).clone()
    }

    pub(super) fn is_safe(&self, cluster: ClusterState) -> bool {
        !cluster.signs_revoked && self.is_trusted(cluster)
    }

    fn is_trusted(&self, cluster: ClusterState) -> bool {
        let now = at(cluster.hour);
        let leaves = cluster
            .replicas
            .iter()
            .filter_map(|replica| self.memories.get(replica.memory).leaf.as_ref())
            .filter(|leaf| leaf.lifetime().not_after >= now);
        leaves.into_iter().all(|leaf| {
            let knows = |hook: &Hook| self.bundles.get(hook.bundle).trusts(leaf.issuer(), now);
            cluster.known.iter().filter(|hook| !hook.is_broken).all(knows)
        })
    }

    /// Lets an hour pass in which replicas and API servers do all pending work.
    pub(super) fn fair_hour<R: Rules>(&mut self, mut cluster: ClusterState) -> ClusterState {
        for _ in 0..ENOUGH {
            let before = cluster;
            for number in 0..2 {
                cluster = self.work::<R>(cluster, number);
                while cluster.replicas[number].work != self.nothing.work {
                    cluster = self.work::<R>(cluster, number);
                }
                cluster.known = [cluster.hook; 2];
            }
            if cluster == before {
                return self.hour(cluster);
            }
        }
        panic!("replicas do not come to rest: {cluster:?}");
    }

    /// True if all revocations are finished: the requests are gone, and no bundle holds a revoked
    /// CA.
    pub(super) fn is_revoked(&self, cluster: ClusterState) -> bool {
        let (state, secret) = self.secrets.get(cluster.secret);
        let mut hooks = cluster.known.iter().chain([&cluster.hook]);
        RotationRequests::from_secret(secret).revoke.is_empty()
            && hooks.all(|hook| {
                let mut held = self.bundles.get(hook.bundle).certificates().iter();
                !held.any(|ca| state.revoked.holds(ca))
            })
    }

    /// True if both replicas serve a valid leaf that every API server trusts.
    pub(super) fn is_served(&self, cluster: ClusterState) -> bool {
        let now = at(cluster.hour);
        cluster.replicas.iter().all(|replica| {
            self.memories.get(replica.memory).leaf.as_ref().is_some_and(|leaf| {
                let knows = |hook: &Hook| self.bundles.get(hook.bundle).trusts(leaf.issuer(), now);
                leaf.lifetime().not_after > now && cluster.known.iter().all(knows)
            })
        })
    }
}

/// More reconciliations than any sequence needs within an hour.
const ENOUGH: usize = 12;
