//! Every state that one rotation can come to, with the rules themselves as transitions.
//!
//! Two replicas look and act in any order; each may crash, or stand still, between reading the
//! Secret, reading the webhook configuration, and each thing that it does. Two API servers learn of
//! a changed configuration late, but before the clock has gone on by one hour, which is the
//! propagation delay. Somebody may set the configuration back to the bundle of the beginning, at
//! any moment.
//!
//! What has to hold in each state: a leaf that a replica serves is trusted by every API server. The
//! exception is one that cannot be met: an API server that knows a bundle which somebody wrote
//! without the CA that signed at that time, or which no replica has repaired for an hour. And from each state there is a way, without a crash,
//! to one in which both replicas are trusted.

use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use super::rules::{Kept, Rules};
use super::*;
use crate::authority::{Entropy, Leaf, Lifetime};

#[test]
fn every_leaf_is_trusted_in_every_state_and_a_rotation_comes_to_its_end() {
    let found = Exploration::<Kept>::of(Bounds { hours: 4, reverts: 0, crashes: true, servers: 2 });
    found.holds();
}

#[test]
fn a_bundle_that_is_reverted_at_any_moment_is_recovered_from() {
    for bounds in [
        Bounds { hours: 2, reverts: 1, crashes: true, servers: 2 },
        Bounds { hours: 3, reverts: 1, crashes: false, servers: 1 },
    ] {
        Exploration::<Kept>::of(bounds).holds();
    }
}

/// Takes one rule for a wrong one; the exploration has to find a state in which a leaf is not
/// trusted.
macro_rules! mistakes {
    ($($test:ident: $bounds:expr, { $($rule:item)* })*) => {
        $(#[test]
        fn $test() {
            struct Mistaken;
            impl Rules for Mistaken {
                $($rule)*
            }
            let found = Exploration::<Mistaken>::of($bounds);
            let path = found.path_to_violation().expect("the mistake is not found");
            println!("{} states, then: {path}", found.states.len());
        })*
    };
}

const QUIET: Bounds = Bounds { hours: 4, reverts: 0, crashes: false, servers: 1 };
const REVERTED: Bounds = Bounds { reverts: 1, ..QUIET };

mistakes! {
    exchanging_the_ca_in_one_step_is_found: QUIET, {
        fn prepare(state: State, next: Authority, now: Timestamp) -> State {
            State { active: next, phase_since: now, ..state }
        }
    }
    publishing_without_the_ca_that_retires_is_found: QUIET, {
        fn trusted(state: &State) -> Bundle {
            match &state.phase {
                Phase::Activated { .. } => Bundle::new(state.active.ca().clone(), None),
                _ => state.bundle(),
            }
        }
        fn keeps(_: &Memory, _: &TrustedCa, _: bool, _: &Parameters, _: Timestamp) -> bool {
            false
        }
    }
    activating_before_anything_is_published_is_found: QUIET, {
        fn may_activate(_: &Memory, _: &Parameters, _: Timestamp) -> bool {
            true
        }
    }
    activating_without_the_propagation_delay_is_found: QUIET, {
        fn may_activate(memory: &Memory, _: &Parameters, now: Timestamp) -> bool {
            memory.published_for(now).is_some()
        }
    }
    overlooking_a_revert_that_was_repaired_is_found: REVERTED, {
        fn is_unchanged(_: &[(String, i64)], _: &[(String, i64)]) -> bool {
            true
        }
    }
    serving_the_newest_trusted_ca_is_found: QUIET, {
        fn choose<'a>(
            state: &'a State,
            _: &Memory,
            seen: &Observation,
            _: &Parameters,
            now: Timestamp,
        ) -> &'a Authority {
            match &state.phase {
                Phase::Prepared { next } if seen.trusts(next.ca(), now) => next,
                _ => &state.active,
            }
        }
    }
    retiring_while_old_leaves_live_is_found: QUIET, {
        fn may_retire(
            state: &State,
            _: &Authority,
            _: &Requests,
            parameters: &Parameters,
            now: Timestamp,
        ) -> bool {
            now.duration_since(state.phase_since) >= parameters.leaf_lifetime
        }
    }
    a_leaf_that_outlives_its_retired_ca_is_found: REVERTED, {
        fn limit(_: &State, _: &Authority, _: &Parameters) -> Option<Timestamp> {
            None
        }
    }
}

