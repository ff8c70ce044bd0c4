//! Reference page of the schemas.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::{Page, code, repository};

fn reference() -> String {
    let schemas = schemas();
    let row = |(path, schema): &(String, Value)| {
        let text = |key: &str| schema[key].as_str().unwrap_or_default().to_owned();
        let name = path.rsplit('/').next().unwrap_or_default();
        [format!("[{name}](../{path})"), text("title"), text("description")]
    };
    let mut page = Page::new("Schemas")
        .text(
            "JSON Schemas of the outputs for programs. Within a version, members may be added, and \
             none is removed.",
        )
        .table(["schema", "title", "describes"], schemas.iter().map(row).collect());
    for (_, schema) in &schemas {
        let title = schema["title"].as_str().unwrap_or_default();
        let fields = schema["properties"].as_object().into_iter().flatten();
        let fields: BTreeMap<_, _> = fields.collect();
        let row = |(name, field): (&String, &Value)| {
            let description = field["description"].as_str().unwrap_or_default();
            [code(name), description.trim_end_matches('.').to_owned()]
        };
        let rows = fields.into_iter().map(row).collect();
        page = page.heading(2, title).table(["member", "meaning"], rows);
    }
    page.into_text()
}

/// Returns the schemas below `docs/`, with their paths from there.
fn schemas() -> Vec<(String, Value)> {
    let docs = repository().join("docs");
    let mut paths = vec!["plan.schema.json".to_owned()];
    let folder = fs::read_dir(docs.join("schemas")).into_iter().flatten().flatten();
    let names = folder.map(|file| format!("schemas/{}", file.file_name().display()));
    paths.extend(names.filter(|name| name.ends_with(".json")));
    paths.sort();
    let read = |path: String| {
        let text = fs::read_to_string(docs.join(&path)).expect("a listed file can be read");
        (path, serde_json::from_str(&text).expect("a schema is JSON"))
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn page_is_current() {
    crate::check("reference/schemas.md", &reference());
}
