//! sprig's functions for JSON, YAML, base32, base64 and paths.
//!
//! Encoders get the pod's original text. Their output is safe wherever a template pastes it: on a
//! line of its own, in a block, between single quotes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::BASE32;
use documents::yaml;
use gtmpl_ng::Value as TemplateValue;
use serde_json::Value;

use super::arguments::{exactly, printed, text};
use super::{FunctionResult, Table, error, on_plain, table};
use crate::template::escape;
use crate::template::rendering::{ITEM, MAPPING, YAML, charge, charge_for, weight};
use crate::template::values::json;
use crate::template::values::marshal::Marshalled;

pub(super) const TABLE: Table = table![
    ("b32dec", |a| on_plain(a, b32dec)),
    ("b32enc", |a| {
        on_plain(a, |a| Ok(BASE32.encode(text(&exactly::<1>("b32enc", a)?[0])?.as_bytes()).into()))
    }),
    ("b64dec", |a| on_plain(a, b64dec)),
    ("b64enc", |a| {
        on_plain(a, |a| Ok(STANDARD.encode(text(&exactly::<1>("b64enc", a)?[0])?).into()))
    }),
    ("base", |a| on_plain(a, |a| path(a, base))),
    ("clean", |a| on_plain(a, |a| path(a, clean))),
    ("deepCopy", |a| Ok(exactly::<1>("deepCopy", a)?[0].clone())),
    ("dir", |a| on_plain(a, |a| path(a, directory))),
    ("ext", |a| on_plain(a, |a| path(a, extension))),
    ("fromJson", |a| Ok(from_json("fromJson", a).unwrap_or(TemplateValue::Nil))),
    ("fromYaml", from_yaml),
    ("isAbs", |a| Ok(text(&exactly::<1>("isAbs", a)?[0])?.starts_with('/').into())),
    ("mustDeepCopy", |a| Ok(exactly::<1>("mustDeepCopy", a)?[0].clone())),
    ("mustFromJson", |a| from_json("mustFromJson", a)),
    ("mustToJson", |a| to_json("mustToJson", a)),
    ("mustToPrettyJson", |a| to_pretty_json("mustToPrettyJson", a)),
    ("mustToRawJson", |a| to_raw_json("mustToRawJson", a)),
    ("osBase", |a| on_plain(a, |a| path(a, base))),
    ("osClean", |a| on_plain(a, |a| path(a, clean))),
    ("osDir", |a| on_plain(a, |a| path(a, directory))),
    ("osExt", |a| on_plain(a, |a| path(a, extension))),
    ("osIsAbs", |a| Ok(text(&exactly::<1>("osIsAbs", a)?[0])?.starts_with('/').into())),
    ("toJson", |a| to_json("toJson", a)),
    ("toPrettyJson", |a| to_pretty_json("toPrettyJson", a)),
    ("toRawJson", |a| to_raw_json("toRawJson", a)),
];

/// Returns the JSON that Go's `json.Marshal` writes.
pub(super) fn json_text(value: &TemplateValue) -> FunctionResult {
    Ok(sound(&escaped(&unescaped(value)?)).into())
}

fn unescaped(value: &TemplateValue) -> Result<String, gtmpl_ng::FuncError> {
    serde_json::to_string(&Marshalled::new(value)).map_err(|problem| error(problem.to_string()))
}

/// Makes JSON safe between YAML's single quotes.
pub(super) fn sound(json: &str) -> String {
    // Only strings in the JSON can contain a single quote. Its stand-in is replaced after the YAML
    // is parsed.
    let json = escape::escaped_only(json);
    json.split('\'').collect::<Vec<_>>().join(&escape::guarded("'"))
}

/// Parses JSON text into a guarded value.
pub(super) fn parsed(json: &TemplateValue) -> Result<TemplateValue, gtmpl_ng::FuncError> {
    let json = escape::plain(text(json)?);
    charge_for_document(&json, 1)?;
    let value: Value = serde_json::from_str(&json).map_err(|problem| error(problem.to_string()))?;
    Ok(json::guarded(&value))
}

/// Charges for the values in a JSON or YAML document, each of which follows one of these
/// characters, and for each byte `of_byte` units.
fn charge_for_document(text: &str, of_byte: usize) -> Result<(), gtmpl_ng::FuncError> {
    let values = text.bytes().filter(|byte| b",:[{-\n".contains(byte)).count();
    charge_for(values, ITEM)?;
    charge_for(text.bytes().filter(|byte| b"{:".contains(byte)).count(), MAPPING / 2)?;
    charge_for(text.len(), of_byte)
}

/// Returns YAML with sorted keys and a trailing line break.
pub(super) fn to_yaml(arguments: &[TemplateValue]) -> FunctionResult {
    let [value] = exactly("toYaml", arguments)?;
    charge(weight(value))?;
    let value = serde_json::to_value(Marshalled::new(value));
    let value = value.map_err(|problem| error(format!("toYaml: {problem}")))?;
    let text = yaml::to_string(&value);
    let text = text.map_err(|problem| error(format!("toYaml: {problem}")))?;
    Ok(escape::escaped_only(&text).into_owned().into())
}

