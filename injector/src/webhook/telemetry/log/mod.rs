//! Log lines: on stderr, as text or JSON, with Istio's flags.

mod nonblocking;

use std::fmt;
use std::io::{IsTerminal, stderr};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use self::nonblocking::Lines;

/// Log of the process. Its levels can be changed while it runs.
///
/// On drop it waits until the queued lines are written, unless stderr blocks.
pub struct Log {
    levels: Mutex<Levels>,
    set: Box<dyn Fn(EnvFilter) + Send + Sync>,
    lines: Lines,
}

impl Log {
    /// Sends the process's log lines to stderr, and its panics to the log.
    ///
    /// A second call in one process changes nothing.
    pub fn install(levels: &Levels, as_json: bool) -> Self {
        // Colour carries no meaning, and is left out where stderr is no terminal.
        let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let lines = Lines::to(stderr());
        let format = tracing_subscriber::fmt()
            .with_env_filter(levels.filter())
            .with_writer(lines.writer())
            // Drop unwritable lines; printing an error would panic.
            .log_internal_errors(false)
            .with_ansi(colour);
        let (installed, set): (_, Box<dyn Fn(EnvFilter) + Send + Sync>) = if as_json {
            let format = format.json().flatten_event(true).with_filter_reloading();
            let handle = format.reload_handle();
            let set = move |filter| drop(handle.reload(filter));
            (format.finish().try_init(), Box::new(set))
        } else {
            let format = format.with_filter_reloading();
            let handle = format.reload_handle();
            let set = move |filter| drop(handle.reload(filter));
            (format.finish().try_init(), Box::new(set))
        };
        if installed.is_ok() {
            std::panic::set_hook(Box::new(|panic| {
                let place = panic.location().map(ToString::to_string).unwrap_or_default();
                // The message of a panic may quote data, so it stays out of the log.
                tracing::error!(place, "panic");
            }));
        }
        Self { levels: Mutex::new(levels.clone()), set, lines }
    }

    /// Returns the levels in use.
    pub fn levels(&self) -> Levels {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the levels from the next line on.
    pub fn set_levels(&self, levels: Levels) {
        let mut current = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        (self.set)(levels.filter());
        *current = levels;
    }

    /// Returns the counter of lines lost because stderr did not accept them in time.
    pub(in crate::webhook) fn lost(&self) -> Counter {
        self.lines.lost()
    }
}

/// Value of `--log_output_level`: `info`, or `default:info,scope:debug`.
///
/// The scope `default` is this program, and `all` includes the libraries that it is built on. Any
/// other scope is the path of a module, such as `injector::webhook::reload` or `kube_client`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Levels(Vec<(String, Level)>);

impl Levels {
    fn filter(&self) -> EnvFilter {
        // The client logs every single attempt; this program logs the outcome itself.
        let mut directives = vec!["warn".to_owned(), "kube_client=off".to_owned()];
        for (scope, level) in &self.0 {
            let level = level.directive();
            match scope.as_str() {
                "all" => directives.extend([level.to_owned(), format!("kube_client={level}")]),
                "default" => directives.extend(OWN.iter().map(|own| format!("{own}={level}"))),
                scope => directives.push(format!("{scope}={level}")),
            }
        }
        EnvFilter::new(directives.join(","))
    }
}

impl FromStr for Levels {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || LevelError { value: text.to_owned() };
        let item = |item: &str| {
            let (scope, level) = item.rsplit_once(':').unwrap_or(("default", item));
            let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':');
            if scope.is_empty() || !scope.chars().all(is_path) {
                return Err(wrong());
            }
            Ok((scope.to_owned(), Level::parse(level).ok_or_else(wrong)?))
        };
        text.split(',').map(|part| item(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = self.0.iter().map(|(scope, level)| format!("{scope}:{}", level.directive()));
        f.write_str(&items.collect::<Vec<_>>().join(","))
    }
}

/// Invalid list of levels.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{value:?} is not a list of [SCOPE:]LEVEL with a level of none, fatal, error, warn, info or \
     debug"
)]
pub struct LevelError {
    /// Text as given.
    pub value: String,
}

/// Log levels of Istio.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Level {
    None,
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "none" => Self::None,
            "fatal" | "error" => Self::Error,
            "warn" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            _ => return None,
        })
    }

    fn directive(self) -> &'static str {
        match self {
            Self::None => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// Crates that belong to the scope `default`.
const OWN: [&str; 3] = ["injector", "sidecar_injector", "webhook_certs"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn istio_log_levels_are_parsed() {
        let table = [
            ("info", "default:info"),
            ("default:warn,kube_client:debug", "default:warn,kube_client:debug"),
            ("all:none, injector::webhook:fatal", "all:off,injector::webhook:error"),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<Levels>().unwrap().to_string(), expected);
        }
        for text in ["", "loud", ":info", "a b:info", "default:"] {
            assert!(text.parse::<Levels>().is_err(), "{text}");
        }
    }

    #[test]
    fn libraries_are_quiet_by_default() {
        let levels: Levels = "default:debug".parse().unwrap();
        let filter = levels.filter().to_string();
        assert!(filter.contains("injector=debug") && filter.contains("warn"), "{filter}");
    }
}
