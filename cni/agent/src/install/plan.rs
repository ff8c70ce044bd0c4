//! Steps from a folder's content to an installation in it.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::install::conf_dir::{ConfDir, DROP_IN, Primary, is_loaded};
use crate::install::conf_list::{ConfList, ConfListError};
use crate::install::entry::{TYPE, is_ours};

/// Place of the plugin's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A drop-in in the folder of the network.
    DropIn,
    /// A copy of the primary with the entry, under a name that sorts before it.
    Own,
    /// The primary, or the file of this name.
    Edit(Option<String>),
    /// A configuration with the plugin alone, which Multus calls by its name.
    Standalone(String),
}

/// Installation to reach.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Place of the entry.
    pub place: Place,
    /// File of [`Place::Own`].
    pub own_file: String,
    /// The entry.
    pub entry: Value,
}

/// Change of the folder. Paths are relative to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderChange {
    /// Write a file of the agent, atomically. A link of its name is replaced.
    Write {
        /// The file.
        file: String,
        /// Its content.
        text: String,
    },
    /// Change a list of another program, atomically. A link of its name stays.
    Edit {
        /// The file.
        file: String,
        /// Its content.
        text: String,
    },
    /// Remove a file, and the folder of a drop-in if it is empty then.
    Remove(String),
}

impl FolderChange {
    /// Returns the file.
    pub fn file(&self) -> &str {
        let (Self::Write { file, .. } | Self::Edit { file, .. } | Self::Remove(file)) = self;
        file
    }
}

/// Reason why nothing can be installed yet.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NotYet {
    /// The network of pods is not configured.
    #[error(
        "no configuration of the network of pods is there yet; hint: if pods of this node have a \
         network, mount the runtime's own folder here"
    )]
    NoPrimary,
    /// A file is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The list forbids drop-ins.
    #[error(
        "{0}: loadOnlyInlinedPlugins is true, so drop-ins have no effect; hint: --config-mode own"
    )]
    Closed(String),
    /// The file to edit is absent.
    #[error("{0} of --cni-conf-name is not there yet")]
    NoFile(String),
    /// The file to write is of another program.
    #[error(
        "{file} of {flag} is the configuration of another program; hint: choose another name, or \
         remove the file"
    )]
    Foreign {
        /// The file.
        file: String,
        /// The flag that names it.
        flag: &'static str,
    },
    /// The runtime would not use our copy.
    #[error(
        "--istio-owned-cni-config-filename {own} sorts behind {primary}, so the runtime does not \
         use it; hint: choose a name that sorts before it"
    )]
    SortsBehind {
        /// Our copy.
        own: String,
        /// The primary.
        primary: String,
    },
    /// The list of a file cannot be changed.
    #[error("{file}: {error}")]
    List {
        /// The file.
        file: String,
        /// The error.
        error: ConfListError,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropIn => write!(f, "a drop-in {DROP_IN}"),
            Self::Own => f.write_str("a copy of the network's configuration"),
            Self::Edit(None) => f.write_str("the network's configuration"),
            Self::Edit(Some(file)) => f.write_str(file),
            Self::Standalone(file) => write!(f, "{file}, not chained"),
        }
    }
}

impl fmt::Display for FolderChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { file, .. } => write!(f, "{file} written"),
            Self::Edit { file, .. } => write!(f, "{file} changed"),
            Self::Remove(file) => write!(f, "{file} removed"),
        }
    }
}

impl Installation {
    /// Returns the changes that lead to the installation; none if it is there.
    ///
    /// A new file is written before an old one is removed. So after each change the runtime finds the
    /// entry, or its state before. An own copy stays without a primary: after a reboot its owner
    /// writes the primary again. The runtime does not watch the folders of drop-ins, so it has to be
    /// made to load the folder after these changes, and after those of a killed agent.
    pub fn changes(&self, folder: &ConfDir) -> Result<Vec<FolderChange>, NotYet> {
        let primary = self.primary(folder)?;
        // A file of a single plugin takes no entry, and no drop-in. Its copy is a list.
        let is_single = primary.as_ref().is_some_and(|it| !it.file.ends_with(".conflist"));
        if is_single && self.place != Place::Own {
            return Self { place: Place::Own, ..self.clone() }.changes(folder);
        }
        let mut changes = self.writes(folder, primary.as_ref())?;
        let file = match &self.place {
            Place::Own => Some(&self.own_file),
            Place::Standalone(file) => Some(file),
            Place::DropIn | Place::Edit(_) => None,
        };
        let others = own_files(folder).filter(|own| Some(own) != file);
        changes.extend(others.map(FolderChange::Remove));
        let with_drop_in = primary.as_ref().filter(|_| self.place == Place::DropIn);
        let network = with_drop_in.map(|it| it.list.name.as_str());
        let outdated = folder
            .drop_ins()
            .filter(|path| path.split_once('/').map(|(network, _)| network) != network)
            .map(|path| FolderChange::Remove(path.to_owned()));
        changes.extend(outdated);
        let is_in_primary = |file: &str| primary.as_ref().is_some_and(|it| it.file == file);
        let is_outdated = |file: &str, entry: &Value| match self.place {
            // In the list that the drop-in is read with, an entry of Istio's would be a second one.
            Place::DropIn => is_in_primary(file) || is_ours(entry),
            Place::Edit(_) => !is_in_primary(file) && is_ours(entry),
            Place::Own | Place::Standalone(_) => is_ours(entry),
        };
        changes.extend(without_entries(folder, is_outdated));
        Ok(changes)
    }

