//! Selection of the templates for a pod.

use std::fmt;

use crate::limits;
use crate::overlay;
use crate::settings::annotations::{AnnotationError, Annotations, key};
use crate::settings::inject_config::InjectConfig;
use crate::settings::{Settings, excerpt};

/// Returns the names of the overlays: those of the pod's annotation, or else the configuration's
/// default templates. Aliases are resolved.
pub fn templates(config: &InjectConfig, annotations: Annotations<'_>) -> Vec<String> {
    let names: Vec<String> = match annotations.get(key::TEMPLATES) {
        Some(names) => names.split(',').map(|name| name.trim().to_owned()).collect(),
        None => config.default_templates().to_vec(),
    };
    let resolved = names.into_iter().flat_map(|name| match config.aliases.get(&name) {
        Some(names) => names.clone(),
        None => vec![name],
    });
    resolved.collect()
}

/// Returns the error for an unknown template in the pod's annotation. Unknown names in the
/// configuration are not the pod's errors.
pub fn problems(settings: &Settings, annotations: Annotations<'_>) -> Option<AnnotationError> {
    let value = annotations.get(key::TEMPLATES)?;
    let names = value.split(',').map(str::trim);
    let unknown = names
        .filter(|name| !settings.inject.aliases.contains_key(*name))
        .find(|name| !overlay::exists(name, &settings.inject.templates))?;
    let problem = overlay::not_found(unknown, &settings.inject, annotations).to_string();
    Some(AnnotationError { key: key::TEMPLATES.into(), value: value.to_owned(), problem })
}

/// Returns an error if the pod names more templates than an injection may apply.
pub fn too_many(annotations: Annotations<'_>) -> Option<AnnotationError> {
    let value = annotations.get(key::TEMPLATES)?;
    (value.split(',').nth(limits::TEMPLATES).is_some()).then(|| AnnotationError {
        key: key::TEMPLATES.into(),
        value: value.to_owned(),
        problem: format!("names more than {} templates", limits::TEMPLATES),
    })
}

/// Origin of a request for an overlay.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Asker {
    /// The pod's annotation.
    Annotation,
    /// The configuration's default templates, for a pod without the annotation.
    DefaultTemplates,
    /// An alias of the configuration, named by the annotation or the default templates.
    Alias(String),
}

impl Asker {
    /// Returns the origin of the request for the overlay of this name.
    pub fn of(overlay: &str, config: &InjectConfig, annotations: Annotations<'_>) -> Self {
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

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation => write!(f, "annotation {}", key::TEMPLATES),
            Self::DefaultTemplates => f.write_str("defaultTemplates of the configuration"),
            Self::Alias(name) => write!(f, "alias {:?} of the configuration", excerpt::of(name)),
        }
    }
}
