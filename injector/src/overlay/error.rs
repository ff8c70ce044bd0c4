//! Overlays that cannot be made, and who requested them.

use std::fmt;

use documents::{excerpt, suggest};

use crate::settings::annotations::{Annotations, key};
use crate::settings::inject_config::InjectConfig;
use crate::settings::template_names::names;
use crate::template::error::TemplateError;

/// An overlay that cannot be made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OverlayError {
    /// There is none of this name.
    #[error(
        "requested template {name:?} not found; have {have} (asked for by {requested_by}){near}"
    )]
    NotFound {
        /// The requested name.
        name: String,
        /// The known names.
        have: String,
        /// "Did you mean" suggestion, as the end of a sentence; empty if there is none.
        near: String,
        /// Source of the request.
        requested_by: TemplateSource,
    },
    /// The configuration's template of this name fails for this pod.
    #[error(transparent)]
    Template(TemplateError),
}

/// The error for a name that no overlay has.
pub fn not_found(name: &str, config: &InjectConfig, annotations: Annotations<'_>) -> OverlayError {
    let have = names(&config.templates);
    let requested_by = TemplateSource::new(name, config, annotations);
    let name = excerpt::shorten(name).into_owned();
    let near = suggest::did_you_mean(&name, &have);
    OverlayError::NotFound { name, have: have.join(", "), near, requested_by }
}

/// Source of a request for an overlay.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TemplateSource {
    /// The pod, by its annotation.
    Annotation,
    /// The configuration, for pods that do not say.
    DefaultTemplates,
    /// The configuration, by what it has the pod's or its own name stand for.
    Alias(String),
}

impl TemplateSource {
    /// The overlay of this name.
    pub fn new(overlay: &str, config: &InjectConfig, annotations: Annotations<'_>) -> Self {
        let named = annotations.get(key::TEMPLATES);
        let names: Vec<_> = match named {
            Some(names) => names.split(',').map(str::trim).collect(),
            None => config.default_templates().iter().map(String::as_str).collect(),
        };
        let is_direct = |name: &str| name == overlay && !config.aliases.contains_key(name);
        let leads_there = |name: &&&str| {
            config.aliases.get(**name).is_some_and(|names| names.iter().any(|name| name == overlay))
        };
        match names.iter().find(leads_there) {
            Some(alias) if !names.iter().any(|name| is_direct(name)) => {
                Self::Alias((*alias).to_owned())
            }
            _ if named.is_some() => Self::Annotation,
            _ => Self::DefaultTemplates,
        }
    }
}

impl fmt::Display for TemplateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation => write!(f, "annotation {}", key::TEMPLATES),
            Self::DefaultTemplates => f.write_str("defaultTemplates of the configuration"),
            Self::Alias(name) => {
                write!(f, "alias {:?} of the configuration", excerpt::shorten(name))
            }
        }
    }
}