    fn writes(
        &self,
        folder: &ConfDir,
        primary: Option<&Primary>,
    ) -> Result<Vec<FolderChange>, NotYet> {
        let write = |file: &str, text: String| {
            let is_there = folder.text(file) == Some(&text);
            let change = FolderChange::Write { file: file.to_owned(), text };
            if is_there { Vec::new() } else { vec![change] }
        };
        let with_entry = |file: &str, list: &ConfList, entry: &Value| {
            list.with_entry(&entry.to_string())
                .map_err(|error| NotYet::List { file: file.to_owned(), error })
        };
        match (&self.place, primary) {
            (Place::Standalone(file), _) => match folder.0.get(file) {
                Some(Ok(text)) if type_of(text) == TYPE => Ok(write(file, self.standalone())),
                None => Ok(write(file, self.standalone())),
                Some(_) => Err(NotYet::Foreign { file: file.clone(), flag: "--cni-conf-name" }),
            },
            (Place::Own, primary) if self.is_foreign(folder, primary) => {
                let file = self.own_file.clone();
                Err(NotYet::Foreign { file, flag: "--istio-owned-cni-config-filename" })
            }
            (Place::Own, None) => {
                let (file, copy) = self.copy(folder).ok_or(NotYet::NoPrimary)?;
                let entry = copy_entry(&self.entry, copy.entries().find_map(copied_from));
                if file == self.own_file && copy.has_entry(&entry) {
                    return Ok(Vec::new());
                }
                Ok(write(&self.own_file, with_entry(&file, &copy, &entry)?))
            }
            (Place::Edit(Some(file)), None) => Err(NotYet::NoFile(file.clone())),
            (_, None) => Err(NotYet::NoPrimary),
            (Place::Own, Some(primary)) if self.own_file > primary.file => {
                let (own, primary) = (self.own_file.clone(), primary.file.clone());
                Err(NotYet::SortsBehind { own, primary })
            }
            (Place::Own, Some(Primary { file, list })) => {
                let entry = copy_entry(&self.entry, Some(file));
                let copy = folder
                    .text(&self.own_file)
                    .and_then(|text| ConfList::parse(&self.own_file, text).ok());
                if copy.is_some_and(|copy| copy.is_copy_of(list, &entry)) {
                    return Ok(Vec::new());
                }
                Ok(write(&self.own_file, with_entry(file, list, &entry)?))
            }
            (Place::DropIn, Some(Primary { file, list })) if list.is_closed => {
                Err(NotYet::Closed(file.clone()))
            }
            (Place::DropIn, Some(Primary { list, .. })) => {
                Ok(write(&format!("{}/{DROP_IN}", list.name), format!("{}\n", self.entry)))
            }
            (Place::Edit(_), Some(primary)) if primary.list.has_entry(&self.entry) => {
                Ok(Vec::new())
            }
            (Place::Edit(_), Some(Primary { file, list })) => {
                let text = with_entry(file, list, &self.entry)?;
                Ok(vec![FolderChange::Edit { file: file.clone(), text }])
            }
        }
    }

    /// True if the file of [`Place::Own`] is a list of another program. A copy of the primary whose
    /// entry others have removed is not.
    fn is_foreign(&self, folder: &ConfDir, primary: Option<&Primary>) -> bool {
        let list = folder.text(&self.own_file);
        let list = list.and_then(|text| ConfList::parse(&self.own_file, text).ok());
        list.is_some_and(|list| primary.is_none_or(|primary| primary.list.name != list.name))
            && !own_files(folder).any(|own| own == self.own_file)
    }

    /// Returns the own copy, or one under a former name, that is a valid list.
    fn copy(&self, folder: &ConfDir) -> Option<(String, ConfList)> {
        let mut copies: Vec<_> = own_files(folder).collect();
        copies.sort_by_key(|file| *file != self.own_file);
        copies.into_iter().find_map(|file| {
            let list = ConfList::parse(&file, folder.text(&file)?).ok()?;
            Some((file, list))
        })
    }

