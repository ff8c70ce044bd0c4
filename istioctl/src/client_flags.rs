//! Flags that select the cluster, and the user and time limit of its requests.

use std::time::Duration;

use clap::Args;
use kube::Config;

/// Flags of kubectl that select the cluster and the user.
#[derive(Debug, Args)]
pub(super) struct ClientFlags {
    /// The kubeconfig of the cluster [default: KUBECONFIG, or ~/.kube/config]
    #[arg(
        short = 'c',
        long,
        global = true,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) kubeconfig: String,
    /// The kubeconfig's context [default: its current one]
    #[arg(long, global = true, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(super) context: String,
    /// The user to impersonate [default: none]
    #[arg(
        long = "as",
        global = true,
        value_name = "USER",
        default_value = "",
        hide_default_value = true
    )]
    user: String,
    /// A group to impersonate, with --as. May be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    groups: Vec<String>,
    /// The UID to impersonate, with --as [default: none]
    #[arg(
        long = "as-uid",
        global = true,
        value_name = "UID",
        default_value = "",
        hide_default_value = true
    )]
    uid: String,
    /// Time limit of a request to the API server, such as 5s or 1m; 0 for none
    #[arg(
        long,
        alias = "kubeclient-timeout",
        global = true,
        value_name = "DURATION",
        default_value = "0",
        value_parser = time_limit
    )]
    request_timeout: TimeLimit,
}

/// Time limit of a request; `None` for no limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct TimeLimit(Option<Duration>);

impl ClientFlags {
    /// True if a flag names the cluster or the user.
    pub(super) fn is_given(&self) -> bool {
        self.given().next().is_some()
    }

    /// Returns the kubeconfig by its name in messages, and the further flags as they stand in the command line.
    pub(super) fn words(&self, kubeconfig: &str) -> String {
        let further = self.given().filter(|(flag, _)| *flag != "kubeconfig");
        let further = further.map(|(flag, value)| format!("--{flag} {value}"));
        let words: Vec<_> = [kubeconfig.to_owned()].into_iter().chain(further).collect();
        words.join(", ")
    }

    /// Returns an error for the first given flag. For commands that use no cluster.
    pub(super) fn refuse(&self) -> Result<(), String> {
        self.given().next().map_or(Ok(()), |(flag, value)| {
            Err(format!("error: --{flag} {value:?}: this command uses no cluster"))
        })
    }

    /// Returns an error for a group or UID without a user.
    pub(super) fn check(&self) -> Result<(), String> {
        let alone = self.given().find(|(flag, _)| flag.starts_with("as-"));
        match alone.filter(|_| self.user.is_empty()) {
            Some((flag, value)) => Err(format!(
                "error: --{flag} {value:?}: there is no user to impersonate; hint: name one with \
                 --as"
            )),
            None => Ok(()),
        }
    }

    /// Applies the user and the time limit to the configuration of a client.
    pub(super) fn apply(&self, config: &mut Config) {
        if !self.user.is_empty() {
            let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
            config.auth_info.impersonate = given(&self.user);
            config.auth_info.impersonate_uid = given(&self.uid);
            config.auth_info.impersonate_groups = Some(self.groups.clone());
        }
        if let TimeLimit(Some(limit)) = self.request_timeout {
            config.connect_timeout = Some(limit);
            config.read_timeout = Some(limit);
            config.write_timeout = Some(limit);
        }
    }

    fn given(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let one =
            [("kubeconfig", &self.kubeconfig), ("context", &self.context), ("as", &self.user)];
        let groups = self.groups.iter().map(|group| ("as-group", group));
        let flags = one.into_iter().chain(groups).chain([("as-uid", &self.uid)]);
        flags.filter(|(_, value)| !value.is_empty())
    }
}

/// Parses a time limit as kubectl does: a Go duration, or a number of seconds.
fn time_limit(text: &str) -> Result<TimeLimit, String> {
    let seconds = text.parse::<u32>().map(|seconds| Duration::from_secs(seconds.into()));
    let limit = match seconds {
        Ok(seconds) => Some(seconds),
        Err(_) => go_duration::parse(text)
            .ok()
            .and_then(|nanoseconds| u64::try_from(nanoseconds).ok())
            .map(Duration::from_nanos),
    };
    let limit = limit.ok_or("expected a duration such as 5s or 1m30s, or a number of seconds")?;
    Ok(TimeLimit(Some(limit).filter(|limit| !limit.is_zero())))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        client: ClientFlags,
    }

    #[test]
    fn time_limit_is_a_duration_or_seconds() {
        for (text, expected) in [
            ("0", None),
            ("0s", None),
            ("5", Some(Duration::from_secs(5))),
            ("1m30s", Some(Duration::from_secs(90))),
        ] {
            assert_eq!(time_limit(text), Ok(TimeLimit(expected)), "{text}");
        }
        assert!(time_limit("-1s").is_err() && time_limit("soon").is_err());
    }

    #[test]
    fn impersonated_user_is_that_of_the_flags() {
        let flags =
            ["x", "--as", "jane", "--as-group", "dev", "--as-group", "ops", "--as-uid", "7"];
        let client = Program::parse_from(flags).client;
        let mut config = Config::new("http://localhost".parse().unwrap());
        client.apply(&mut config);
        let Config { auth_info, .. } = config;
        assert_eq!(auth_info.impersonate.as_deref(), Some("jane"));
        assert_eq!(auth_info.impersonate_uid.as_deref(), Some("7"));
        assert_eq!(auth_info.impersonate_groups, Some(vec!["dev".to_owned(), "ops".to_owned()]));
        let words = "KUBECONFIG /a, --as jane, --as-group dev, --as-group ops, --as-uid 7";
        assert_eq!(client.words("KUBECONFIG /a"), words);
        assert!(client.check().is_ok());
        let group = Program::parse_from(["x", "--as-group", "dev"]).client;
        assert!(group.check().is_err_and(|error| error.starts_with("error: --as-group \"dev\": ")));
    }
}
