//! `pilot-agent version`.

use std::io::Write;

use anyhow::{Context, Result};
use documents::yaml;
use serde_json::json;

use crate::arguments::{VersionArgs, VersionFormat};

/// Writes the version to `output`.
pub fn run(args: &VersionArgs, output: &mut impl Write) -> Result<()> {
    let document = json!({ "clientVersion": {
        "version": program_version::title(),
        "tag": program_version::NUMBER,
        "gitRevision": program_version::COMMIT,
    } });
    let text = match args.output {
        Some(VersionFormat::Json) => format!("{document:#}\n"),
        Some(VersionFormat::Yaml) => yaml::to_string(&document).context("writing YAML")?,
        None if args.short => format!("{}\n", program_version::NUMBER),
        None => format!("pilot-agent version: {}\n", program_version::title()),
    };
    output.write_all(text.as_bytes()).context("writing the version")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(short: bool, output: Option<VersionFormat>) -> String {
        let mut text = Vec::new();
        run(&VersionArgs { short, output }, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn version_is_the_same_in_each_format() {
        let (tag, title) = (program_version::NUMBER, program_version::title());
        assert_eq!(shown(true, None), format!("{tag}\n"));
        assert_eq!(shown(false, None), format!("pilot-agent version: {title}\n"));
        let json = shown(false, Some(VersionFormat::Json));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["clientVersion"]["tag"], tag);
        assert_eq!(json["clientVersion"]["gitRevision"], program_version::COMMIT);
        let yaml = shown(true, Some(VersionFormat::Yaml));
        assert!(yaml.contains(&format!("version: {title}")), "{yaml}");
    }
}
