//! Chains of fields in a template that are written otherwise for the engine, in the same columns.
//!
//! A value of the data cannot have methods and print as a word at once, nor be nothing and have
//! getters. So the word of an enumeration, which the data has in its place, is not asked for its
//! `String`; and a getter of what another field or getter gives, or a [method](methods), is one name
//! with it, which the message or struct in front of them answers.

use go_types;

use super::actions::{Piece, pieces};
use crate::template::values::methods;

/// The template as the engine gets it.
pub(in crate::template) fn written(template: &str) -> String {
    let enumerations: Vec<_> = go_types::enumerations().collect();
    let mut written = String::with_capacity(template.len());
    for piece in pieces(template) {
        match piece {
            Piece::Code(code) => push_code(code, &enumerations, &mut written),
            Piece::Text(piece) | Piece::Quoted(piece) | Piece::Raw(piece) => {
                written.push_str(piece);
            }
        }
    }
    written
}

fn push_code(code: &str, enumerations: &[&str], written: &mut String) {
    let mut rest = code;
    while let Some(dot) = rest.find('.') {
        let (before, member) = rest.split_at(dot);
        written.push_str(before);
        let name = &member[1..];
        let name = &name[..name.find(is_apart).unwrap_or(name.len())];
        let of = field_at_end(written);
        let word = of.strip_prefix("Get").unwrap_or(of);
        rest = &member[1 + name.len()..];
        if name == "String" && enumerations.contains(&word) {
            written.push_str(&" ".repeat(".String".len()));
            continue;
        }
        let is_getter = name.strip_prefix("Get").is_some_and(|of| of.starts_with(is_capital));
        let joined = is_getter && of.starts_with(is_capital) && !ROOTS.contains(&of)
            || methods::joins(of, name) && !is_of_values(written);
        written.push(if joined { '_' } else { '.' });
        written.push_str(name);
    }
    written.push_str(rest);
}

/// The field that a text ends with; empty where it ends otherwise.
fn field_at_end(written: &str) -> &str {
    let (before, field) = written.split_at(written.trim_end_matches(|c| !is_apart(c)).len());
    if before.ends_with('.') { field } else { "" }
}

/// Whether the chain that a text ends with leads through the values, which have no methods.
fn is_of_values(written: &str) -> bool {
    let end = written.trim_end_matches(|c| c == '.' || c == '$' || !is_apart(c)).len();
    written[end..].contains(".Values.")
}

fn is_apart(c: char) -> bool {
    !c.is_ascii_alphanumeric() && c != '_'
}

fn is_capital(c: char) -> bool {
    c.is_ascii_uppercase()
}

/// What has getters and is not within a message.
const ROOTS: [&str; 3] = ["MeshConfig", "ObjectMeta", "ProxyConfig"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chains_of_getters_and_words_of_enumerations_change() {
        for (template, expected) in [
            (
                "{{ .ProxyConfig.InterceptionMode.String }}",
                "{{ .ProxyConfig.InterceptionMode        }}",
            ),
            (
                "{{ .ProxyConfig.GetTracing.GetSampling }}",
                "{{ .ProxyConfig.GetTracing_GetSampling }}",
            ),
            (
                "{{ (.MeshConfig.DefaultConfig.GetConcurrency.GetValue) | f }}",
                "{{ (.MeshConfig.DefaultConfig_GetConcurrency_GetValue) | f }}",
            ),
            (
                "{{ $c.Resources.Limits.Cpu.MilliValue }}{{ (f .).Requests.Pods | f }}",
                "{{ $c.Resources.Limits_Cpu_MilliValue }}{{ (f .).Requests_Pods | f }}",
            ),
            (
                "{{ .ObjectMeta.GetName }}{{ .ObjectMeta.GetDeletionTimestamp.IsZero }}",
                "{{ .ObjectMeta.GetName }}{{ .ObjectMeta.GetDeletionTimestamp_IsZero }}",
            ),
        ] {
            assert_eq!(written(template), expected);
        }
        for same in [
            "A.GetB {{ .ProxyConfig.GetTracing }} .A.GetB {{/* .A.GetB */}} .A.GetB",
            r#"{{ "\".A.GetB" `.A.GetB` | f }}{{ $A.GetB }}{{ (f .A).GetB }}{{ .a.GetB }}"#,
            "{{ .Values.Name.String }}{{ .A.Getter }}{{ .A.GetB",
            "{{ ü.ä }}{{ $.Values.Limits.Cpu.Value }}{{ .Cpu.Value }}{{ .Limits.Gpu }}",
        ] {
            let same = same.replace("{{ .A.GetB", "{{ .a.GetB").replace("(f .A)", "(f .a)");
            assert_eq!(written(&same), same);
        }
    }
}
