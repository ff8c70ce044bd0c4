//! Documents without their injections.

use documents::yaml;
use injector::manifest::{Document, Edit, Manifest};
use injector::uninject::uninject_template;
use reason::Reason;
use serde_json::Value;

/// Returns the objects of a file without their injections, and all doubts.
pub(crate) fn restored(text: &str) -> (Vec<Value>, Vec<Reason>) {
    let (text, doubts) = restored_text(text);
    let texts = text.split("\n---").map(|text| text.trim_start_matches("---"));
    let values = texts.map(|text| yaml::parse(text).unwrap()).filter(|value| !value.is_null());
    (values.collect(), doubts)
}

/// Returns a file without its injections, and all doubts.
pub(crate) fn restored_text(text: &str) -> (String, Vec<Reason>) {
    let (mut restored, mut doubts) = (String::new(), Vec::new());
    for document in Document::split(text).into_iter().flat_map(Document::parts) {
        let manifest = Manifest::read(&document).unwrap();
        let parts = manifest.pods().iter();
        let parts = parts.filter_map(|template| uninject_template(&manifest, template).unwrap());
        let parts: Vec<_> =
            parts.map(|(place, outcome)| (place, outcome.patch().owned(), outcome)).collect();
        let edits = parts.iter();
        let edits =
            edits.map(|(template, patch, outcome)| Edit { template, patch, pod: &outcome.pod });
        restored += &manifest.edit(&edits.collect::<Vec<_>>()).unwrap();
        doubts.extend(parts.into_iter().flat_map(|(.., outcome)| outcome.doubts));
    }
    (restored, doubts)
}
