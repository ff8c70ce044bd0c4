//! Flags of Istio's `istioctl` that mean nothing here, or not yet: each is known, so that a
//! command line for Istio's is understood, and none that would count is silently ignored.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// Istio's log flags: taken, and without effect, since the commands log nothing.
#[derive(Debug)]
pub(super) struct LogFlags;

/// Which cluster a command asks.
#[derive(Debug, Args)]
pub(super) struct ClusterFlags {
    /// The kubeconfig of the cluster that is asked; KUBECONFIG or ~/.kube/config by default
    #[arg(
        short = 'c',
        long,
        global = true,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) kubeconfig: String,
    /// The kubeconfig's context; its current one by default
    #[arg(long, global = true, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(super) context: String,
}

impl ClusterFlags {
    /// The message of a command that asks no cluster, for the first of them that was given.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let mut flags = [("kubeconfig", &self.kubeconfig), ("context", &self.context)].into_iter();
        flags.find(|(_, value)| !value.is_empty()).map_or(Ok(()), |(flag, value)| {
            Err(format!(
                "error: --{flag} {value:?}: not built yet: this command asks no cluster{FILES}"
            ))
        })
    }
}

/// Flags that reach for a control plane or for a cluster's configuration.
#[derive(Debug)]
pub(super) struct UnbuiltFlags {
    given: Vec<(&'static str, String)>,
}

impl UnbuiltFlags {
    /// The message for the first of them that was given another value than its default.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let Some((flag, value)) = self.given.first() else {
            return Ok(());
        };
        Err(format!(
            "error: --{flag} {value:?}: not built yet: this istioctl asks no control plane{FILES}"
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

impl Args for UnbuiltFlags {
    fn augment_args(command: Command) -> Command {
        command.args(UNBUILT.iter().map(Flag::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for UnbuiltFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = UNBUILT.iter().filter_map(|flag| {
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

const FILES: &str = "\n  hint: name files with --injectConfigFile, --valuesFile and \
                     --meshConfigFile; without them the built-in defaults are used";

/// With Istio's defaults.
const UNBUILT: &[Flag] = &[
    Flag::new("authority", ""),
    Flag::new("cert-dir", ""),
    Flag::new("injectConfigMapName", "istio-sidecar-injector"),
    Flag::new("insecure", "false"),
    Flag::new("meshConfigMapName", "istio"),
    Flag::new("operatorFileName", ""),
    Flag::new("plaintext", "false"),
    Flag::new("timeout", "30s"),
    Flag::new("webhookConfig", "istio-sidecar-injector"),
    Flag::new("xds-address", ""),
    Flag::new("xds-label", ""),
    Flag::new("xds-port", "15012"),
];
