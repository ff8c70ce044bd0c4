//! Steps from a folder's content to an installation in it.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::install::conf_dir::{ConfDir, DROP_IN, Primary};
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
    /// Write a file, atomically.
    Write {
        /// The file.
        file: String,
        /// Its content.
        text: String,
    },
    /// Remove a file, and the folder of a drop-in if it is empty then.
    Remove(String),
    /// Make the runtime load the folder again: it does not watch the folders of drop-ins.
    Reload,
}

/// Reason why nothing can be installed yet.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NotYet {
    /// The network of pods is not configured.
    #[error("no configuration of the network of pods is there yet")]
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
            Self::Remove(file) => write!(f, "{file} removed"),
            Self::Reload => f.write_str("the runtime loads it again"),
        }
    }
}

impl Installation {
    /// Returns the changes that lead to the installation; none if it is there.
    ///
    /// A new file is written before an old one is removed. So after each change the runtime finds the
    /// entry, or its state before. An own copy stays without a primary: after a reboot its owner
    /// writes the primary again.
    pub fn changes(&self, folder: &ConfDir) -> Result<Vec<FolderChange>, NotYet> {
        let primary = self.primary(folder)?;
        // A file of a single plugin takes no entry, and no drop-in. Its copy is a list.
        let is_single = primary.as_ref().is_some_and(|it| !it.file.ends_with(".conflist"));
        if is_single && self.place != Place::Own {
            return Self { place: Place::Own, ..self.clone() }.changes(folder);
        }
        let mut changes = self.writes(folder, primary.as_ref())?;
        if self.place != Place::Own {
            changes.extend(self.own_files(folder).map(FolderChange::Remove));
        }
        let network = primary.filter(|_| self.place == Place::DropIn).map(|it| it.list.name);
        let outdated: Vec<_> = folder
            .drop_ins()
            .filter(|path| network.as_deref() != path.split_once('/').map(|(network, _)| network))
            .map(|path| FolderChange::Remove(path.to_owned()))
            .collect();
        if !outdated.is_empty() {
            changes.extend(outdated);
            changes.push(FolderChange::Reload);
        }
        if self.place == Place::DropIn {
            changes.extend(without_entries(folder, |file| !self.is_own(file)));
        }
        if folder.text(STANDALONE).is_some()
            && !matches!(&self.place, Place::Standalone(file) if file == STANDALONE)
        {
            changes.push(FolderChange::Remove(STANDALONE.to_owned()));
        }
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
        let with_entry = |Primary { file, list }: &Primary| {
            list.with_entry(&self.entry.to_string())
                .map_err(|error| NotYet::List { file: file.clone(), error })
        };
        match (&self.place, primary) {
            (Place::Standalone(file), _) => Ok(write(file, self.standalone())),
            (Place::Own, None) if folder.text(&self.own_file).is_some() => Ok(Vec::new()),
            (Place::Edit(Some(file)), None) => Err(NotYet::NoFile(file.clone())),
            (_, None) => Err(NotYet::NoPrimary),
            (Place::Own, Some(primary)) if self.own_file > primary.file => {
                let (own, primary) = (self.own_file.clone(), primary.file.clone());
                Err(NotYet::SortsBehind { own, primary })
            }
            (Place::Own, Some(primary)) => Ok(write(&self.own_file, with_entry(primary)?)),
            (Place::DropIn, Some(Primary { file, list })) if list.is_closed => {
                Err(NotYet::Closed(file.clone()))
            }
            (Place::DropIn, Some(Primary { list, .. })) => {
                let mut changes =
                    write(&format!("{}/{DROP_IN}", list.name), format!("{}\n", self.entry));
                if !changes.is_empty() {
                    changes.push(FolderChange::Reload);
                }
                Ok(changes)
            }
            (Place::Edit(_), Some(primary)) if primary.list.has_entry(&self.entry) => {
                Ok(Vec::new())
            }
            (Place::Edit(_), Some(primary)) => Ok(write(&primary.file, with_entry(primary)?)),
        }
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
                let mut ours = vec![self.own_file.as_str(), STANDALONE];
                ours.extend(OWN_FILES);
                folder.primary(&ours).map_err(NotYet::Invalid)
            }
        }
    }

    fn own_files(&self, folder: &ConfDir) -> impl Iterator<Item = String> {
        let names = folder.0.keys().filter(|file| self.is_own(file));
        names.filter(|file| folder.text(file).is_some_and(has_our_entry)).cloned()
    }

    fn is_own(&self, file: &str) -> bool {
        file == self.own_file || OWN_FILES.contains(&file)
    }

    /// Returns the changes that remove the entry from the folder, in whatever place it is.
    pub fn removal(&self, folder: &ConfDir) -> Vec<FolderChange> {
        let mut changes: Vec<_> = without_entries(folder, |file| !self.is_own(file)).collect();
        let drop_ins: Vec<_> =
            folder.drop_ins().map(|path| FolderChange::Remove(path.to_owned())).collect();
        let has_drop_ins = !drop_ins.is_empty();
        changes.extend(drop_ins);
        changes.extend(self.own_files(folder).map(FolderChange::Remove));
        let standalone = match &self.place {
            Place::Standalone(file) => file,
            _ => STANDALONE,
        };
        if folder.text(standalone).is_some() {
            changes.push(FolderChange::Remove(standalone.to_owned()));
        }
        if has_drop_ins {
            changes.push(FolderChange::Reload);
        }
        changes
    }

    fn standalone(&self) -> String {
        let mut config = self.entry.clone();
        config["cniVersion"] = VERSION.into();
        config["name"] = TYPE.into();
        format!("{config:#}\n")
    }
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

/// Returns the changes that remove our entries from lists of others.
fn without_entries<'a>(
    folder: &'a ConfDir,
    is_of_others: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = FolderChange> + 'a {
    let lists =
        folder.0.keys().filter(move |file| file.ends_with(".conflist") && is_of_others(file));
    lists.filter_map(|file| {
        let text = folder.text(file)?;
        let without = ConfList::parse(file, text).ok()?.without_entries(is_ours);
        (without != text).then(|| FolderChange::Write { file: file.clone(), text: without })
    })
}

fn has_our_entry(text: &str) -> bool {
    let list: Value = serde_json::from_str(text).unwrap_or_default();
    list["plugins"].as_array().into_iter().flatten().any(is_ours)
}

/// Names of own copies: ours, and the one of Istio's agent.
const OWN_FILES: [&str; 2] = ["00-istio-cni.conflist", "02-istio-cni.conflist"];
/// Istio's name of a configuration that is not chained.
pub const STANDALONE: &str = "YYY-istio-cni.conf";
/// Version of a configuration of our own, which old runtimes know too.
const VERSION: &str = "0.4.0";

#[cfg(test)]
mod tests;
