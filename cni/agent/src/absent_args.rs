//! Flags and variables of Istio's agent without effect.

use clap::{Arg, ArgMatches, Args, FromArgMatches};

/// The flags of a command line without effect, from the table of reasons.
#[derive(Clone, Debug)]
pub struct AbsentArgs {
    given: Vec<&'static str>,
}

impl Args for AbsentArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        WITHOUT_EFFECT.iter().fold(command, |command, (flag, _)| {
            let absent = Arg::new(*flag).long(*flag).hide(true);
            command.arg(match *flag {
                WITHOUT_VALUE => {
                    absent.num_args(0..=1).require_equals(true).default_missing_value("true")
                }
                _ => absent,
            })
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for AbsentArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = WITHOUT_EFFECT.iter().map(|(flag, _)| *flag);
        Ok(Self { given: flags.filter(|flag| matches.contains_id(flag)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl AbsentArgs {
    /// Returns a warning for each flag, and for each variable of the environment, without effect.
    pub fn warnings(&self, variable: impl Fn(&str) -> bool) -> Vec<String> {
        let flags = WITHOUT_EFFECT.iter().filter(|(flag, _)| self.given.contains(flag));
        let flags = flags.map(|(flag, reason)| format!("--{flag} has no effect: {reason}"));
        // Istio's agent has a variable for each flag.
        let of_flags = WITHOUT_EFFECT.iter().map(|(flag, reason)| (variable_of(flag), *reason));
        let named = VARIABLES_WITHOUT_EFFECT.iter().map(|(name, reason)| ((*name).into(), *reason));
        let set = of_flags.chain(named).filter(|(name, _): &(String, _)| variable(name));
        flags.chain(set.map(|(name, reason)| format!("{name} has no effect: {reason}"))).collect()
    }
}

/// Returns the variable of a flag: its name in upper case, with underscores.
fn variable_of(flag: &str) -> String {
    flag.to_uppercase().replace('-', "_")
}

/// Reasons why flags and variables of Istio's have no effect.
pub(crate) const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("kubeconfig-mode", NO_KUBECONFIG),
    ("kube-ca-file", NO_KUBECONFIG),
    (WITHOUT_VALUE, NO_KUBECONFIG),
    ("log-level", "use --log"),
    ("cni-network-config", "the entry follows from the other flags"),
    ("cni-network-config-file", "the entry follows from the other flags"),
    ("repair-sidecar-annotation", FIXED),
    ("repair-init-container-name", FIXED),
    ("repair-init-container-termination-message", FIXED),
    ("repair-init-container-exit-code", FIXED),
    ("repair-label-selectors", "every injected pod of the node is looked at"),
    ("repair-field-selectors", "every injected pod of the node is looked at"),
    ("log_output_level", "use --log"),
    ("log_target", "the log is on stderr"),
    ("log_caller", "use --log"),
    ("log_stacktrace_level", "there are no stack traces"),
    ("vklog", "use --log"),
    ("ctrlz_port", "there is no introspection port"),
];

/// Variables of Istio's without a flag of the same name, and why they have no effect.
pub(crate) const VARIABLES_WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("NATIVE_NFTABLES", "the plugin always uses nftables"),
    ("FORCE_IPTABLES_BINARY", "the plugin always uses nftables"),
    ("ALLOW_SWITCH_TO_HOST_NS", "the plugin never enters the node's namespace"),
    ("AMBIENT_ENABLED", "only sidecars are captured"),
];

/// Flag that needs no value.
const WITHOUT_VALUE: &str = "skip-tls-verify";
const NO_KUBECONFIG: &str = "no kubeconfig is left on the node";
const FIXED: &str = "the injector's annotation, container and exit code are fixed";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::Arguments;

    #[test]
    fn flags_of_istio_without_effect_are_named() {
        let flags = ["install-cni", "--kubeconfig-mode=0600", "--log_output_level=info"];
        let arguments = Arguments::try_parse_from(flags).unwrap();
        let set = ["ALLOW_SWITCH_TO_HOST_NS", "AMBIENT_ENABLED", "KUBE_CA_FILE"];
        let warnings = arguments.absent.warnings(|name| set.contains(&name));
        assert_eq!(
            warnings,
            [
                "--kubeconfig-mode has no effect: no kubeconfig is left on the node",
                "--log_output_level has no effect: use --log",
                "KUBE_CA_FILE has no effect: no kubeconfig is left on the node",
                "ALLOW_SWITCH_TO_HOST_NS has no effect: the plugin never enters the node's namespace",
                "AMBIENT_ENABLED has no effect: only sidecars are captured",
            ]
        );
    }
}
