//! Content of the folder with the runtime's network configurations.

use std::collections::BTreeMap;

use crate::install::conf_list::ConfList;

/// Content of the folder, by the name of the file.
///
/// Files that a runtime loads (`.conf`, `.conflist`, `.json`), and our drop-ins as
/// `NETWORK/50-istio-cni.conf`. A file that cannot be read has the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfDir(pub BTreeMap<String, Result<String, String>>);

/// Configuration that makes the network of pods.
#[derive(Clone, Debug)]
pub struct Primary {
    /// Name of the file.
    pub file: String,
    /// The configuration.
    pub list: ConfList,
}

impl ConfDir {
    /// Returns the first configuration by name that is none of `ours`, as runtimes choose it.
    ///
    /// An invalid file before it is an error: the runtime loads none then, or its owner is just
    /// writing it.
    pub fn primary(&self, ours: &[&str]) -> Result<Option<Primary>, String> {
        let mut files =
            self.0.iter().filter(|(name, _)| is_loaded(name) && !ours.contains(&name.as_str()));
        let Some((file, content)) = files.next() else { return Ok(None) };
        let content = content.as_ref().map_err(|error| format!("{file}: {error}"))?;
        let list = ConfList::parse(file, content).map_err(|error| format!("{file}: {error}"))?;
        Ok(Some(Primary { file: file.clone(), list }))
    }

    /// Returns the text of a file.
    pub fn text(&self, file: &str) -> Option<&str> {
        self.0.get(file)?.as_deref().ok()
    }

    /// Returns the valid configurations with their files.
    pub fn lists(&self) -> impl Iterator<Item = (&str, ConfList)> {
        let files = self.0.iter().filter(|(file, _)| is_loaded(file));
        files.filter_map(|(file, text)| {
            Some((file.as_str(), ConfList::parse(file, text.as_ref().ok()?).ok()?))
        })
    }

    /// Returns the paths of our drop-ins.
    pub fn drop_ins(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| is_drop_in(name))
    }
}

/// True for the name of a file that runtimes load.
pub fn is_loaded(name: &str) -> bool {
    !name.contains('/') && SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

fn is_drop_in(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, file)| file == DROP_IN)
}

/// Name of our file in the folder of a network.
pub const DROP_IN: &str = "50-istio-cni.conf";
const SUFFIXES: [&str; 3] = [".conf", ".conflist", ".json"];

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> ConfDir {
        ConfDir(
            files.iter().map(|(name, text)| ((*name).to_owned(), Ok((*text).to_owned()))).collect(),
        )
    }

    #[test]
    fn first_file_by_name_is_the_primary() {
        let list = r#"{"name":"n","plugins":[{"type":"a"}]}"#;
        let folder = folder(&[
            ("00-istio-cni.conflist", list),
            ("05.txt", "?"),
            ("20-b.conflist", list),
            ("10-a.conf", r#"{"name":"a","type":"bridge"}"#),
            ("n/50-istio-cni.conf", "{}"),
        ]);
        let primary = folder.primary(&["00-istio-cni.conflist"]).unwrap().unwrap();
        assert_eq!((primary.file.as_str(), primary.list.name.as_str()), ("10-a.conf", "a"));
        assert_eq!(folder.drop_ins().collect::<Vec<_>>(), ["n/50-istio-cni.conf"]);
    }

    #[test]
    fn invalid_file_before_it_is_named() {
        let list = r#"{"name":"n","plugins":[{"type":"a"}]}"#;
        let error =
            folder(&[("10-a.conflist", ""), ("20-b.conflist", list)]).primary(&[]).unwrap_err();
        assert!(error.starts_with("10-a.conflist: EOF"), "{error}");
        let mut unreadable = folder(&[]);
        unreadable.0.insert("1.conf".to_owned(), Err("Permission denied".to_owned()));
        assert_eq!(unreadable.primary(&[]).unwrap_err(), "1.conf: Permission denied");
        assert!(folder(&[]).primary(&[]).unwrap().is_none());
    }
}
