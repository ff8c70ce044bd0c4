//! Exploration of all reachable states, and their invariants.

use std::collections::HashMap;
use std::marker::PhantomData;

use webhook_certs::rotation::model::Rules;

use super::cluster_state::ClusterState;
use super::moves::{Bounds, Move};
use super::transitions::Transitions;

pub(super) struct Exploration<R> {
    pub(super) rules: PhantomData<R>,
    pub(super) transitions: Transitions,
    /// Each state with its predecessor on the shortest path.
    pub(super) states: Vec<(ClusterState, Option<(usize, Move)>)>,
    /// Steps other than crashes, reverts and revocations.
    pub(super) steps: Vec<(u32, u32)>,
    pub(super) violation: Option<usize>,
}

impl<R: Rules> Exploration<R> {
    /// Explores breadth first up to the first violation, so that the path to it is the shortest.
    pub(super) fn explore(bounds: Bounds) -> Self {
        let mut transitions = Transitions::new();
        let first = transitions.first(bounds);
        let mut seen = HashMap::from([(first, 0)]);
        let mut states = vec![(first, None)];
        let (mut steps, mut violation, mut at) = (Vec::new(), None, 0);
        while at < states.len() && violation.is_none() {
            for (step, cluster) in transitions.moves::<R>(states[at].0, bounds) {
                let number = *seen.entry(cluster).or_insert_with(|| {
                    states.push((cluster, Some((at, step))));
                    if !transitions.is_safe(cluster) {
                        violation.get_or_insert(states.len() - 1);
                    }
                    states.len() - 1
                });
                if !matches!(step, Move::Crash(_) | Move::Revert | Move::Revoke(_)) {
                    steps.push((u32::try_from(at).unwrap(), u32::try_from(number).unwrap()));
                }
            }
            at += 1;
        }
        Self { rules: PhantomData, transitions, states, steps, violation }
    }

    pub(super) fn holds(&self) {
        println!("{} states, {} steps", self.states.len(), self.steps.len());
        assert_eq!(self.path_to_violation(), None);
        let states = || self.states.iter().map(|(cluster, _)| *cluster);
        for phase in ["steady", "prepared", "activated"] {
            let state =
                |cluster: ClusterState| self.transitions.secrets.get(cluster.secret).0.phase.word();
            assert!(states().any(|cluster| state(cluster) == phase), "no state is {phase}");
        }
        let mut ways_back = vec![Vec::new(); self.states.len()];
        for (from, to) in &self.steps {
            ways_back[*to as usize].push(*from);
        }
        let mut leads: Vec<bool> =
            states().map(|cluster| self.transitions.is_served(cluster)).collect();
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

    /// Asserts that every revocation completes within `hours`, without a failed call, if all
    /// replicas and API servers make progress.
    pub(super) fn revokes_within(&mut self, hours: u8) {
        let asked = |(_, from): &(ClusterState, Option<(usize, Move)>)| {
            matches!(from, Some((_, Move::Revoke(_))))
        };
        let asked: Vec<_> =
            (0..self.states.len()).filter(|state| asked(&self.states[*state])).collect();
        println!("{} revocations", asked.len());
        let mut after = HashMap::new();
        for state in asked {
            let mut cluster = ClusterState { revocations: 0, reverts: 0, ..self.states[state].0 };
            for _ in 0..hours {
                let transitions = &mut self.transitions;
                cluster =
                    *after.entry(cluster).or_insert_with(|| transitions.fair_hour::<R>(cluster));
                assert!(self.transitions.is_safe(cluster), "not safe after {}", self.path(state));
            }
            assert!(self.transitions.is_revoked(cluster), "not revoked after {}", self.path(state));
        }
    }

    pub(super) fn path_to_violation(&self) -> Option<String> {
        self.violation.map(|state| self.path(state))
    }

    pub(super) fn path(&self, mut state: usize) -> String {
        let mut path = Vec::new();
        while let Some((before, step)) = self.states[state].1 {
            path.push(format!("{step:?}"));
            state = before;
        }
        path.reverse();
        path.join(", ")
    }
}
