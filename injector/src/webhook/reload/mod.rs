//! The configuration in use, replaced without a restart.
//!
//! [`files`] and [`config_maps`] watch where it comes from; both hand whole sets of documents to
//! [`Configuration::offer`], so that all of them change together.

pub mod config_maps;
pub mod files;

use std::fmt::Display;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use documents::notice::Notice;
use tokio::sync::watch;

use super::telemetry::metrics::Metrics;
use crate::settings::{Document, Documents, Process, Settings};

/// The settings in use: the last good ones that were offered.
#[derive(Debug)]
pub struct Configuration {
    current: ArcSwapOption<Settings>,
    generation: watch::Sender<i64>,
    process: Process,
    metrics: Arc<Metrics>,
}

impl Configuration {
    /// Nothing is configured yet.
    pub fn new(process: Process, metrics: Arc<Metrics>) -> Self {
        let generation = watch::Sender::new(0);
        Self { current: ArcSwapOption::empty(), generation, process, metrics }
    }

    /// The settings in use, for one review from its start to its end; `None` before the first
    /// good ones.
    pub fn current(&self) -> Option<Arc<Settings>> {
        self.current.load_full()
    }

    /// The settings in use, as soon as there are any.
    pub async fn first(&self) -> Arc<Settings> {
        // Before the look, so that nothing is missed between the two.
        let mut generation = self.generation.subscribe();
        loop {
            if let Some(settings) = self.current() {
                return settings;
            }
            // It fails when the sender has gone, which is ours.
            let _ = generation.changed().await;
        }
    }

    /// Takes the documents into use, all together. When one cannot be used, the settings stay what
    /// they are, and the refusal is logged and counted.
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

    /// Logs and counts a configuration that cannot be used; the last good one stays.
    pub(super) fn refuse(&self, problem: &dyn Display) {
        self.metrics.configuration_refused();
        let kept = *self.generation.borrow();
        tracing::error!(%problem, kept_generation = kept, "configuration refused");
    }
}

/// The texts of one configuration; a document that is not there stands for its default.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Texts {
    /// The document `config`.
    pub inject_config: Option<Text>,
    /// The document `values`.
    pub values: Option<Text>,
    /// The document `mesh`.
    pub mesh_config: Option<Text>,
}

/// A document's text, and where it came from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Text {
    /// For messages: a path, or `ConfigMap namespace/name, key`.
    pub source: String,
    /// The text itself.
    pub text: String,
}

impl Texts {
    /// The documents, for [`Settings::parse`].
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

    /// Whether every document is given.
    pub fn are_complete(&self) -> bool {
        self.inject_config.is_some() && self.values.is_some() && self.mesh_config.is_some()
    }

    /// Origin of each document.
    pub fn sources(&self) -> String {
        let named = [&self.inject_config, &self.values, &self.mesh_config]
            .map(|text| text.as_ref().map_or("built in", |text| &text.source));
        format!("config: {}; values: {}; mesh: {}", named[0], named[1], named[2])
    }
}
