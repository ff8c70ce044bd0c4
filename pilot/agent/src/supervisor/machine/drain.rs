//! Draining at SIGTERM: one rule with one deadline.
//!
//! After `minimum`, draining ends as soon as no connection is left, and at the deadline in any
//! case. Istio's settings map on it:
//!
//! | setting | effect |
//! |---|---|
//! | `terminationDrainDuration` | deadline |
//! | `EXIT_ON_ZERO_ACTIVE_CONNECTIONS` | no deadline but the kubelet's SIGKILL, as connections are waited for |
//! | `MINIMUM_DRAIN_DURATION` | time for other proxies to learn that the pod leaves: draining does not end before |
//! | `drainDuration` | Envoy's `--drain-time-s`: the period over which it asks clients to leave |

use std::time::Duration;

use super::Connections;
use crate::config::DrainOptions;

/// Times of a drain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plan {
    /// Time before connections are counted.
    pub minimum: Duration,
    /// End of draining. `None`: the last connection, or the kubelet's SIGKILL.
    pub deadline: Option<Duration>,
    /// End of draining while the number of connections is unknown.
    pub deadline_if_unknown: Duration,
}

impl Plan {
    /// Plans a drain.
    pub fn new(options: &DrainOptions) -> Self {
        Self {
            minimum: options.minimum,
            deadline: Some(options.duration).filter(|_| !options.exit_on_zero_connections),
            deadline_if_unknown: options.duration.max(options.minimum),
        }
    }
}

/// Progress of a drain.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Drain {
    failures: u32,
}

/// Continuation of a drain after a count of connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Continuation {
    End,
    CountAgain,
    /// Counts again, but not beyond [`Plan::deadline_if_unknown`].
    Limit,
}

impl Drain {
    pub(super) fn counted(&mut self, count: Connections) -> Continuation {
        match count {
            Connections::Active(0) => Continuation::End,
            Connections::Active(_) => {
                self.failures = 0;
                Continuation::CountAgain
            }
            Connections::Unknown => Continuation::Limit,
            Connections::Failed => {
                self.failures += 1;
                if self.failures < FAILURES { Continuation::CountAgain } else { Continuation::End }
            }
        }
    }
}

/// Consecutive failures that end a drain.
const FAILURES: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn four_settings_map_on_one_plan() {
        // duration, minimum, exit on zero -> minimum, deadline, deadline if unknown
        let cases = [
            ((5, 5, false), (5, Some(5), 5)),
            ((30, 5, false), (5, Some(30), 30)),
            ((5, 5, true), (5, None, 5)),
            ((2, 20, true), (20, None, 20)),
        ];
        for ((duration, minimum, zero), (least, deadline, unknown)) in cases {
            let options = DrainOptions {
                duration: seconds(duration),
                minimum: seconds(minimum),
                exit_on_zero_connections: zero,
            };
            let expected = Plan {
                minimum: seconds(least),
                deadline: deadline.map(seconds),
                deadline_if_unknown: seconds(unknown),
            };
            assert_eq!(Plan::new(&options), expected, "{options:?}");
        }
    }

    #[test]
    fn five_consecutive_failures_end_a_drain() {
        let mut drain = Drain::default();
        for _ in 0..4 {
            assert_eq!(drain.counted(Connections::Failed), Continuation::CountAgain);
        }
        assert_eq!(drain.counted(Connections::Active(1)), Continuation::CountAgain);
        for _ in 0..4 {
            assert_eq!(drain.counted(Connections::Failed), Continuation::CountAgain);
        }
        assert_eq!(drain.counted(Connections::Failed), Continuation::End);
    }
}
