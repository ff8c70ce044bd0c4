//! The bootstrap.

use clap::Args;
use serde_json::Value;

use super::Part;
use super::dump::Entry;

#[derive(Debug, Args)]
pub(super) struct Bootstrap {}

impl Part for Bootstrap {
    const COLUMNS: &'static [&'static str] = &[];

    fn entries(&self, dump: &Value) -> Vec<Entry> {
        let sections = dump["configs"].as_array().into_iter().flatten();
        let found = sections.filter_map(|section| section.get("bootstrap"));
        found.map(|object| Entry { rows: Vec::new(), object: object.clone() }).collect()
    }
}
