//! `IstioOperator` documents: extraction of values and mesh configuration.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde_json::Value;

use documents::yaml;
use injector::sources::{Text, Texts};

/// Completes the documents: those that are not given come from an `IstioOperator` file.
pub(super) fn complete(path: &Path, given: Texts) -> anyhow::Result<Texts> {
    let origin = format!("--operatorFileName {}", path.display());
    let text = fs::read_to_string(path).with_context(|| origin.clone())?;
    let read = read(&origin, &text).map_err(|problem| anyhow!("{origin}: {problem}"))?;
    Ok(Texts {
        inject_config: given.inject_config,
        values: given.values.or(read.values),
        mesh_config: given.mesh_config.or(read.mesh_config),
    })
}

fn read(origin: &str, text: &str) -> Result<Texts, String> {
    let document = yaml::parse(text).map_err(|error| error.to_string())?;
    if !document.is_object() {
        return Err("line 1: it is not a document of kind IstioOperator".to_owned());
    }
    for (key, wanted) in [("kind", KIND), ("apiVersion", API_VERSION)] {
        if document[key] != wanted {
            let at = place(text, &[key]).map_or_else(String::new, |at| format!("{at}: "));
            return Err(format!("{at}{key} is {}, not {wanted}", document[key]));
        }
    }
    let part = |key: &str| {
        let at = place(text, &["spec", key]);
        let at = at.map_or_else(|| format!("spec.{key}"), |at| format!("{at}: spec.{key}"));
        match &document["spec"][key] {
            Value::Null => Ok(None),
            part @ Value::Object(_) => {
                Ok(Some(Text { source: format!("{origin}: {at}"), text: part.to_string() }))
            }
            other => Err(format!("{at}: {other} is not a mapping")),
        }
    };
    Ok(Texts { inject_config: None, values: part("values")?, mesh_config: part("meshConfig")? })
}

/// Returns the line of a key in block style, found by its path. `None` if it is absent or in
/// another style.
fn place(text: &str, path: &[&str]) -> Option<String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim_start();
        !(line.is_empty() || line.starts_with(['#', '%']) || line.starts_with("---"))
    });
    let mut outer = None;
    let mut at = 0;
    for key in path {
        let mut level = None;
        loop {
            let (index, line) = lines.next()?;
            let indentation = line.len() - line.trim_start_matches(' ').len();
            let level = *level.get_or_insert(indentation);
            if indentation < level || outer.is_some_and(|outer| indentation <= outer) {
                return None;
            }
            let rest = line.trim_start().strip_prefix(key);
            if indentation == level && rest.is_some_and(|rest| rest.starts_with(':')) {
                (outer, at) = (Some(level), index + 1);
                break;
            }
        }
    }
    Some(format!("line {at}"))
}

const KIND: &str = "IstioOperator";
const API_VERSION: &str = "install.istio.io/v1alpha1";

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# Of the platform team.
---
apiVersion: install.istio.io/v1alpha1
kind: IstioOperator
spec:
  profile: minimal
  components:
    pilot: {k8s: {values: none}}
    ingressGateways:
    - name: values
      values: other
  meshConfig:
    values: x
    accessLogFile: /dev/stdout

  values:
    global: {tag: 1.10.0}
";

    #[test]
    fn operator_values_and_mesh_config_keep_their_lines() {
        let Texts { inject_config, values, mesh_config } = read("FILE", FILE).unwrap();
        assert_eq!(inject_config, None);
        let text = |source: &str, text: &str| {
            Some(Text { source: source.to_owned(), text: text.to_owned() })
        };
        assert_eq!(values, text("FILE: line 16: spec.values", r#"{"global":{"tag":"1.10.0"}}"#));
        let mesh = r#"{"accessLogFile":"/dev/stdout","values":"x"}"#;
        assert_eq!(mesh_config, text("FILE: line 12: spec.meshConfig", mesh));
        let json = yaml::parse(FILE).unwrap().to_string();
        assert_eq!(read("FILE", &json).unwrap().values.unwrap().source, "FILE: spec.values");
    }

    #[test]
    fn absent_operator_sections_are_not_used() {
        let empty = "kind: IstioOperator\napiVersion: install.istio.io/v1alpha1\n";
        assert_eq!(read("FILE", empty), Ok(Texts::default()));
        let null = format!("{empty}spec: {{values: null}}\n");
        assert_eq!(read("FILE", &null), Ok(Texts::default()));
    }

    #[test]
    fn operator_errors_have_line_numbers() {
        for (text, expected) in [
            (
                FILE.replace("kind: IstioOperator", "kind: Deployment"),
                "line 4: kind is \"Deployment\", not IstioOperator",
            ),
            (
                FILE.replace("v1alpha1", "v2"),
                "line 3: apiVersion is \"install.istio.io/v2\", not install.istio.io/v1alpha1",
            ),
            ("spec: {}".to_owned(), "kind is null, not IstioOperator"),
            (String::new(), "line 1: it is not a document of kind IstioOperator"),
            (
                FILE.replace("global: {tag: 1.10.0}", "- a"),
                "line 16: spec.values: [\"a\"] is not a mapping",
            ),
        ] {
            assert_eq!(read("FILE", &text), Err(expected.to_owned()), "{text}");
        }
        let wrong = FILE.replace("{tag: 1.10.0}", "{tag: 1.10.0");
        let error = read("FILE", &wrong).unwrap_err();
        assert!(error.starts_with("line 1"), "{error}");
    }
}
