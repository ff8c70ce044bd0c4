//! Validation of the templates that a pod requests.

use crate::inject::limits;
use crate::overlay::error;
use crate::settings::annotations::{AnnotationError, Annotations, key};
use crate::settings::{Settings, template_names};

/// Returns the errors in the template names of a pod's annotation.
pub fn problems(settings: &Settings, annotations: Annotations<'_>) -> Option<AnnotationError> {
    let value = annotations.get(key::TEMPLATES)?;
    let names = value.split(',').map(str::trim);
    let unknown = names
        .filter(|name| !settings.inject.aliases.contains_key(*name))
        .find(|name| !template_names::exists(name, &settings.inject.templates))?;
    let problem = error::not_found(unknown, &settings.inject, annotations).to_string();
    Some(AnnotationError { key: key::TEMPLATES.into(), value: value.to_owned(), problem })
}

/// An error where the pod names more templates than an injection may apply.
pub fn too_many(annotations: Annotations<'_>) -> Option<AnnotationError> {
    let value = annotations.get(key::TEMPLATES)?;
    (value.split(',').nth(limits::TEMPLATES).is_some()).then(|| AnnotationError {
        key: key::TEMPLATES.into(),
        value: value.to_owned(),
        problem: format!("names more than {} templates", limits::TEMPLATES),
    })
}