/// The states of this mistake are too many to explore, so one path is given.
#[test]
fn a_replica_that_stands_still_for_a_whole_rotation_does_nothing_it_had_decided() {
    struct Mistaken;
    impl Rules for Mistaken {
        fn is_fresh(_: Timestamp, _: &Parameters, _: Timestamp) -> bool {
            true
        }
    }
    assert!(is_safe_after_a_standstill::<Kept>());
    assert!(!is_safe_after_a_standstill::<Mistaken>());
}

/// One replica reads and decides, and acts on it when the other has rotated the CA.
fn is_safe_after_a_standstill<R: Rules>() -> bool {
    let mut cast = Cast::new();
    let mut world = cast.first(QUIET);
    world = cast.work::<R>(world, 0);
    world = cast.work::<R>(world, 0);
    for hour in 0..=QUIET.hours {
        world.hour = hour;
        for _ in 0..30 {
            world = cast.work::<R>(world, 1);
            world.known = [world.hook; 2];
        }
        assert!(cast.is_safe(world));
    }
    assert_eq!(cast.secrets.get(world.secret).0.generation, 4);
    (0..4).all(|_| {
        world = cast.work::<R>(world, 0);
        cast.is_safe(world)
    })
}

#[derive(Clone, Copy)]
struct Bounds {
    hours: u8,
    reverts: u8,
    crashes: bool,
    /// How many API servers learn on their own.
    servers: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    hour: u8,
    secret: Id,
    hook: Hook,
    /// What each API server knows.
    known: [Hook; 2],
    replicas: [Replica; 2],
    reverts: u8,
}

/// The webhook configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Hook {
    bundle: Id,
    generation: u8,
    /// Somebody wrote it without the CA that signed at that time.
    is_broken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Replica {
    memory: Id,
    work: Id,
}

/// A replica, the Secret and the configuration after one thing was done.
type Worked = (Replica, Id, Hook);

#[derive(Clone, Debug)]
enum Work {
    Nothing,
    HasRead { secret: Id, hour: u8 },
    HasDecided { secret: Id, hour: u8, actions: Vec<Action> },
}

#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "the numbers are there to be read by people")]
enum Move {
    Learn(usize),
    Crash(usize),
    Work(usize),
    Hour,
    Revert,
}

struct Exploration<R> {
    rules: PhantomData<R>,
    cast: Cast,
    /// Each state with the one that it was first reached from.
    states: Vec<(World, Option<(usize, Move)>)>,
    /// Steps that are neither a crash nor a revert.
    steps: Vec<(u32, u32)>,
    violation: Option<usize>,
}

impl<R: Rules> Exploration<R> {
    /// Goes breadth first, so that the path to a violation is the shortest, and stops there.
    fn of(bounds: Bounds) -> Self {
        let mut cast = Cast::new();
        let first = cast.first(bounds);
        let mut seen = HashMap::from([(first, 0)]);
        let mut states = vec![(first, None)];
        let (mut steps, mut violation, mut at) = (Vec::new(), None, 0);
        while at < states.len() && violation.is_none() {
            for (step, world) in cast.moves::<R>(states[at].0, bounds) {
                let number = *seen.entry(world).or_insert_with(|| {
                    states.push((world, Some((at, step))));
                    if !cast.is_safe(world) {
                        violation.get_or_insert(states.len() - 1);
                    }
                    states.len() - 1
                });
                if !matches!(step, Move::Crash(_) | Move::Revert) {
                    steps.push((u32::try_from(at).unwrap(), u32::try_from(number).unwrap()));
                }
            }
            at += 1;
        }
        Self { rules: PhantomData, cast, states, steps, violation }
    }

