//! A page, command by command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::markdown::{Page, Part, has_extension};
use e2e::netns::succeed;
use e2e::programs::repository;
use e2e::shown_command::{ShownCommand, commands};
use e2e::wait;

use crate::deployments::Deployments;
use crate::fixture::Fixture;
use crate::not_run;
use crate::shell::Shell;

/// True if the page has a block of commands.
pub(crate) fn has_commands(page: &Page) -> bool {
    page.parts.iter().any(|part| !commands(part).is_empty())
}

/// Runs the commands of a page in a new shell and an empty cluster. The error has all differences.
pub(crate) fn run(fixture: &Fixture, page: &Page) -> Result<()> {
    fixture.clear()?;
    let mut story = Story::begin(fixture, page)?;
    story.prepare("before")?;
    let mut wrong = Vec::new();
    for part in &page.parts {
        match part {
            Part::Heading(anchor) => story.prepare(anchor)?,
            Part::Code { language, text, .. } if language == "yaml" => story.write(text)?,
            part @ Part::Code { .. } => {
                for shown in commands(part) {
                    if let Err(error) = story.tell(&shown) {
                        wrong.push(format!("line {}: `{}`: {error:#}", shown.line, shown.text));
                    }
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

struct Story<'a> {
    fixture: &'a Fixture,
    shell: Shell,
    deployments: Deployments,
    /// True if the last command may have changed a Deployment.
    is_changed: bool,
    /// Folder with the files of the page.
    files: PathBuf,
}

impl<'a> Story<'a> {
    fn begin(fixture: &'a Fixture, page: &Page) -> Result<Self> {
        let shell = Shell::start(fixture)?;
        let name = Path::new(&page.path).with_extension("");
        let name = name.strip_prefix("docs").unwrap_or(&name);
        let files = repository().join("tests/tests/documentation/pages").join(name);
        let work = shell.folder();
        copy(&repository().join("manifests"), &work.join("manifests"))?;
        copy(&repository().join("manifests"), &work.join("outrigger/manifests"))?;
        if files.exists() {
            copy(&files, &work)?;
        }
        Ok(Self { fixture, shell, deployments: Deployments::default(), is_changed: false, files })
    }

    /// Runs the script that prepares a section, if there is one.
    fn prepare(&mut self, section: &str) -> Result<()> {
        let script = self.files.join(format!("{section}.sh"));
        let Ok(commands) = fs::read_to_string(&script) else { return Ok(()) };
        self.deployments.reconcile(self.fixture)?;
        let answer = self.shell.run(&format!("set -e\n{commands}\nset +e"))?;
        ensure!(answer.code == 0, "{}: {}", script.display(), answer.output);
        self.deployments.reconcile(self.fixture)
    }

    /// Writes a block that begins with a comment of its file name.
    fn write(&self, text: &str) -> Result<()> {
        let first = text.lines().next().unwrap_or_default();
        let name = first.strip_prefix("# ").filter(|name| has_extension(name, "yaml"));
        let Some(name) = name else { return Ok(()) };
        fs::write(self.shell.folder().join(name), text).with_context(|| format!("writing {name}"))
    }

    fn tell(&mut self, shown: &ShownCommand) -> Result<()> {
        if not_run::check(self.fixture, &shown.text)? {
            return Ok(());
        }
        let may_change = ["kubectl", "helm"].iter().any(|tool| shown.text.contains(tool));
        if std::mem::replace(&mut self.is_changed, may_change) {
            self.deployments.reconcile(self.fixture)?;
        }
        // A reader is not as fast.
        let answer = wait::until("the second is over", || match self.shell.run(&shown.text) {
            Ok(answer) if answer.code != 0 && answer.output.contains(TOO_EARLY) => {
                Err(answer.output)
            }
            ended => Ok(ended),
        })??;
        if shown.output.is_some() {
            return shown.compare(&answer.output);
        }
        ensure!(answer.code == 0, "exit code {}: {}", answer.code, answer.output);
        Ok(())
    }
}

/// kubectl restarts a Deployment once a second.
const TOO_EARLY: &str = "if restart has already been triggered within the past second";

fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut cp = Command::new("cp");
    cp.args(["--recursive", "--no-target-directory"]).arg(from);
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    succeed(cp.arg(to), "").map(drop)
}
