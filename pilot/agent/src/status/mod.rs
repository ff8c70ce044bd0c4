//! The status port: readiness, merged metrics, probes of the application, drain.

mod failure_log;
pub mod merge;
pub mod metrics;
mod page;
pub mod readiness;
mod routes;
mod sample;
pub mod scrape;
mod scrape_request;
pub mod server;
pub mod targets;
mod write_timeout;

pub use metrics::Metrics;
pub use scrape::Scraper;
pub use server::{Names, ServingEnvoy, ShutdownRequest, Status, bind, serve};
pub use targets::{ScrapeTarget, TargetError};
