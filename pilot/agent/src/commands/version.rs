//! `pilot-agent version`.

use std::io::Write;

use anyhow::{Context, Result};
use documents::yaml;
use serde_json::json;

use crate::arguments::{VersionArgs, VersionFormat};

/// Writes the version to `output`.
pub fn run(args: &VersionArgs, output: &mut impl Write) -> Result<()> {
    let document = json!({ "clientVersion": { "version": VERSION, "tag": TAG } });
    let text = match args.output {
        Some(VersionFormat::Json) => format!("{document:#}\n"),
        Some(VersionFormat::Yaml) => yaml::to_string(&document).context("writing YAML")?,
        None if args.short => format!("{TAG}\n"),
        None => format!("pilot-agent version: {VERSION}\n"),
    };
    output.write_all(text.as_bytes()).context("writing the version")
}

const VERSION: &str = concat!("Outrigger ", env!("CARGO_PKG_VERSION"));
const TAG: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests {
    use super::*;

    fn version(short: bool, output: Option<VersionFormat>) -> String {
        let mut text = Vec::new();
        run(&VersionArgs { short, output }, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn version_is_the_same_in_each_format() {
        assert_eq!(version(true, None), format!("{TAG}\n"));
        assert_eq!(version(false, None), format!("pilot-agent version: Outrigger {TAG}\n"));
        let json = version(false, Some(VersionFormat::Json));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["clientVersion"]["tag"], TAG);
        let yaml = version(true, Some(VersionFormat::Yaml));
        assert!(yaml.contains(&format!("version: Outrigger {TAG}")), "{yaml}");
    }
}
