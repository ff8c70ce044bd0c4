//! Output of messages.

use anyhow::Context;
use clap::ValueEnum;
use documents::yaml;
use injector::analysis::message::Message;
use serde_json::{Value, json};

/// Output format.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum AnalysisForm {
    /// One line per message.
    Log,
    Json,
    Yaml,
}

impl AnalysisForm {
    pub(super) fn render(self, messages: &[Message]) -> anyhow::Result<String> {
        let objects = || messages.iter().map(object).collect::<Value>();
        Ok(match self {
            Self::Log => messages.iter().flat_map(|it| [it.to_string(), "\n".to_owned()]).collect(),
            Self::Json => format!("{:#}\n", objects()),
            Self::Yaml => yaml::to_string(&objects()).context("writing YAML")?,
        })
    }
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