    fn holds(&self) {
        println!("{} states, {} steps", self.states.len(), self.steps.len());
        assert_eq!(self.path_to_violation(), None);
        let worlds = || self.states.iter().map(|(world, _)| *world);
        for phase in ["steady", "prepared", "activated"] {
            let state = |world: World| self.cast.secrets.get(world.secret).0.phase.word();
            assert!(worlds().any(|world| state(world) == phase), "no state is {phase}");
        }
        let mut ways_back = vec![Vec::new(); self.states.len()];
        for (from, to) in &self.steps {
            ways_back[*to as usize].push(*from);
        }
        let mut leads: Vec<bool> = worlds().map(|world| self.cast.is_served(world)).collect();
        let mut open: Vec<_> = (0..leads.len()).filter(|state| leads[*state]).collect();
        while let Some(state) = open.pop() {
            for from in &ways_back[state] {
                if !std::mem::replace(&mut leads[*from as usize], true) {
                    open.push(*from as usize);
                }
            }
        }
        let lost = leads.iter().position(|leads| !leads);
        assert_eq!(lost.map(|state| self.path(state)), None, "there is no way back to service");
    }

    fn path_to_violation(&self) -> Option<String> {
        self.violation.map(|state| self.path(state))
    }

    fn path(&self, mut state: usize) -> String {
        let mut path = Vec::new();
        while let Some((before, step)) = self.states[state].1 {
            path.push(format!("{step:?}"));
            state = before;
        }
        path.reverse();
        path.join(", ")
    }
}

/// Everything that states refer to, and the pure functions with their results remembered.
struct Cast {
    next: Authority,
    names: ServerNames,
    parameters: Parameters,
    old: Id,
    nothing: Replica,
    secrets: Pool<(State, Secret)>,
    bundles: Pool<Bundle>,
    memories: Pool<Memory>,
    works: Pool<Work>,
    leaves: HashMap<(String, Timestamp), Leaf>,
    worked: HashMap<(Replica, Id, Hook, u8), Worked>,
}

impl Cast {
    fn new() -> Self {
        let hours = SignedDuration::from_hours;
        let parameters = Parameters {
            authority_lifetime: hours(100),
            leaf_lifetime: hours(1),
            propagation_delay: hours(1),
            retire_delay: hours(2),
            ..Parameters::default()
        };
        let authority = |generation, age| {
            let lifetime = Lifetime::starting(at(0) - hours(age), parameters.authority_lifetime);
            Authority::create("test", generation, lifetime, Entropy::draw().unwrap()).unwrap()
        };
        let state = State::new(authority(1, 70), 1, at(0) - hours(70));
        let (mut bundles, mut memories, mut works) =
            (Pool::default(), Pool::default(), Pool::default());
        let mut secrets = Pool::default();
        let old = bundles.add(state.bundle());
        let nothing =
            Replica { memory: memories.add(Memory::default()), work: works.add(Work::Nothing) };
        let secret = state.write(Secret::default());
        secrets.add((state, secret));
        Self {
            next: authority(2, 0),
            names: ServerNames::parse(["test.test.svc"]).unwrap(),
            parameters,
            old,
            nothing,
            secrets,
            bundles,
            memories,
            works,
            leaves: HashMap::new(),
            worked: HashMap::new(),
        }
    }

    /// A CA that is due to be replaced, published, and known to both API servers.
    fn first(&self, bounds: Bounds) -> World {
        let hook = Hook { bundle: self.old, generation: 0, is_broken: false };
        World {
            hour: 0,
            secret: Id(0),
            hook,
            known: [hook; 2],
            replicas: [self.nothing; 2],
            reverts: bounds.reverts,
        }
    }

