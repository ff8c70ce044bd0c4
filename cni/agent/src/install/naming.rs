//! Files of a node that name the plugin: configurations, and attachments in libcni's cache.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use local_files::read_file;
use serde_json::Value;

use crate::install::conf_dir::is_loaded;
use crate::install::entry::TYPE;

/// A file that names the plugin, or that may.
#[derive(Debug, PartialEq, Eq)]
pub struct Naming {
    /// Path below the folder.
    pub file: String,
    /// Reason why the file cannot be judged: it cannot be read, or it is no JSON.
    pub doubt: Option<String>,
}

impl Naming {
    /// True for a file in the folder itself, not in that of a network, that cannot be judged.
    pub fn is_unjudged_list(&self) -> bool {
        self.doubt.is_some() && !self.file.contains('/')
    }
}

impl fmt::Display for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.doubt {
            None => f.write_str("names the plugin"),
            Some(doubt) => write!(f, "may name the plugin ({doubt})"),
        }
    }
}

/// Returns the configurations of the folder, and of those of networks, that name the plugin.
///
/// Text that is no JSON is searched as it is: a file may be valid for the runtime alone. One that
/// cannot be read may name it.
pub fn configurations(folder: &Path) -> io::Result<Vec<Naming>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A link to a folder is one for the runtime.
        if entry.path().is_dir() {
            for inner in fs::read_dir(entry.path())? {
                let inner = inner?;
                let file = inner.file_name().to_string_lossy().into_owned();
                if is_loaded(&file) {
                    let file = format!("{name}/{file}");
                    found.extend(naming(&inner.path(), file, Kind::Configuration));
                }
            }
        } else if is_loaded(&name) {
            found.extend(naming(&entry.path(), name, Kind::Configuration));
        }
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(found)
}

/// Returns the attachments in libcni's cache whose configuration names the plugin. One that cannot be
/// read may name it: libcni may be writing it. A cache that is absent has none.
pub fn attachments(cache: &Path) -> io::Result<Vec<Naming>> {
    let entries = match fs::read_dir(cache) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let file = entry.file_name().to_string_lossy().into_owned();
            found.extend(naming(&entry.path(), file, Kind::Attachment));
        }
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(found)
}

#[derive(Clone, Copy)]
enum Kind {
    Configuration,
    Attachment,
}

fn naming(path: &Path, file: String, kind: Kind) -> Option<Naming> {
    let text = match read_file(path) {
        Ok(text) => text,
        // It was removed meanwhile, or is a link to nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(Naming { file, doubt: Some(error.to_string()) }),
    };
    let doubt = match (serde_json::from_slice(&text), kind) {
        (Ok(config), Kind::Configuration) if has_plugin(&config) => None,
        (Ok(attachment), Kind::Attachment) => match configuration(&attachment) {
            Some(config) if has_plugin(&config) => None,
            Some(_) => return None,
            None => Some("its configuration cannot be decoded".to_owned()),
        },
        (Ok(_), _) => return None,
        (Err(_), Kind::Configuration) if !has_name(&text) => return None,
        (Err(error), _) => Some(format!("no JSON: {error}")),
    };
    Some(Naming { file, doubt })
}

/// Returns the configuration of an attachment: null if it has none, `None` if it cannot be decoded.
fn configuration(attachment: &Value) -> Option<Value> {
    match &attachment["config"] {
        Value::Null => Some(Value::Null),
        config => serde_json::from_slice(&STANDARD.decode(config.as_str()?).ok()?).ok(),
    }
}

/// True if an object at any depth is an entry of the plugin: Multus has lists in its own.
fn has_plugin(config: &Value) -> bool {
    match config {
        Value::Object(fields) => config["type"] == TYPE || fields.values().any(has_plugin),
        Value::Array(items) => items.iter().any(has_plugin),
        _ => false,
    }
}

fn has_name(text: &[u8]) -> bool {
    let name = format!("\"{TYPE}\"").into_bytes();
    text.windows(name.len()).any(|part| part == name)
}
