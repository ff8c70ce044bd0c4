//! Configuration in use, replaced without a restart.
//!
//! `files` and `config_maps` watch its sources. Both pass complete sets of documents to
//! [`Configuration::offer`], so that all documents change together.

mod config_maps;
mod files;

use std::fmt::Display;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use documents::notice::Notice;
use tokio::sync::watch;

use super::telemetry::metrics::Metrics;
use crate::settings::{Process, Settings};
use crate::sources::Texts;

/// Settings in use: the last valid ones.
#[derive(Debug)]
pub struct Configuration {
    current: ArcSwapOption<Settings>,
    generation: watch::Sender<i64>,
    process: Process,
    metrics: Arc<Metrics>,
}

impl Configuration {
    /// Returns a state without settings.
    pub fn new(process: Process, metrics: Arc<Metrics>) -> Self {
        let generation = watch::Sender::new(0);
        Self { current: ArcSwapOption::empty(), generation, process, metrics }
    }

    /// Returns the settings in use, for one review from its start to its end; `None` before the
    /// first valid ones.
    pub fn current(&self) -> Option<Arc<Settings>> {
        self.current.load_full()
    }

    /// Returns the settings in use, as soon as there are any.
    pub async fn first(&self) -> Arc<Settings> {
        // Subscribed before the check, so that no change between the two is missed.
        let mut generation = self.generation.subscribe();
        loop {
            if let Some(settings) = self.current() {
                return settings;
            }
            // Fails only without the sender, which `self` holds.
            let _ = generation.changed().await;
        }
    }

    /// Replaces the settings by these documents, all together. If one is invalid, the settings stay
    /// the same, and the error is logged and counted.
    pub fn offer(&self, texts: &Texts) -> Result<(), crate::settings::SettingsError> {
        let documents = texts.documents();
        match Settings::parse(&documents, self.process.clone()) {
            Ok(settings) => {
                let notices = settings.notices.clone();
                self.current.store(Some(Arc::new(settings)));
                self.generation.send_modify(|generation| *generation += 1);
                let generation = *self.generation.borrow();
                self.metrics.configured(generation);
                tracing::info!(generation, sources = %texts.sources(), "configuration in use");
                self.metrics.notices(notices.len());
                for Notice { origin, path, problem } in notices {
                    tracing::warn!(document = origin, key = path, problem, "configuration is odd");
                }
                Ok(())
            }
            Err(error) => {
                self.refuse(&error);
                Err(error)
            }
        }
    }

    /// Logs and counts an invalid configuration; the last valid one stays in use.
    pub(super) fn refuse(&self, problem: &dyn Display) {
        self.metrics.configuration_refused();
        let kept = *self.generation.borrow();
        tracing::error!(%problem, kept_generation = kept, "configuration refused");
    }
}
