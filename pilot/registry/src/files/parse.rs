//! Parsing of a file.

use std::collections::BTreeMap;
use std::fmt::Display;

use documents::typed::typed;
use documents::yaml;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;

use super::objects::FileObjects;
use super::split::{Document, split};
use crate::event::ObjectKey;
use crate::manifest::{
    Manifest, NamespaceManifest, NodeManifest, ObjectDefaults, PodManifest, ServiceManifest,
    SliceManifest,
};

/// Objects of a file, and warnings about its further documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedFile {
    /// Objects.
    pub objects: FileObjects,
    /// Warnings, each with its line.
    pub warnings: Vec<FileError>,
}

/// Problem of a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct FileError {
    /// Line, from 1.
    pub line: usize,
    /// The problem.
    pub problem: String,
}

/// Parses a file of YAML documents. Lists are taken apart; other kinds become warnings.
pub fn parse(text: &str, defaults: &ObjectDefaults) -> Result<ParsedFile, FileError> {
    let mut file = ParsedFile::default();
    for (document, number) in split(text).into_iter().zip(1..) {
        let value = yaml::parse_file(document.text).map_err(|error| FileError {
            line: document.lines_before + error.line.max(1),
            problem: error.problem,
        })?;
        let mut reader = DocumentReader { document, number, defaults, file: &mut file };
        reader.value(value)?;
    }
    Ok(file)
}

struct DocumentReader<'a> {
    document: Document<'a>,
    /// Number of the document in the file, from 1.
    number: usize,
    defaults: &'a ObjectDefaults,
    file: &'a mut ParsedFile,
}

impl DocumentReader<'_> {
    fn value(&mut self, mut value: Value) -> Result<(), FileError> {
        if value.is_null() {
            return Ok(());
        }
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        match (api_version.as_str(), kind.as_str()) {
            ("v1", "List") => {
                let Value::Array(items) = value["items"].take() else { return Ok(()) };
                items.into_iter().try_for_each(|item| self.value(item))
            }
            (ServiceManifest::API_VERSION, ServiceManifest::KIND) => {
                let object = self.object::<ServiceManifest>(value, true)?;
                self.add(object, |objects| &mut objects.services)
            }
            (SliceManifest::API_VERSION, SliceManifest::KIND) => {
                let object = self.object::<SliceManifest>(value, true)?;
                self.add(object, |objects| &mut objects.slices)
            }
            (PodManifest::API_VERSION, PodManifest::KIND) => {
                let object = self.object::<PodManifest>(value, true)?;
                self.add(object, |objects| &mut objects.pods)
            }
            (NodeManifest::API_VERSION, NodeManifest::KIND) => {
                let object = self.object::<NodeManifest>(value, false)?;
                self.add(object, |objects| &mut objects.nodes)
            }
            (NamespaceManifest::API_VERSION, NamespaceManifest::KIND) => {
                let object = self.object::<NamespaceManifest>(value, false)?;
                self.add(object, |objects| &mut objects.namespaces)
            }
            (version, kind) if is_of_istio(version) => {
                let text = |key: &str| value["metadata"][key].as_str().filter(|it| !it.is_empty());
                let namespace = text("namespace").unwrap_or(DEFAULT_NAMESPACE);
                let Some(name) = text("name") else {
                    let problem = self.error(&format!("{kind} without metadata.name"));
                    // Others change nothing, such as an IstioOperator.
                    if ["AuthorizationPolicy", "PeerAuthentication"].contains(&kind) {
                        return Err(problem);
                    }
                    self.file.warnings.push(problem);
                    return Ok(());
                };
                let key = ObjectKey::new(namespace, name);
                let title = format!("{kind} {key}");
                self.add_once((kind.to_owned(), key), &title, value, |objects| &mut objects.istio)
            }
            _ => {
                let number = self.number;
                let problem = format!(
                    "document {number} of kind {kind:?} and apiVersion {api_version:?} is ignored"
                );
                let warning = self.error(&problem);
                self.file.warnings.push(warning);
                Ok(())
            }
        }
    }

    fn object<M: Manifest + DeserializeOwned>(
        &self,
        value: Value,
        is_namespaced: bool,
    ) -> Result<(ObjectKey, Option<M::Object>), FileError> {
        let mut manifest: M =
            typed(value).map_err(|problem| self.error(&format!("{}: {problem}", M::KIND)))?;
        let namespace = &mut manifest.metadata().namespace;
        let given = namespace.take().filter(|namespace| is_namespaced && !namespace.is_empty());
        *namespace = given.or_else(|| is_namespaced.then(|| DEFAULT_NAMESPACE.into()));
        let key = manifest.metadata().key();
        if key.name.is_empty() {
            return Err(self.error(&format!("{} without metadata.name", M::KIND)));
        }
        let object = manifest.convert(self.defaults).map_err(|error| self.error(&error))?;
        Ok((key, object))
    }

    fn add<T>(
        &mut self,
        (key, object): (ObjectKey, Option<T>),
        objects: fn(&mut FileObjects) -> &mut BTreeMap<ObjectKey, T>,
    ) -> Result<(), FileError> {
        let Some(object) = object else { return Ok(()) };
        let title = key.to_string();
        self.add_once(key, &title, object, objects)
    }

    fn add_once<K: Ord, T>(
        &mut self,
        key: K,
        title: &str,
        object: T,
        objects: fn(&mut FileObjects) -> &mut BTreeMap<K, T>,
    ) -> Result<(), FileError> {
        match objects(&mut self.file.objects).insert(key, object) {
            None => Ok(()),
            Some(_) => Err(self.error(&format!("{title} stands twice in the file"))),
        }
    }

    /// Problem of the document, at its first line with content.
    fn error(&self, problem: &dyn Display) -> FileError {
        let is_content = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
        let before = self.document.text.lines().take_while(|line| !is_content(line)).count();
        FileError { line: self.document.lines_before + before + 1, problem: problem.to_string() }
    }
}

/// True for the version of an API of Istio.
fn is_of_istio(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| group.ends_with(".istio.io"))
}

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";
