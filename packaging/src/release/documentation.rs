//! Manual pages and completion scripts.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::Release;
use crate::error::{Error, Result};
use crate::platform::Platform;

/// Documentation that is installed with programs.
#[derive(Debug)]
pub(super) struct Documentation {
    /// Manual pages by file name.
    pub(super) manuals: BTreeMap<String, Vec<u8>>,
    /// Completion scripts of `istioctl` under each of its names.
    pub(super) completions: Vec<Completion>,
}

/// Completion script of a shell for a command.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) shell: &'static str,
    pub(super) command: &'static str,
    pub(super) script: String,
}

impl Completion {
    /// Returns the file name that the shell expects.
    pub(super) fn file_name(&self) -> String {
        match self.shell {
            "zsh" => format!("_{}", self.command),
            "fish" => format!("{}.fish", self.command),
            _ => self.command.to_owned(),
        }
    }

    /// Returns the folder in which Debian's shells look for scripts.
    pub(super) fn debian_folder(&self) -> &'static str {
        match self.shell {
            "zsh" => "/usr/share/zsh/vendor-completions",
            "fish" => "/usr/share/fish/vendor_completions.d",
            _ => "/usr/share/bash-completion/completions",
        }
    }
}

impl Documentation {
    pub(super) fn read(release: &Release, left_out: &mut Vec<String>) -> Result<Self> {
        let folder = release.workspace.join("docs/man");
        let manuals = read_manuals(&folder)?;
        if manuals.is_empty() {
            left_out.push(format!("manual pages; {} has none", folder.display()));
        }
        let mut completions = Vec::new();
        match release.builds.iter().find(|build| build.platform == Platform::host()) {
            None => {
                left_out.push("completion scripts; no istioctl runs on this machine".to_owned());
            }
            Some(build) => {
                let istioctl = build.programs.join("istioctl");
                for shell in SHELLS {
                    for command in COMPLETED {
                        match completion(&istioctl, shell, command) {
                            Ok(completion) => completions.push(completion),
                            Err(reason) => left_out.push(reason),
                        }
                    }
                }
            }
        }
        Ok(Self { manuals, completions })
    }
}

fn read_manuals(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut manuals = BTreeMap::new();
    if !folder.exists() {
        return Ok(manuals);
    }
    for entry in fs::read_dir(folder).map_err(Error::read(folder))? {
        let path = entry.map_err(Error::read(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "1") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            manuals.insert(name, fs::read(&path).map_err(Error::read(&path))?);
        }
    }
    Ok(manuals)
}

/// Returns the script that `istioctl completion SHELL` prints under one of its names, or a line
/// about its absence.
fn completion(
    istioctl: &Path,
    shell: &'static str,
    command: &'static str,
) -> Result<Completion, String> {
    let output = Command::new(istioctl).arg0(command).args(["completion", shell]).output();
    let problem = match output {
        Ok(output) if output.status.success() => {
            let script = String::from_utf8_lossy(&output.stdout).into_owned();
            return Ok(Completion { shell, command, script });
        }
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            message.lines().next().unwrap_or_default().to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(format!("{command}'s completion of {shell}; istioctl completion {shell}: {problem}"))
}

/// Names of `istioctl` that shells complete; kubectl asks for the completion of its plugin.
const COMPLETED: [&str; 2] = ["istioctl", "outrigger"];
const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];