    fn moves<R: Rules>(&mut self, world: World, bounds: Bounds) -> Vec<(Move, World)> {
        let mut moves = Vec::new();
        for server in 0..bounds.servers {
            if world.known[server] != world.hook {
                let mut after = world;
                after.known[server..3 - bounds.servers + server].fill(world.hook);
                moves.push((Move::Learn(server), after));
            }
        }
        for number in 0..2 {
            moves.push((Move::Work(number), self.work::<R>(world, number)));
            if bounds.crashes && world.replicas[number] != self.nothing {
                let mut after = world;
                after.replicas[number] = self.nothing;
                moves.push((Move::Crash(number), after));
            }
        }
        if world.hour < bounds.hours && world.known.iter().all(|known| *known == world.hook) {
            let active = self.secrets.get(world.secret).0.active.ca();
            let mut hook = world.hook;
            hook.is_broken |= !self.bundles.get(hook.bundle).trusts(active, at(world.hour));
            let hour = world.hour + 1;
            moves.push((Move::Hour, World { hour, hook, known: [hook; 2], ..world }));
        }
        if world.reverts > 0 && world.hook.bundle != self.old {
            let active = self.secrets.get(world.secret).0.active.ca();
            let is_broken = !self.bundles.get(self.old).trusts(active, at(world.hour));
            let generation = world.hook.generation + 1;
            let hook = Hook { bundle: self.old, generation, is_broken };
            moves.push((Move::Revert, World { hook, reverts: world.reverts - 1, ..world }));
        }
        moves.into_iter().map(|(step, world)| (step, world.sorted())).collect()
    }

    /// Lets a replica do the next thing.
    fn work<R: Rules>(&mut self, mut world: World, number: usize) -> World {
        let key = (world.replicas[number], world.secret, world.hook, world.hour);
        let (replica, secret, hook) = if let Some(worked) = self.worked.get(&key) {
            *worked
        } else {
            let after = self.work_once::<R>(world, number);
            let worked = (after.replicas[number], after.secret, after.hook);
            self.worked.insert(key, worked);
            worked
        };
        world.replicas[number] = replica;
        World { secret, hook, ..world }
    }

    fn work_once<R: Rules>(&mut self, mut world: World, number: usize) -> World {
        let replica = world.replicas[number];
        let hour = world.hour;
        match self.works.get(replica.work).clone() {
            Work::Nothing => {
                let work = self.works.add(Work::HasRead { secret: world.secret, hour });
                world.replicas[number].work = work;
            }
            Work::HasRead { secret, hour: read } => {
                let mut after = self.decide::<R>(replica.memory, secret, world.hook, hour);
                if let Work::HasDecided { actions, .. } = self.works.get(after.work).clone() {
                    after.work = self.works.add(Work::HasDecided { secret, hour: read, actions });
                }
                world.replicas[number] = after;
            }
            Work::HasDecided { hour: read, .. }
                if !R::is_fresh(at(read), &self.parameters, at(hour)) =>
            {
                world.replicas[number].work = self.nothing.work;
            }
            Work::HasDecided { secret, hour: read, mut actions } => {
                let action = actions.remove(0);
                world.replicas[number].work = if actions.is_empty() {
                    self.nothing.work
                } else {
                    self.works.add(Work::HasDecided { secret, hour: read, actions })
                };
                self.act::<R>(&mut world, number, secret, action);
            }
        }
        world
    }

    fn decide<R: Rules>(&mut self, memory: Id, secret: Id, hook: Hook, hour: u8) -> Replica {
        let entry = Entry { name: "one".into(), bundle: self.bundles.get(hook.bundle).clone() };
        let observation = Observation {
            secret: Some(self.secrets.get(secret).1.clone()),
            configurations: vec![Configuration {
                name: "hook".into(),
                uid: "1".into(),
                resource_version: "1".into(),
                generation: hook.generation.into(),
                entries: vec![entry],
            }],
            is_complete: true,
        };
        let mut after = self.memories.get(memory).clone();
        let (names, parameters) = (&self.names, &self.parameters);
        let Decision { actions, complaint } =
            decide_by::<R>(&mut after, &observation, names, parameters, at(hour));
        assert_eq!(complaint, None);
        let work = if actions.is_empty() {
            self.nothing.work
        } else {
            self.works.add(Work::HasDecided { secret, hour, actions })
        };
        Replica { memory: self.memories.add(after), work }
    }

