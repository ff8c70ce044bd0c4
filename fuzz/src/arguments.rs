//! The command line and the environment of `istio-init`.

use std::ffi::OsString;
use std::net::IpAddr;

use istio_init::args::{Args, Environment};
use istio_init::config::{Config, PodEnvironment};
use istio_init::plan::plan;

use crate::plans;

/// Fuzzes words and variables, one per line: `env NAME=VALUE`, `address IP`, `passwd LINE`, `group
/// LINE`, or else a word of the command line. `\n` and `\0` in a word mean these bytes.
pub fn arguments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut words = vec![OsString::from("istio-init")];
    let mut environment = Environment::new();
    let mut surroundings = PodEnvironment::default();
    for line in text.lines().take(MOST_LINES) {
        let line = line.replace("\\n", "\n").replace("\\0", "\0");
        match line.split_once(' ') {
            Some(("env", variable)) => {
                let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
                environment.insert(name.to_owned(), value.to_owned());
            }
            Some(("address", address)) => surroundings.addresses.extend(address.parse::<IpAddr>()),
            Some(("passwd", entry)) => surroundings.accounts.passwd += &[entry, "\n"].concat(),
            Some(("group", entry)) => surroundings.accounts.group += &[entry, "\n"].concat(),
            _ => words.push(line.into()),
        }
    }
    let args = match Args::parse(words, &environment) {
        Ok(args) => args,
        Err(usage) => return assert!(!usage.to_string().is_empty()),
    };
    match Config::read(&args, &surroundings) {
        Ok((config, _)) => plans::check(&plan(&config)),
        Err(invalid) => {
            assert!(!invalid.0.is_empty());
            for error in invalid.0 {
                assert!(!error.source.is_empty() && !error.error.reason.is_empty());
                let message = error.to_string();
                assert!(message.starts_with(&error.source), "{message:?}");
                let lines = 1 + usize::from(error.error.hint.is_some());
                assert!(message.lines().count() <= lines, "a value forges a line: {message:?}");
            }
        }
    }
}

const MOST_LINES: usize = 64;
