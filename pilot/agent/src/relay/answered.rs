//! Streams that the control plane has answered.
//!
//! Several are open during a hot restart, and after a change of `discoveryAddress` they lead to
//! different control planes. Then the newest stream counts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::subscription::OwnType;

/// Open streams with their answers.
#[derive(Debug, Default)]
pub(super) struct Answered {
    next: AtomicU64,
    answers: Mutex<BTreeSet<(Answer, u64)>>,
}

/// Content that a stream has received.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Answer {
    Any,
    Own(OwnType),
}

impl Answered {
    /// Adds a stream without answers.
    pub(super) fn open(&self) -> AnsweredStream<'_> {
        AnsweredStream { streams: self, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// True if an open stream has been answered.
    pub(super) fn any(&self) -> bool {
        self.answers().iter().any(|(answer, _)| *answer == Answer::Any)
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, BTreeSet<(Answer, u64)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Open stream. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct AnsweredStream<'a> {
    streams: &'a Answered,
    number: u64,
}

impl AnsweredStream<'_> {
    /// Records a response.
    pub(super) fn answered(&self) {
        self.streams.answers().insert((Answer::Any, self.number));
    }

    /// Records content of the agent's own types. Returns true if no newer stream has any.
    pub(super) fn is_newest(&self, own_type: OwnType) -> bool {
        let mut answers = self.streams.answers();
        answers.insert((Answer::Own(own_type), self.number));
        let own = (Answer::Own(own_type), u64::MIN)..=(Answer::Own(own_type), u64::MAX);
        answers.range(own).next_back() == Some(&(Answer::Own(own_type), self.number))
    }
}

impl Drop for AnsweredStream<'_> {
    fn drop(&mut self) {
        self.streams.answers().retain(|(_, number)| *number != self.number);
    }
}
