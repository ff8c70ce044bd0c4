//! Filter of the log of a program that talks to a cluster.

use std::fmt;
use std::io::IsTerminal as _;
use std::str::FromStr;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Filter of a log: directives `LEVEL` and `TARGET=LEVEL` of `tracing`, or Istio's `SCOPE:LEVEL`.
///
/// A scope of Istio's stands for the whole program; of several, the most verbose level applies. An empty
/// filter is `info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

/// Error of a filter.
#[derive(Debug, Error)]
pub enum LogFilterError {
    /// A word is no level. For `tracing`, it would be a target, and all others were silent.
    #[error("{0:?} is no level; hint: use off, error, warn, info, debug or trace, or TARGET=LEVEL")]
    NoLevel(String),
    /// The directives are invalid.
    #[error("{0}")]
    Directives(String),
}

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut directives, mut of_scopes) = (Vec::new(), None);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            if part.contains(['=', '[']) || part.parse::<LevelFilter>().is_ok() {
                directives.push(part.to_owned());
                continue;
            }
            let scoped = part.split_once(':').filter(|(scope, _)| !scope.is_empty());
            let level = scoped.and_then(|(_, level)| level_of(level));
            let level = level.ok_or_else(|| LogFilterError::NoLevel(part.to_owned()))?;
            of_scopes = of_scopes.max(Some(level));
        }
        // Of two levels for the whole program, `tracing` takes the last one.
        let of_scopes = of_scopes.or(directives.is_empty().then_some(LevelFilter::INFO));
        directives.splice(..0, of_scopes.map(|level| level.to_string()));
        let directives = directives.join(",");
        EnvFilter::try_new(&directives)
            .map_err(|error| LogFilterError::Directives(error.to_string()))?;
        Ok(Self(directives))
    }
}

impl LogFilter {
    /// Starts the log of the process on stderr. The client of the API server writes no lines of its
    /// own: it logs each error response, and our messages say more, and once.
    pub fn install(&self, as_json: bool) {
        let filter = EnvFilter::new(format!("{QUIET_CLIENT},{self}"));
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        if as_json {
            log.json().init();
        } else {
            log.with_ansi(std::io::stderr().is_terminal()).init();
        }
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns a level by Istio's name.
fn level_of(name: &str) -> Option<LevelFilter> {
    match name {
        "none" => Some(LevelFilter::OFF),
        "fatal" => Some(LevelFilter::ERROR),
        "" => None,
        name => name.parse().ok(),
    }
}

const QUIET_CLIENT: &str = "kube_client::client=off,kube_client::client::tls=warn";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_tracing_and_of_istio_are_parsed() {
        for (text, filter) in [
            ("info", "info"),
            ("WARN,install_cni::run=debug", "WARN,install_cni::run=debug"),
            ("default:info", "info"),
            ("cni:debug, default:warn", "debug"),
            ("all:none", "off"),
            ("default:fatal,kube_client=trace", "error,kube_client=trace"),
            ("debug,default:info", "info,debug"),
            ("", "info"),
        ] {
            assert_eq!(text.parse::<LogFilter>().unwrap().to_string(), filter, "{text}");
        }
    }

    #[test]
    fn word_that_would_silence_the_program_is_rejected() {
        for text in [
            "verbose",
            "install_cni",
            "default:loud",
            "default:",
            ":info",
            "a=b=c",
            "kube_client=loud",
        ] {
            let error = text.parse::<LogFilter>().unwrap_err().to_string();
            assert!(!error.is_empty(), "{text}");
        }
    }
}
