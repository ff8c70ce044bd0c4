//! Content of a directory over time.

use std::collections::BTreeMap;
use std::str;

use serde_json::Value;

use super::objects::FileObjects;
use super::parse::{FileError, ParsedFile, parse};
use crate::event::{Event, Update};
use crate::manifest::ObjectDefaults;

/// Last good content of the files of a directory.
#[derive(Debug)]
pub struct Directory {
    defaults: ObjectDefaults,
    files: BTreeMap<String, KnownFile>,
    /// Objects of all files; `None` before the first update.
    objects: Option<FileObjects>,
}

#[derive(Debug, Default)]
struct KnownFile {
    content: Vec<u8>,
    /// Objects of the last content that could be parsed.
    good: FileObjects,
}

/// Effect of new content.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DirectoryUpdate {
    /// Replacements of the kinds that changed.
    pub events: Vec<Event>,
    /// All objects of Istio, if one changed.
    pub istio: Option<Vec<Value>>,
    /// Warnings that begin with the file's name.
    pub warnings: Vec<String>,
}

impl Directory {
    /// An empty directory, as it was before the first update.
    pub fn new(defaults: ObjectDefaults) -> Self {
        Self { defaults, files: BTreeMap::new(), objects: None }
    }

    /// Takes the content of all files. A file that cannot be parsed keeps its last good objects.
    pub fn update(&mut self, files: &BTreeMap<String, Vec<u8>>) -> DirectoryUpdate {
        let mut warnings = Vec::new();
        self.files.retain(|name, _| files.contains_key(name));
        for (name, content) in files {
            if self.files.get(name).is_some_and(|known| known.content == *content) {
                continue;
            }
            let known = self.files.entry(name.clone()).or_default();
            known.content.clone_from(content);
            match parse_bytes(content, &self.defaults) {
                Ok(ParsedFile { objects, warnings: of_file }) => {
                    known.good = objects;
                    warnings.extend(of_file.iter().map(|warning| message(name, warning)));
                }
                Err(error) => {
                    let error = message(name, &error);
                    warnings.push(format!("{error}; the file's last good content stays"));
                }
            }
        }
        let objects = self.join(&mut warnings);
        let before = self.objects.as_ref();
        let events = events(before, &objects);
        let is_same = before.is_some_and(|before| before.istio == objects.istio);
        let istio = (!is_same).then(|| objects.istio.values().cloned().collect());
        self.objects = Some(objects);
        DirectoryUpdate { events, istio, warnings }
    }

    /// Joins the objects of all files. The first file with an object counts.
    fn join(&self, warnings: &mut Vec<String>) -> FileObjects {
        let mut objects = FileObjects::default();
        for (name, file) in &self.files {
            for (kind, key) in objects.add(&file.good) {
                warnings.push(format!("{name}: {kind} {key} is ignored: an earlier file has it"));
            }
        }
        objects
    }
}

fn parse_bytes(content: &[u8], defaults: &ObjectDefaults) -> Result<ParsedFile, FileError> {
    let text = str::from_utf8(content).map_err(|error| FileError {
        line: content[..error.valid_up_to()].split(|byte| *byte == b'\n').count(),
        problem: "not UTF-8".to_owned(),
    })?;
    parse(text, defaults)
}

fn message(name: &str, error: &FileError) -> String {
    format!("{name}:{}: {}", error.line, error.problem)
}

fn events(before: Option<&FileObjects>, after: &FileObjects) -> Vec<Event> {
    let FileObjects { services, slices, pods, nodes, namespaces, istio: _ } = after;
    let events = [
        replace(before.map(|it| &it.namespaces), namespaces).map(Event::Namespaces),
        replace(before.map(|it| &it.nodes), nodes).map(Event::Nodes),
        replace(before.map(|it| &it.pods), pods).map(Event::Pods),
        replace(before.map(|it| &it.slices), slices).map(Event::Slices),
        replace(before.map(|it| &it.services), services).map(Event::Services),
    ];
    events.into_iter().flatten().collect()
}

fn replace<K: PartialEq, T: Clone + PartialEq>(
    before: Option<&BTreeMap<K, T>>,
    after: &BTreeMap<K, T>,
) -> Option<Update<T>> {
    (before != Some(after)).then(|| Update::Replace(after.values().cloned().collect()))
}