    fn act<R: Rules>(&mut self, world: &mut World, number: usize, read: Id, action: Action) {
        let mut memory = self.memories.get(world.replicas[number].memory).clone();
        match action {
            // Somebody else was faster; the look that follows shows it.
            Action::ReplaceSecret(_) if world.secret != read => {}
            Action::ReplaceSecret(content) => {
                let state = match content {
                    Content::State(state) => state,
                    Content::Prepared(state) => {
                        R::prepare(state, self.next.clone(), at(world.hour))
                    }
                    content => panic!("{content:?} in a world where nothing is lost"),
                };
                let secret = state.write(self.secrets.get(read).1.clone());
                memory.adopt(state.clone());
                world.secret = self.secrets.add((state, secret));
            }
            Action::PatchBundle { mut entries, .. } => {
                world.hook = Hook {
                    bundle: self.bundles.add(entries.remove(0).1),
                    generation: world.hook.generation + 1,
                    is_broken: false,
                };
            }
            Action::Serve { authority, until } => {
                let lifetime = leaf_lifetime(until, &self.parameters, at(world.hour));
                memory.leaf = Some(self.leaf(&authority, lifetime, world.hour));
            }
            Action::CreateSecret(_) => panic!("the Secret is never lost"),
        }
        world.replicas[number].memory = self.memories.add(memory);
    }

    /// A leaf whose renewal falls on no later than the middle, so that the states are the same in
    /// each run.
    fn leaf(&mut self, authority: &Authority, lifetime: Lifetime, hour: u8) -> Leaf {
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

    fn is_safe(&self, world: World) -> bool {
        let now = at(world.hour);
        let leaves = world
            .replicas
            .iter()
            .filter_map(|replica| self.memories.get(replica.memory).leaf.as_ref())
            .filter(|leaf| leaf.lifetime().not_after >= now);
        leaves.into_iter().all(|leaf| {
            let knows = |hook: &Hook| self.bundles.get(hook.bundle).trusts(leaf.issuer(), now);
            world.known.iter().filter(|hook| !hook.is_broken).all(knows)
        })
    }

    /// Tells whether both replicas serve a valid leaf that every API server trusts.
    fn is_served(&self, world: World) -> bool {
        let now = at(world.hour);
        world.replicas.iter().all(|replica| {
            self.memories.get(replica.memory).leaf.as_ref().is_some_and(|leaf| {
                let knows = |hook: &Hook| self.bundles.get(hook.bundle).trusts(leaf.issuer(), now);
                leaf.lifetime().not_after > now && world.known.iter().all(knows)
            })
        })
    }
}

impl World {
    /// Neither replicas nor API servers have a name that matters.
    fn sorted(mut self) -> Self {
        self.known.sort();
        self.replicas.sort();
        self
    }
}

/// Values that states refer to by number; the same value always has the same one.
struct Pool<T> {
    values: Vec<T>,
    /// By what `Debug` writes, since not all of them can be hashed.
    numbers: HashMap<String, Id>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Id(u16);

impl<T: Debug> Pool<T> {
    fn add(&mut self, value: T) -> Id {
        let number = Id(u16::try_from(self.values.len()).expect("values are few"));
        let found = *self.numbers.entry(format!("{value:?}")).or_insert(number);
        if found == number {
            self.values.push(value);
        }
        found
    }

    fn get(&self, id: Id) -> &T {
        &self.values[usize::from(id.0)]
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }
}

fn at(hour: impl Into<i64>) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50 + hour.into())
}
