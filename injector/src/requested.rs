//! Which overlays a pod gets.

use crate::overlay;
use crate::settings::Settings;
use crate::settings::annotations::{AnnotationError, Annotations, key};
use crate::settings::inject_config::InjectConfig;

/// The names of the overlays: those that the pod asks for, or else the configuration's default
/// ones, aliases resolved.
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

/// What is wrong with the names that a pod asks for.
pub fn problems(settings: &Settings, annotations: Annotations<'_>) -> Option<AnnotationError> {
    let value = annotations.get(key::TEMPLATES)?;
    let names = templates(&settings.inject, annotations);
    let unknown = names.iter().find(|name| !overlay::exists(name, settings))?;
    let problem = overlay::not_found(unknown, settings, annotations).to_string();
    Some(AnnotationError { key: key::TEMPLATES.into(), value: value.to_owned(), problem })
}
