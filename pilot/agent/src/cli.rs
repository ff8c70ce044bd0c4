//! Entry point: parses the command line and runs a command.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use tokio::runtime::Runtime;

use crate::arguments::{Arguments, Command, IptablesArgs};
use crate::config::{self, ConfigError, Inputs};
use crate::environment::Environment;
use crate::supervisor::envoy_child::become_envoy;
use crate::{agent, commands, log};

/// Runs the program.
pub fn main(
    arguments: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> ExitCode {
    let (arguments, unknown) = match Arguments::parse_lenient(arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            // A closed stdout or stderr cannot be reported.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE));
        }
    };
    let as_json = arguments.log.as_json;
    log::install(&arguments.log.levels, as_json);
    let done = match arguments.command {
        Command::Proxy(proxy) => {
            if let Some(reason) = proxy.absent.rejected() {
                complain(&reason);
                return ExitCode::from(USAGE);
            }
            warn_about_flags(&unknown);
            Inputs::read(*proxy, as_json, Environment::new(environment))
                .map_err(Into::into)
                .and_then(run_proxy)
        }
        Command::Request(args) => run(commands::request::run(&args, &mut std::io::stdout())),
        Command::Wait(args) => run(commands::wait::run(&args)),
        Command::Version(args) => {
            let done = commands::version::run(&args, &mut std::io::stdout());
            done.map(|()| ExitCode::SUCCESS)
        }
        Command::IstioIptables(args) => run_istio_init(&args),
        Command::EnvoyChild(child) => {
            Err(become_envoy(child.parent, &child.envoy, &child.arguments).into())
        }
    };
    done.unwrap_or_else(|error: anyhow::Error| {
        complain(&format!("{error:#}"));
        let is_usage = error.downcast_ref::<ConfigError>().is_some_and(ConfigError::is_usage);
        if is_usage { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
    })
}

/// Resolves the configuration and runs the agent.
fn run_proxy(inputs: Inputs) -> Result<ExitCode> {
    for notice in inputs.environment.notices() {
        if notice.is_warning {
            tracing::warn!("{}", notice.message);
        } else {
            tracing::debug!("{}", notice.message);
        }
    }
    let resolved = config::resolve(&inputs)?;
    for warning in &resolved.warnings {
        tracing::warn!("{warning}");
    }
    if let Some(envoy) = &resolved.config.envoy {
        check_binary(&envoy.binary)?;
    }
    let exit = runtime()?.block_on(agent::run(inputs, resolved))?;
    if exit.is_failure() {
        bail!("{exit}");
    }
    tracing::info!("{exit}");
    Ok(ExitCode::SUCCESS)
}

/// Fails if Envoy cannot be started from this path. A name without a folder is found in PATH.
fn check_binary(binary: &Path) -> Result<()> {
    if binary.components().count() == 1 {
        return Ok(());
    }
    let problem = match fs::metadata(binary) {
        Err(error) => error.to_string(),
        Ok(file) if !file.is_file() => "it is not a file".to_owned(),
        Ok(file) if file.permissions().mode() & 0o111 == 0 => "it is not executable".to_owned(),
        Ok(_) => return Ok(()),
    };
    let binary = binary.display();
    bail!("binaryPath {binary}: {problem}; hint: set binaryPath of ProxyConfig to Envoy's program");
}

/// Runs a command on a runtime of one thread.
fn run(command: impl Future<Output = Result<()>>) -> Result<ExitCode> {
    runtime()?.block_on(command).map(|()| ExitCode::SUCCESS)
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
}

fn warn_about_flags(unknown: &[String]) {
    for flag in unknown {
        tracing::warn!(
            "unknown flag {flag} has no effect; hint: pilot-agent proxy --help lists the flags"
        );
    }
}

/// Replaces this process by `istio-init`.
fn run_istio_init(iptables: &IptablesArgs) -> Result<ExitCode> {
    let own = std::env::current_exe().context("finding this program")?;
    let beside = own.with_file_name("istio-init");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::iter::once(beside)
        .chain(std::env::split_paths(&path).map(|folder| folder.join("istio-init")));
    let Some(program) = candidates.find(|candidate: &PathBuf| candidate.is_file()) else {
        bail!(
            "istio-iptables: there is no istio-init beside {} or in PATH; hint: use an image that \
             has it, or the image istio-init of this project for the init container",
            own.display()
        );
    };
    let error = std::process::Command::new(&program).args(&iptables.arguments).exec();
    Err(error).with_context(|| format!("starting {}", program.display()))
}

fn complain(message: &str) {
    // A closed stderr cannot be reported.
    let _ = writeln!(std::io::stderr(), "pilot-agent: {}", reason::hint::on_lines(message));
}

const USAGE: u8 = 2;

/// The table of the reference page.
#[cfg(test)]
pub(crate) const EXIT_CODES: [(u8, &str); 3] = [
    (0, "done; `proxy`: drained after SIGTERM or SIGINT, or ended by `/quitquitquit`"),
    (
        1,
        "failed, also by an invalid variable, annotation or file; `proxy`: also ended by a signal \
         before Envoy served; stderr has the reason",
    ),
    (USAGE, "invalid command line"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_that_cannot_be_started_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("envoy");
        let problem = || check_binary(&binary).unwrap_err().to_string();
        let start = format!("binaryPath {}: ", binary.display());
        assert!(problem().starts_with(&start), "{}", problem());
        fs::write(&binary, "").unwrap();
        assert!(problem().contains("it is not executable; hint: "), "{}", problem());
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
        check_binary(&binary).unwrap();
        check_binary(Path::new("envoy")).unwrap();
        assert!(check_binary(folder.path()).is_err());
    }
}
