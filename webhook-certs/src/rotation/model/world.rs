//! What a state consists of, and how it becomes another one.

use std::collections::HashMap;
use std::fmt::Debug;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;

use super::exploration::{Bounds, Move};
use super::*;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct World {
    pub(super) hour: u8,
    pub(super) secret: Id,
    pub(super) hook: Hook,
    /// What each API server knows.
    pub(super) known: [Hook; 2],
    pub(super) replicas: [Replica; 2],
    pub(super) reverts: u8,
}

/// The webhook configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Hook {
    pub(super) bundle: Id,
    pub(super) generation: u8,
    /// Somebody wrote it without the CA that signed at that time.
    pub(super) is_broken: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Replica {
    pub(super) memory: Id,
    pub(super) work: Id,
}

/// A replica, the Secret and the configuration after one thing was done.
pub(super) type Worked = (Replica, Id, Hook);

#[derive(Clone, Debug)]
pub(super) enum Work {
    Nothing,
    HasRead { secret: Id, hour: u8 },
    HasDecided { secret: Id, hour: u8, actions: Vec<Action> },
}

/// Everything that states refer to, and the pure functions with their results remembered.
pub(super) struct Cast {
    pub(super) next: Authority,
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

impl Cast {
    pub(super) fn new() -> Self {
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
    pub(super) fn first(&self, bounds: Bounds) -> World {
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

    pub(super) fn moves<R: Rules>(&mut self, world: World, bounds: Bounds) -> Vec<(Move, World)> {
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
    pub(super) fn work<R: Rules>(&mut self, mut world: World, number: usize) -> World {
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

    pub(super) fn work_once<R: Rules>(&mut self, mut world: World, number: usize) -> World {
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
        let Decision { actions, complaint, .. } =
            decide_by::<R>(&mut after, &observation, names, parameters, at(hour));
        assert_eq!(complaint, None);
        let work = if actions.is_empty() {
            self.nothing.work
        } else {
            self.works.add(Work::HasDecided { secret, hour, actions })
        };
        Replica { memory: self.memories.add(after), work }
    }

    pub(super) fn act<R: Rules>(
        &mut self,
        world: &mut World,
        number: usize,
        read: Id,
        action: Action,
    ) {
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
            Action::PatchBundle(BundlePatch { mut entries, .. }) => {
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

    pub(super) fn is_safe(&self, world: World) -> bool {
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
    pub(super) fn is_served(&self, world: World) -> bool {
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
    pub(super) fn sorted(mut self) -> Self {
        self.known.sort();
        self.replicas.sort();
        self
    }
}

/// Values that states refer to by number; the same value always has the same one.
pub(super) struct Pool<T> {
    pub(super) values: Vec<T>,
    /// By what `Debug` writes, since not all of them can be hashed.
    pub(super) numbers: HashMap<String, Id>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Id(u16);

impl<T: Debug> Pool<T> {
    pub(super) fn add(&mut self, value: T) -> Id {
        let number = Id(u16::try_from(self.values.len()).expect("values are few"));
        let found = *self.numbers.entry(format!("{value:?}")).or_insert(number);
        if found == number {
            self.values.push(value);
        }
        found
    }

    pub(super) fn get(&self, id: Id) -> &T {
        &self.values[usize::from(id.0)]
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { values: Vec::new(), numbers: HashMap::new() }
    }
}

pub(super) fn at(hour: impl Into<i64>) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50 + hour.into())
}
