//! Flags of Istio's `istioctl`, valid for all commands. A command line for Istio's `istioctl` is
//! accepted. A flag that would have an effect there is never silently ignored.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// Istio's log flags. They have no effect, because the commands log nothing.
#[derive(Debug)]
pub(super) struct LogFlags;

/// Flags that connect to a control plane by its own API.
#[derive(Debug)]
pub(super) struct ControlPlaneFlags {
    given: Vec<(&'static str, String)>,
}

impl ControlPlaneFlags {
    /// Returns an error for the first flag with a value other than its default.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let Some((flag, value)) = self.given.first() else {
            return Ok(());
        };
        let value = if value == "true" { String::new() } else { format!(" {value:?}") };
        Err(format!(
            "error: --{flag}{value}: Istio's istioctl has this flag for the API of a control plane, \
             and this program uses the Kubernetes API alone; hint: leave the flag out; \
             --kubeconfig and --context name a cluster"
        ))
    }
}

impl Args for LogFlags {
    fn augment_args(command: Command) -> Command {
        command.args(LOG.iter().map(Flag::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LogFlags {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

impl Args for ControlPlaneFlags {
    fn augment_args(command: Command) -> Command {
        command.args(CONTROL_PLANE.iter().map(Flag::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ControlPlaneFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = CONTROL_PLANE.iter().filter_map(|flag| {
            let value = matches.get_one::<String>(flag.name)?;
            (value != flag.default).then(|| (flag.name, value.clone()))
        });
        Ok(Self { given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

struct Flag {
    name: &'static str,
    default: &'static str,
}

impl Flag {
    const fn new(name: &'static str, default: &'static str) -> Self {
        Self { name, default }
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.name).long(self.name).global(true).hide(true);
        if matches!(self.default, "true" | "false") {
            return arg.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        arg
    }
}

const LOG: &[Flag] = &[
    Flag::new("log_as_json", "false"),
    Flag::new("log_caller", ""),
    Flag::new("log_output_level", ""),
    Flag::new("log_rotate", ""),
    Flag::new("log_rotate_max_age", "30"),
    Flag::new("log_rotate_max_backups", "1000"),
    Flag::new("log_rotate_max_size", "104857600"),
    Flag::new("log_stacktrace_level", ""),
    Flag::new("log_target", ""),
    Flag::new("vklog", "0"),
];

/// Returns names and defaults of the hidden flags: those of the log, and those of a control plane.
#[cfg(test)]
pub(super) fn hidden() -> [Vec<[&'static str; 2]>; 2] {
    [LOG, CONTROL_PLANE].map(|flags| flags.iter().map(|flag| [flag.name, flag.default]).collect())
}

/// The flags with Istio's defaults.
const CONTROL_PLANE: &[Flag] = &[
    Flag::new("authority", ""),
    Flag::new("cert-dir", ""),
    Flag::new("insecure", "false"),
    Flag::new("plaintext", "false"),
    Flag::new("timeout", "30s"),
    Flag::new("xds-address", ""),
    Flag::new("xds-label", ""),
    Flag::new("xds-port", "15012"),
];
