//! Configuration documents as texts, read from files or from the `ConfigMap`s of a cluster.

pub mod config_maps;
pub mod files;

use crate::settings::{Document, Documents};

/// Texts of one configuration; an absent document has its default.
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
    /// Returns the documents for `Settings::parse`.
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