fn from_json(name: &str, arguments: &[TemplateValue]) -> FunctionResult {
    let [json] = exactly(name, arguments)?;
    parsed(json)
}

fn from_yaml(arguments: &[TemplateValue]) -> FunctionResult {
    let [document] = exactly("fromYaml", arguments)?;
    let document = escape::plain(text(document)?);
    charge_for_document(&document, YAML)?;
    let document = yaml::parse(&document);
    Ok(json::guarded(&document.map_err(|problem| error(format!("fromYaml: {problem}")))?))
}

fn to_json(name: &str, arguments: &[TemplateValue]) -> FunctionResult {
    let [value] = exactly(name, arguments)?;
    json_text(value)
}

fn to_pretty_json(name: &str, arguments: &[TemplateValue]) -> FunctionResult {
    let [value] = exactly(name, arguments)?;
    let text = serde_json::to_string_pretty(&Marshalled::new(value));
    Ok(sound(&escaped(&text.map_err(|problem| error(problem.to_string()))?)).into())
}

fn to_raw_json(name: &str, arguments: &[TemplateValue]) -> FunctionResult {
    let [value] = exactly(name, arguments)?;
    Ok(sound(&unescaped(value)?).into())
}

/// Escapes HTML characters, as Go does.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn b64dec(arguments: &[TemplateValue]) -> FunctionResult {
    let [encoded] = exactly("b64dec", arguments)?;
    let encoded: String = text(encoded)?.chars().filter(|c| !"\r\n".contains(*c)).collect();
    if let Ok(bytes) = STANDARD.decode(&encoded) {
        return Ok(String::from_utf8_lossy(&bytes).into_owned().into());
    }
    // sprig returns the error as text.
    let strange = |byte: u8| !byte.is_ascii_alphanumeric() && !b"+/=".contains(&byte);
    let place = encoded.bytes().position(strange).unwrap_or(encoded.len() / 4 * 4);
    Ok(format!("illegal base64 data at input byte {place}").into())
}

fn b32dec(arguments: &[TemplateValue]) -> FunctionResult {
    let [encoded] = exactly("b32dec", arguments)?;
    let encoded: String = text(encoded)?.chars().filter(|c| !"\r\n".contains(*c)).collect();
    // sprig returns the error as text.
    Ok(match BASE32.decode(encoded.as_bytes()) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        Err(problem) => format!("illegal base32 data at input byte {}", problem.position).into(),
    })
}

fn path(arguments: &[TemplateValue], with: fn(&str) -> String) -> FunctionResult {
    let [path] = exactly("base", arguments)?;
    Ok(with(&printed(path)).into())
}

fn directory(path: &str) -> String {
    clean(&path[..path.rfind('/').map_or(0, |end| end + 1)])
}

fn base(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    match (path, trimmed) {
        ("", _) => ".".to_owned(),
        (_, "") => "/".to_owned(),
        _ => trimmed.rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            ("..", None) if rooted => {}
            _ => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

fn extension(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.').map_or_else(String::new, |dot| name[dot..].to_owned())
}

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
        check(&[
            ("toJson (dict `b` (list 1 `<`) `a` nil)", r#"{"a":null,"b":[1,"\u003c"]}"#),
            ("toRawJson (list `<`)", r#"["<"]"#),
            ("toPrettyJson (dict `a` 1)", "{\n  \"a\": 1\n}"),
            ("(fromJson `{\"a\": [1, 2]}`).a", "[1 2]"),
            ("fromJson `{`", "<no value>"),
            ("(fromYaml `a: [1, 2]`).a", "[1 2]"),
            ("toYaml (dict `b` 1 `a` (list `x`))", "a:\n- x\nb: 1\n"),
            ("b64enc `test`", "dGVzdA=="),
            ("b64dec `dGVzdA==`", "test"),
            ("b64dec `a.b`", "illegal base64 data at input byte 1"),
            ("b64dec `dGVzdA`", "illegal base64 data at input byte 4"),
            ("base `foo/bar/`", "bar"),
            ("dir `foo/bar/baz`", "foo/bar"),
            ("clean `foo/bar/../baz`", "foo/baz"),
            ("ext `foo.bar`", ".bar"),
            ("isAbs `/a`", "true"),
            ("osBase `/a/b.c`", "b.c"),
            ("osDir `/a/b.c`", "/a"),
            ("osExt `/a/b.c`", ".c"),
            ("osClean `/a/../b`", "/b"),
            ("osIsAbs `a`", "false"),
            ("b32enc ``", ""),
            ("b32enc `f`", "MY======"),
            ("b32enc `fo`", "MZXQ===="),
            ("b32enc `foob`", "MZXW6YQ="),
            ("b32enc `foobar`", "MZXW6YTBOI======"),
            ("b32dec `MZXW6YTBOI======`", "foobar"),
            ("b32dec `MZXW6YQ=`", "foob"),
            ("b32dec `mz`", "illegal base32 data at input byte 0"),
        ]);
    }
}
