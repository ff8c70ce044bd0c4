//! Publishing: objects and settings in, the state of each connected proxy out. Without a debounce:
//! what waits in the queue becomes one state.

mod cause;
mod history;
mod publisher;
mod push_time;
mod queue;
#[cfg(test)]
mod tests;
mod view_key;

pub use cause::Cause;
pub use history::{History, Publication};
pub use publisher::{Input, ProxyId, Publisher};
pub use push_time::PushTime;
pub use queue::{Queue, Subscription, start};