    /// Returns the configuration that the entry is chained to.
    fn primary(&self, folder: &ConfDir) -> Result<Option<Primary>, NotYet> {
        match &self.place {
            Place::Standalone(_) => Ok(None),
            Place::Edit(Some(file)) => {
                let Some((file, content)) = named(folder, file) else { return Ok(None) };
                let list = content.clone().and_then(|text| {
                    ConfList::parse(file, &text).map_err(|error| error.to_string())
                });
                let list = list.map_err(|error| NotYet::Invalid(format!("{file}: {error}")))?;
                Ok(Some(Primary { file: file.clone(), list }))
            }
            _ => {
                let own: Vec<_> = own_files(folder).collect();
                let mut ours: Vec<_> = own.iter().map(String::as_str).collect();
                ours.push(STANDALONE);
                if self.place == Place::Own {
                    ours.push(&self.own_file);
                    // A copy of Istio's agent that was killed is what the runtime uses, unless ours
                    // sorts before it.
                    if self.own_file.as_str() < ISTIO_COPY {
                        ours.push(ISTIO_COPY);
                    }
                }
                folder.primary(&ours).map_err(NotYet::Invalid)
            }
        }
    }

    fn standalone(&self) -> String {
        let mut config = self.entry.clone();
        config["cniVersion"] = VERSION.into();
        config["name"] = TYPE.into();
        format!("{config:#}\n")
    }
}

/// Returns the changes that remove the entry from the folder, in whatever place it is.
pub fn removal(folder: &ConfDir) -> Vec<FolderChange> {
    let mut changes: Vec<_> = without_entries(folder, |_, entry| is_ours(entry)).collect();
    changes.extend(folder.drop_ins().map(|path| FolderChange::Remove(path.to_owned())));
    changes.extend(own_files(folder).map(FolderChange::Remove));
    changes
}

/// Returns the files that the agent has written as a whole: copies, which say what they are a copy
/// of, and files with the plugin alone.
fn own_files(folder: &ConfDir) -> impl Iterator<Item = String> {
    let is_own = |file: &&String| {
        let Some(text) = folder.text(file).filter(|_| is_loaded(file)) else { return false };
        match ConfList::parse(file, text) {
            Ok(list) if file.ends_with(".conflist") => {
                let mut entries = list.entries();
                entries.any(|it| is_ours(it) && copied_from(it).is_some())
            }
            // By its name it is ours, and no runtime can load its folder.
            Err(_) if file.as_str() == OWN_COPY => true,
            _ => serde_json::from_str(text).is_ok_and(|config| is_ours(&config)),
        }
    };
    folder.0.keys().filter(is_own).cloned()
}

/// Returns the changes that remove entries from lists of others.
fn without_entries(
    folder: &ConfDir,
    is_removed: impl Fn(&str, &Value) -> bool,
) -> impl Iterator<Item = FolderChange> {
    let own: Vec<_> = own_files(folder).collect();
    let lists =
        folder.0.keys().filter(move |file| file.ends_with(".conflist") && !own.contains(file));
    lists.filter_map(move |file| {
        let text = folder.text(file)?;
        let list = ConfList::parse(file, text).ok()?;
        let without = list.without_entries(|entry| is_removed(file, entry));
        (without != text).then(|| FolderChange::Edit { file: file.clone(), text: without })
    })
}

/// Returns the file of this name, or as Istio's agent, the one with the other suffix of `.conf` and
/// `.conflist`.
fn named<'a>(folder: &'a ConfDir, file: &str) -> Option<(&'a String, &'a Result<String, String>)> {
    let other = match file.strip_suffix(".conflist") {
        Some(stem) => format!("{stem}.conf"),
        None => format!("{file}list"),
    };
    folder.0.get_key_value(file).or_else(|| folder.0.get_key_value(&other))
}

/// Returns the type of a configuration with one plugin; empty for other text.
fn type_of(text: &str) -> String {
    let config: Value = serde_json::from_str(text).unwrap_or_default();
    config["type"].as_str().unwrap_or_default().to_owned()
}

/// Returns the entry of a copy, which names the file that it is a copy of.
fn copy_entry(entry: &Value, file: Option<&str>) -> Value {
    let mut entry = entry.clone();
    if let Some(file) = file {
        entry[COPIED_FROM] = file.into();
    }
    entry
}

fn copied_from(entry: &Value) -> Option<&str> {
    entry[COPIED_FROM].as_str()
}

/// Key of a copy's entry, with the name of the file that it is a copy of.
const COPIED_FROM: &str = "copied_from";
/// Name of our copy, unless the settings choose another one.
const OWN_COPY: &str = "00-istio-cni.conflist";
/// Name of the copy of Istio's agent.
const ISTIO_COPY: &str = "02-istio-cni.conflist";
/// Istio's name of a configuration that is not chained.
pub const STANDALONE: &str = "YYY-istio-cni.conf";
/// Version of a configuration of our own, which old runtimes know too.
const VERSION: &str = "0.4.0";

#[cfg(test)]
mod tests;
