//! Durations of the cases: seconds in `make test`, realistic ones for a whole night in `make soak`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

/// The times and counts of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Number of cases at a time, each with API servers of its own.
    pub(crate) side_by_side: usize,
    pub(crate) propagation_delay: Duration,
    pub(crate) authority_lifetime: Duration,
    pub(crate) leaf_lifetime: Duration,
    pub(crate) tick: Duration,
    /// Pods created per second, over all API servers.
    pub(crate) rate: u32,
    /// Consecutive automatic rotations.
    pub(crate) rotations: u32,
    /// Number of simultaneous starts of several replicas.
    pub(crate) starts: u32,
    /// Time for which another client keeps rewriting a `caBundle`.
    pub(crate) contention: Duration,
    /// Rounds of repeated steps.
    pub(crate) rounds: u32,
    /// Rate of reviews per second, and duration, of the measurement of the webhook itself.
    pub(crate) reviews: (u32, Duration),
}

impl Pace {
    /// Returns the pace in `OUTRIGGER_PACE`: `test`, which is the default, or `soak`.
    pub(crate) fn of_environment() -> Result<Self> {
        match std::env::var("OUTRIGGER_PACE").as_deref() {
            Err(_) | Ok("test") => Ok(TEST),
            Ok("soak") => Ok(SOAK),
            Ok(other) => bail!("OUTRIGGER_PACE: `{other}` is neither `test` nor `soak`"),
        }
    }

    /// Returns the time for which a CA that no longer signs stays trusted: a leaf's lifetime and
    /// twice the propagation delay of a decision.
    pub(crate) fn retire_delay(&self) -> Duration {
        self.leaf_lifetime + 2 * self.propagation_delay
    }

    /// Returns the flags of a replica, by name.
    pub(crate) fn flags(&self) -> BTreeMap<&'static str, String> {
        let text = |time: Duration| format!("{}ms", time.as_millis());
        BTreeMap::from([
            ("propagation-delay", text(self.propagation_delay)),
            // Rotations happen only on request of the case.
            ("authority-lifetime", "24h".to_owned()),
            ("leaf-lifetime", text(self.leaf_lifetime)),
            ("retire-delay", text(self.retire_delay())),
            ("tick", text(self.tick)),
        ])
    }
}

const TEST: Pace = Pace {
    side_by_side: 2,
    propagation_delay: Duration::from_secs(3),
    authority_lifetime: Duration::from_secs(45),
    leaf_lifetime: Duration::from_secs(15),
    tick: Duration::from_millis(500),
    rate: 25,
    rotations: 1,
    starts: 3,
    contention: Duration::from_secs(6),
    rounds: 1,
    reviews: (200, Duration::from_secs(5)),
};

const SOAK: Pace = Pace {
    side_by_side: 1,
    propagation_delay: Duration::from_secs(10),
    authority_lifetime: Duration::from_secs(120),
    leaf_lifetime: Duration::from_secs(30),
    tick: Duration::from_secs(1),
    rate: 100,
    rotations: 3,
    starts: 50,
    contention: Duration::from_secs(60),
    rounds: 5,
    reviews: (500, Duration::from_secs(60)),
};
