//! Which pods of a cluster are not as injection would have them today.
//!
//! Pure: [`hook`] reads the webhook configurations, [`inspection`] asks the API server's selectors
//! and then the injector's own decision about a pod, [`standing`] compares the pod with the answer.
//! [`explanation`], [`inventory`] and [`tally`] put that together for people and for metrics.

pub mod explanation;
pub mod inspection;
pub mod inventory;
pub mod standing;
pub mod tally;
