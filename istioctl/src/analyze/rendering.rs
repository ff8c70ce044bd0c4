//! Output of messages.

use anyhow::Context;
use clap::ValueEnum;
use clap::builder::styling::AnsiColor;
use documents::yaml;
use injector::analysis::message::{Level, Message};
use injector::analysis::{ANALYZERS, Analyzer};
use serde_json::{Value, json};

use super::policies;
use crate::streams::painted;

/// Output format.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum AnalysisForm {
    /// One line per message.
    Log,
    Json,
    Yaml,
}

impl AnalysisForm {
    /// Returns the messages; only the levels of lines are coloured.
    pub(super) fn render(self, messages: &[Message], colored: bool) -> anyhow::Result<String> {
        let objects = || messages.iter().map(object).collect::<Value>();
        Ok(match self {
            Self::Log if colored => messages.iter().map(|it| colored_line(it) + "\n").collect(),
            Self::Log => messages.iter().map(|it| it.to_string() + "\n").collect(),
            Self::Json => format!("{:#}\n", objects()),
            Self::Yaml => yaml::to_string(&objects()).context("writing YAML")?,
        })
    }

    /// Returns the analyzers.
    pub(super) fn list(self) -> anyhow::Result<String> {
        let object = |it: &Analyzer| json!({"name": it.name, "description": it.description});
        let analyzers = || ANALYZERS.iter().chain([&policies::ANALYZER]);
        let objects = || analyzers().map(object).collect::<Value>();
        Ok(match self {
            Self::Log => {
                let text = |it: &Analyzer| ["* ", it.name, ":\n", it.description, "\n"].concat();
                analyzers().map(text).collect()
            }
            Self::Json => format!("{:#}\n", objects()),
            Self::Yaml => yaml::to_string(&objects()).context("writing YAML")?,
        })
    }
}

/// Returns the line of a message, which begins with its level in colour.
fn colored_line(message: &Message) -> String {
    let (line, level) = (message.to_string(), message.kind.level);
    let color = match level {
        Level::Info => AnsiColor::Cyan,
        Level::Warning => AnsiColor::Yellow,
        Level::Error => AnsiColor::Red,
    };
    let level = level.to_string();
    format!("{}{}", painted(&level, color), &line[level.len()..])
}

/// Returns the message with the keys of Istio.
fn object(message: &Message) -> Value {
    let mut object = json!({
        "code": message.kind.code,
        "documentationUrl": message.documentation_url(),
        "level": message.kind.level,
        "message": message.text,
        "origin": message.origin.to_string(),
    });
    if !message.origin.place.is_empty() {
        object["reference"] = message.origin.place.clone().into();
    }
    object
}
