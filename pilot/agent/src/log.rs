//! Log lines on stderr, as text or JSON, with Istio's flags.

use std::fmt::{self, Write as _};
use std::io;
use std::str::FromStr;

use mesh::log_levels;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging. A second call has no effect.
pub fn install(levels: &Levels, as_json: bool) {
    let lines = layer()
        .with_writer(io::stderr)
        // An error message about a closed stderr would have no reader.
        .log_internal_errors(false)
        .event_format(Line { as_json })
        .with_filter(levels.targets());
    let _ = tracing_subscriber::registry().with(lines).try_init();
    for scope in levels.unknown_scopes() {
        tracing::warn!("--log_output_level: unknown scope {scope:?} has no effect");
    }
}

/// Value of `--log_output_level`: `info`, or `default:info,dns:debug`.
///
/// The scope `default` is this program, and `all` includes its libraries. Other scopes are parts of
/// the agent, by our names or Istio's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Levels(Vec<(String, LevelFilter)>);

impl Levels {
    fn targets(&self) -> Targets {
        let mut targets = Targets::new().with_default(LevelFilter::WARN);
        targets = targets.with_target(PROGRAM, LevelFilter::INFO);
        // `all` and `default` first, so that the scopes of parts override them in any order.
        for (scope, level) in &self.0 {
            match scope.as_str() {
                "all" => targets = targets.with_default(*level).with_target(PROGRAM, *level),
                "default" => targets = targets.with_target(PROGRAM, *level),
                _ => {}
            }
        }
        let parts = self.0.iter().filter_map(|(scope, level)| Some((part(scope)?, level)));
        parts.fold(targets, |targets, (part, level)| {
            targets.with_target(format!("{PROGRAM}::{part}"), *level)
        })
    }

    fn unknown_scopes(&self) -> impl Iterator<Item = &str> {
        let scopes = self.0.iter().map(|(scope, _)| scope.as_str());
        scopes.filter(|scope| !["all", "default"].contains(scope) && part(scope).is_none())
    }
}

impl FromStr for Levels {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = log_levels::of_scopes(text);
        let found = found.ok_or_else(|| LevelError { value: text.to_owned() })?;
        let level = |(scope, level): (&str, &str)| (scope.to_owned(), level_of(level));
        Ok(Self(found.into_iter().map(level).collect()))
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

/// Returns the level of a word of [`log_levels::OF_AGENT`].
fn level_of(word: &str) -> LevelFilter {
    match word {
        "none" => LevelFilter::OFF,
        "fatal" | "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "debug" => LevelFilter::DEBUG,
        _ => LevelFilter::INFO,
    }
}

/// Returns the part of the agent that a scope names.
fn part(scope: &str) -> Option<&'static str> {
    let aliases = [
        ("healthcheck", "app"),
        ("cache", "secrets"),
        ("citadelclient", "secrets"),
        ("sds", "secrets"),
        ("security", "secrets"),
        ("xdsproxy", "relay"),
    ];
    let alias = aliases.iter().find(|(alias, _)| *alias == scope).map(|(_, part)| *part);
    alias.or_else(|| PARTS.iter().find(|part| **part == scope).copied())
}

/// Format of a line. Text has Istio's columns: time, level, scope, message.
struct Line {
    as_json: bool,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG | Level::TRACE => "debug",
        };
        let scope = scope_of(event.metadata().target());
        if self.as_json {
            let mut line = Map::new();
            line.insert("level".to_owned(), level.into());
            line.insert("time".to_owned(), time.into());
            line.insert("scope".to_owned(), scope.into());
            line.insert("msg".to_owned(), fields.message.into());
            line.extend(
                fields.others.into_iter().map(|(name, value)| (name.to_owned(), value.into())),
            );
            writeln!(writer, "{}", Value::Object(line))
        } else {
            write!(writer, "{time}\t{level}\t{scope}\t{}", one_line(&fields.message))?;
            for (name, value) in fields.others {
                write!(writer, " {name}={}", one_line(&value))?;
            }
            writeln!(writer)
        }
    }
}

/// Returns the part of the agent in a module path, such as `dns`.
fn scope_of(target: &str) -> &str {
    let mut path = target.split("::");
    match (path.next(), path.next()) {
        (Some(PROGRAM), Some(part)) => part,
        (Some(PROGRAM), None) => "default",
        (first, _) => first.unwrap_or_default(),
    }
}

/// Keeps text from other programs and from annotations on one line.
fn one_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut line, c| {
        if c.is_control() && c != '\t' {
            let _ = write!(line, "{}", c.escape_default());
        } else {
            line.push(c);
        }
        line
    })
}

/// Fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.others.push((name, value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

const PROGRAM: &str = "pilot_agent";

/// Parts of the agent, which are modules of this crate.
const PARTS: [&str; 11] = [
    "agent",
    "app",
    "bootstrap",
    "commands",
    "config",
    "dns",
    "relay",
    "secrets",
    "status",
    "supervisor",
    "watch",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn istio_log_levels_are_parsed() {
        let levels: Levels = "default:warn, xdsproxy:debug".parse().unwrap();
        let targets = levels.targets();
        assert!(targets.would_enable("pilot_agent::relay::stream", &Level::DEBUG));
        assert!(!targets.would_enable("pilot_agent::dns", &Level::INFO));
        assert!(!targets.would_enable("h2", &Level::INFO));
        let all: Levels = "all:debug,default:info".parse().unwrap();
        assert!(all.targets().would_enable("h2", &Level::DEBUG));
        assert!(!all.targets().would_enable("pilot_agent::dns", &Level::DEBUG));
        for text in ["", "loud", ":info", "default:", "a:b:info"] {
            assert!(text.parse::<Levels>().is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_scopes_are_found() {
        let levels: Levels = "default:info,ads:debug,sds:info".parse().unwrap();
        assert_eq!(levels.unknown_scopes().collect::<Vec<_>>(), ["ads"]);
    }

    #[test]
    fn control_characters_stay_in_one_line() {
        assert_eq!(one_line("a\nb\u{1b}[0m\tc"), "a\\nb\\u{1b}[0m\tc");
    }
}
