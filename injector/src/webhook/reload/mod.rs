//! Configuration in use, replaced without a restart.
//!
//! [`files`] and [`config_maps`] watch its sources. Both pass complete sets of documents to
//! [`Configuration::offer`], so that all documents change together.

pub mod config_maps;
pub mod files;

use std::fmt::Display;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use documents::notice::Notice;
use tokio::sync::watch;

use super::telemetry::metrics::Metrics;
use crate::settings::{Document, Documents, Process, Settings};

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

/// Texts of one configuration; an absent document stands for its default.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Texts {
    /// Text of the document `config`.
    pub inject_config: Option<Text>,
    /// Text of the document `values`.
    pub values: Option<Text>,
    /// Text of the document `mesh`.
    pub mesh_config: Option<Text>,
}

/// Text of a document, and its origin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Text {
    /// Origin for messages: a flag and a path, or `ConfigMap namespace/name, key`.
    pub source: String,
    /// Content of the document.
    pub text: String,
}

impl Texts {
    /// Returns the documents for [`Settings::parse`].
    pub fn documents(&self) -> Documents<'_> {
        fn document(text: &Text) -> Document<'_> {
            Document { source: &text.source, text: &text.text }
        }
        Documents {
            inject_config: self.inject_config.as_ref().map(document),
            values: self.values.as_ref().map(document),
            mesh_config: self.mesh_config.as_ref().map(document),
        }
    }

    /// True if every document is given.
    pub fn are_complete(&self) -> bool {
        self.inject_config.is_some() && self.values.is_some() && self.mesh_config.is_some()
    }

    /// Returns the origin of each document, for messages.
    pub fn sources(&self) -> String {
        let named = [&self.inject_config, &self.values, &self.mesh_config]
            .map(|text| text.as_ref().map_or("built in", |text| &text.source));
        format!("config: {}; values: {}; mesh: {}", named[0], named[1], named[2])
    }
}
