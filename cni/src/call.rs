//! A call of the runtime: environment variables of the CNI specification 1.1.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::answer::{CniError, Code};
use crate::pod::{PodIdentity, validate_args};

/// A call, without its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub command: Command,
    /// Path of the network namespace. `None` for calls without one, and for a DEL after the
    /// namespace is gone.
    pub network_namespace: Option<PathBuf>,
    /// The pod; `None` if the runtime names none.
    pub pod: Option<PodIdentity>,
}

/// Operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Attach a container to the network.
    Add,
    /// Check an attachment.
    Check,
    /// Detach a container.
    Del,
    /// Remove what belongs to no valid attachment.
    Gc,
    /// Tell whether ADD would work.
    Status,
    /// Tell the supported versions.
    Version,
}

impl Call {
    /// Parses the environment of a call.
    pub fn parse(environment: &BTreeMap<String, String>) -> Result<Self, CniError> {
        let value = |name: &str| environment.get(name).map(String::as_str).unwrap_or_default();
        let command = match value("CNI_COMMAND") {
            "ADD" => Command::Add,
            "CHECK" => Command::Check,
            "DEL" => Command::Del,
            "GC" => Command::Gc,
            "STATUS" => Command::Status,
            "VERSION" => Command::Version,
            "" => return Err(invalid("CNI_COMMAND is not set", START_BY_RUNTIME)),
            other => {
                let message = format!("CNI_COMMAND has the invalid value {other:?}");
                return Err(invalid(&message, "use ADD, CHECK, DEL, GC, STATUS or VERSION"));
            }
        };
        let network_namespace = match value("CNI_NETNS") {
            "" if matches!(command, Command::Add | Command::Check) => {
                return Err(invalid("CNI_NETNS is not set", "ADD and CHECK need it"));
            }
            "" => None,
            path => Some(PathBuf::from(path)),
        };
        let args = value("CNI_ARGS");
        if matches!(command, Command::Add | Command::Check) {
            validate_args(args).map_err(|error| invalid(&error.to_string(), IGNORE_UNKNOWN))?;
        }
        Ok(Self { command, network_namespace, pod: PodIdentity::parse(args) })
    }
}

fn invalid(message: &str, hint: &str) -> CniError {
    CniError::new(Code::InvalidEnvironment, message).hint(hint)
}

const IGNORE_UNKNOWN: &str = "container runtimes pass pairs KEY=VALUE and IgnoreUnknown=1";
const START_BY_RUNTIME: &str = "the container runtime starts this program; install-cni installs it";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Call, CniError> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Call::parse(&pairs.collect())
    }

    #[test]
    fn add_and_check_need_a_namespace_and_others_do_not() {
        for command in ["ADD", "CHECK"] {
            let error = parse(&[("CNI_COMMAND", command)]).unwrap_err();
            assert_eq!(error.code, Code::InvalidEnvironment, "{command}");
            let call = parse(&[("CNI_COMMAND", command), ("CNI_NETNS", "/run/n")]).unwrap();
            assert_eq!(call.network_namespace, Some(PathBuf::from("/run/n")));
        }
        for command in ["DEL", "GC", "STATUS", "VERSION"] {
            assert!(parse(&[("CNI_COMMAND", command)]).is_ok(), "{command}");
        }
    }

    #[test]
    fn missing_and_unknown_commands_are_rejected() {
        for pairs in [&[][..], &[("CNI_COMMAND", "add")], &[("CNI_COMMAND", "")]] {
            assert!(parse(pairs).is_err(), "{pairs:?}");
        }
    }
}
