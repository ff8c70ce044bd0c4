//! Rewriting of field chains in a template for the engine, without moving columns.
//!
//! A template value cannot have methods and also print as a word, and nil cannot have getters. So
//! `.String` is removed after an enumeration, whose template value is its word. And a getter of a
//! field's or another getter's result, or a [method](methods), is joined with the names before it
//! into one name. The message or struct in front resolves that name.

use go_types;

use super::actions::{Piece, pieces};
use crate::template::values::methods;

/// Returns the template as the engine gets it.
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

/// Returns the field at the end of a text; empty if the text does not end in one.
fn field_at_end(written: &str) -> &str {
    let (before, field) = written.split_at(written.trim_end_matches(|c| !is_apart(c)).len());
    if before.ends_with('.') { field } else { "" }
}

/// True if the chain at the end of a text starts at the values, which have no methods.
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

/// Fields of the template data that have getters and are not part of a message.
const ROOTS: [&str; 3] = ["MeshConfig", "ObjectMeta", "ProxyConfig"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_getter_chains_and_enum_words_are_rewritten() {
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
