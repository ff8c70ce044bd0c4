//! `istioctl completion`: completion scripts of shells, and completion by kubectl.

use std::ffi::OsString;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::{Shell, engine};

use crate::program::Program;
use crate::{Failure, Streams, output};

/// Print the script that makes a shell complete commands and flags
///
/// bash: source <(istioctl completion bash)
///
/// zsh: source <(istioctl completion zsh)
///
/// fish: istioctl completion fish | source
///
/// PowerShell: istioctl completion powershell | Out-String | Invoke-Expression
#[derive(Debug, Args)]
pub(super) struct Completion {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

impl Completion {
    pub(super) fn run(&self, program: Program, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let name = program.file_name();
        // The generator for bash loses the subcommands of a name with a hyphen.
        let generated =
            if self.shell == Shell::Bash { name.replace('-', "_") } else { name.into() };
        let mut command =
            visible(&program.command(), Command::visible_aliases).name(generated.clone());
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, generated.clone(), &mut script);
        let script = String::from_utf8(script).context("the script is not UTF-8");
        let end = |name: &str| format!(" {name}\n");
        script
            .map(|script| script.replace(&end(&generated), &end(name)))
            .map(|script| script.replace(PREVIOUS, &[PREVIOUS, FLAG_BEFORE].concat()))
            .and_then(|script| output::write(streams.output, &script))
            .map_err(Failure::from_error)
    }
}

/// Prints the completions of the last word, in the form in which kubectl asks a plugin for them.
pub(super) fn complete_for_kubectl(
    mut args: Vec<OsString>,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    if args.len() == 1 {
        args.push(OsString::new());
    }
    let (last, here) = (args.len() - 1, std::env::current_dir().ok());
    // A visible alias would be offered in place of the name.
    let mut command = visible(&Program::KubectlCompletion.command(), Command::aliases);
    let found = engine::complete(&mut command, args, last, here.as_deref());
    let found = found.context("completing the last word").map_err(Failure::from_error)?;
    let lines = found.iter().map(|candidate| {
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().unwrap_or_default();
        format!("{}\t{help}\n", candidate.get_value().to_string_lossy())
    });
    let text = lines.collect::<String>() + NO_FILES + "\n";
    output::write(streams.output, &text).map_err(Failure::from_error)
}

/// Returns the commands and flags that are not hidden.
fn visible(command: &Command, alias: fn(Command, Vec<String>) -> Command) -> Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let inner = inner.map(|inner| visible(inner, alias));
    let aliases = command.get_visible_aliases().map(str::to_owned);
    let about = command.get_about().cloned().unwrap_or_default();
    let shown = Command::new(command.get_name().to_owned()).about(about);
    alias(shown, aliases.collect()).args(args).subcommands(inner)
}

/// Line of the script for bash.
const PREVIOUS: &str = "    prev=\"$3\"\n";
/// Line after it: bash takes the `=` of `--flag=value` as a word.
const FLAG_BEFORE: &str =
    "    if [[ \"${prev}\" == \"=\" ]]; then prev=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n";
/// The last line of the answer to kubectl: the shell adds no names of files.
const NO_FILES: &str = ":4";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a command writes on standard output.
    fn written(run: impl FnOnce(&mut Streams<'_>) -> Result<(), Failure>) -> String {
        let (mut output, mut messages) = (Vec::new(), Vec::new());
        let mut input = std::io::empty();
        run(&mut Streams::new(&mut input, &mut output, &mut messages)).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn scripts_of_all_shells_offer_no_hidden_flag() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            for program in [Program::Istioctl, Program::Outrigger, Program::KubectlPlugin] {
                let script = written(|streams| Completion { shell }.run(program, streams));
                assert!(script.contains(program.file_name()), "{shell}");
                assert!(script.contains("pod-template"), "{shell}");
                for hidden in ["log_rotate", "xds-address", "webhookConfig"] {
                    assert!(!script.contains(hidden), "{shell} {hidden}");
                }
            }
        }
    }

    #[test]
    fn bash_completes_the_value_of_a_flag_with_an_equals_sign() {
        let completion = Completion { shell: Shell::Bash };
        let script = written(|streams| completion.run(Program::Istioctl, streams));
        let called = "COMP_WORDS=(istioctl analyze --failure-threshold = W)\nCOMP_CWORD=4\n\
                      _istioctl istioctl W =\necho \"${COMPREPLY[*]}\"\n";
        // The script is longer than an argument may be.
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), script + called).unwrap();
        let ran = std::process::Command::new("bash").arg(file.path()).output().unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), "Warning\n");
    }

    #[test]
    fn kubectl_gets_commands_flags_and_values() {
        let completed = |words: &[&str]| {
            let args = ["kubectl_complete-outrigger"].into_iter().chain(words.iter().copied());
            let args = args.map(OsString::from).collect();
            written(|streams| complete_for_kubectl(args, streams))
        };
        assert_eq!(
            completed(&["tag", "li"]),
            "list\tList the revision tags, their revisions, and the namespaces that use them\n:4\n"
        );
        assert!(completed(&["analyze", "--failure-t"]).starts_with("--failure-threshold\t"));
        let levels = completed(&["analyze", "--failure-threshold", ""]);
        assert_eq!(levels, "Info\t\nWarning\t\nError\t\n:4\n");
        assert_eq!(completed(&["kube-inject", "--log_r"]), ":4\n");
        assert!(completed(&[""]).contains("kube-inject\t"));
        let parts = completed(&["proxy-config", ""]);
        assert!(parts.contains("cluster\t") && !parts.contains("c\tc"), "{parts}");
        assert_eq!(completed(&["pc", "bootst"]).split('\t').next(), Some("bootstrap"));
    }
}
