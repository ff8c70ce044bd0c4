//! Encoding of text from a pod that prevents YAML injection through templates.
//!
//! A template pastes text into YAML, with or without quotes. Before the template sees the text,
//! characters that could end a quoted string, a line or a scalar are replaced by stand-ins from a
//! private plane of Unicode. In the strings of the parsed document, the stand-ins are replaced by
//! the original characters. Characters of that plane in the pod's text are escaped. So every
//! annotation value of a pod survives rendering unchanged.

use std::borrow::Cow;

use gtmpl_ng::Value as TemplateValue;
use serde_json::{Map, Value};

use documents::yaml;

/// Returns the text with stand-ins.
pub(crate) fn guarded(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| !byte.is_ascii_alphanumeric() && !b" ./-_".contains(&byte))
        && !begins_list(text)
    {
        return Cow::Borrowed(text);
    }
    let mut characters = text.chars().peekable();
    let mut before = None;
    // YAML ignores blanks in front of a scalar.
    let mut leading = true;
    let mut guarded = String::with_capacity(text.len() + 8);
    while let Some(c) = characters.next() {
        let next = characters.peek().copied();
        let apart = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let active = always(c)
            || (leading && LEADING.contains(&c))
            || (leading && "-?".contains(c) && apart(next))
            || (c == ':' && apart(next))
            || (c == '#' && apart(before));
        if let Some(escaped) = escaped(c) {
            guarded.extend([ESCAPE, escaped]);
        } else {
            guarded.push(if active { stand_in(c) } else { c });
        }
        before = Some(c);
        leading &= c.is_whitespace();
    }
    if guarded == text { Cow::Borrowed(text) } else { Cow::Owned(guarded) }
}

/// Returns the text for a position where it cannot become YAML structure. Only characters that YAML
/// cannot hold get stand-ins. [`plain`] restores the text.
pub(crate) fn escaped_only(text: &str) -> Cow<'_, str> {
    // The UTF-8 of every replaced character begins with one of these bytes.
    if !text.bytes().any(|byte| byte < b' ' || [0x7F, 0xC2, 0xEF, 0xF3].contains(&byte)) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match escaped(c) {
            Some(escaped) => written.extend([ESCAPE, escaped]),
            None if is_unprintable(c) && !"\t\n\r".contains(c) => written.push(stand_in(c)),
            None => written.push(c),
        }
    }
    Cow::Owned(written)
}

/// Returns a key from the pod's text with stand-ins. Templates paste keys without quotes, and no
/// key is meant as a number. So a key that YAML would not parse as a string gets a placeholder at
/// its end, which [`plain`] removes later. At the end it affects the sort order least. A key that a
/// template names after a dot stays unchanged, or the template would not find it.
pub(crate) fn guarded_key(text: &str, after_dot: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let guarded = guarded(text);
    if guarded.is_empty() || is_string(&guarded) || after_dot(text) {
        guarded
    } else {
        Cow::Owned(format!("{guarded}{NOTHING}"))
    }
}

/// True if YAML parses the unquoted text as a string.
pub(crate) fn is_string(text: &str) -> bool {
    yaml::is_word(text) || yaml::parse(text).is_ok_and(|value| value.is_string())
}

/// True if a template can have this text after a dot.
pub(crate) fn is_name(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c == '_' || c.is_alphanumeric())
}

/// True if an unquoted text begins with the dash of a YAML list.
fn begins_list(text: &str) -> bool {
    let rest = text.trim_start().strip_prefix('-');
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Returns the text from which [`guarded`] was made.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !has_stand_ins(text) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            NOTHING => {}
            ESCAPE => plain.extend(characters.next().and_then(unescaped)),
            c => plain.push(original(c).unwrap_or(c)),
        }
    }
    if plain == text { Cow::Borrowed(text) } else { Cow::Owned(plain) }
}

/// True if a text may contain characters of the plane used for stand-ins.
fn has_stand_ins(text: &str) -> bool {
    // The UTF-8 of all characters of the plane begins with this byte.
    text.as_bytes().contains(&0xF3)
}

/// True if a template value contains stand-ins.
pub(crate) fn holds(value: &TemplateValue) -> bool {
    match value {
        TemplateValue::String(text) => matches!(plain(text), Cow::Owned(_)),
        TemplateValue::Array(items) => items.iter().any(holds),
        TemplateValue::Map(members) | TemplateValue::Object(members) => {
            members.iter().any(|(key, value)| matches!(plain(key), Cow::Owned(_)) || holds(value))
        }
        _ => false,
    }
}

/// Applies a function to all strings of a template value, including keys.
pub(crate) fn rewrite(value: &TemplateValue, with: fn(&str) -> Cow<'_, str>) -> TemplateValue {
    match value {
        TemplateValue::String(text) => TemplateValue::String(with(text).into_owned()),
        TemplateValue::Array(items) => {
            TemplateValue::Array(items.iter().map(|item| rewrite(item, with)).collect())
        }
        TemplateValue::Map(members) => TemplateValue::Map(
            members
                .iter()
                .map(|(key, value)| (with(key).into_owned(), rewrite(value, with)))
                .collect(),
        ),
        // Names of struct fields are not text from a pod.
        TemplateValue::Object(members) => TemplateValue::Object(
            members.iter().map(|(name, value)| (name.clone(), rewrite(value, with))).collect(),
        ),
        other => other.clone(),
    }
}

/// Returns the document with the original text in all strings and keys.
pub(crate) fn release(mut document: Value) -> Value {
    release_in(&mut document);
    document
}

/// Works in place, as few strings contain a stand-in.
fn release_in(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(original) = plain(text) {
                *text = original;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(release_in),
        Value::Object(members) => {
            members.values_mut().for_each(release_in);
            if members.keys().any(|key| matches!(plain(key), Cow::Owned(_))) {
                let guarded = std::mem::take(members).into_iter();
                let released = guarded.map(|(key, value)| (plain(&key).into_owned(), value));
                *members = released.collect::<Map<_, _>>();
            }
        }
        _ => {}
    }
}

/// True for characters that YAML cannot hold (YAML specification, section 5.1), and for some
/// control characters that it can.
pub(crate) fn is_unprintable(c: char) -> bool {
    c.is_control() || ['\u{fffe}', '\u{ffff}'].contains(&c)
}

/// True for characters that are syntax anywhere in YAML, end a line or are not allowed in one.
fn always(c: char) -> bool {
    is_unprintable(c)
        || ['"', '\'', '\\', ',', '{', '}', '[', ']', '\u{2028}', '\u{2029}', '\u{feff}']
            .contains(&c)
}

fn stand_in(c: char) -> char {
    char::from_u32(PLANE + u32::from(c)).unwrap_or(c)
}

fn original(c: char) -> Option<char> {
    let c = char::from_u32(u32::from(c).checked_sub(PLANE)?)?;
    (always(c) || LEADING.contains(&c) || "-?:#".contains(c)).then_some(c)
}

/// Returns the character that follows [`ESCAPE`] for a character of the private plane: its
/// counterpart in the next plane.
fn escaped(c: char) -> Option<char> {
    let c = u32::from(c);
    (PLANE..NEXT_PLANE).contains(&c).then(|| char::from_u32(c + NEXT_PLANE - PLANE))?
}

fn unescaped(c: char) -> Option<char> {
    char::from_u32(u32::from(c).checked_sub(NEXT_PLANE - PLANE)?)
}

const LEADING: [char; 8] = ['&', '*', '!', '|', '>', '%', '@', '`'];

/// First character of Unicode's private plane 15; `NEXT_PLANE` is that of plane 16.
const PLANE: u32 = 0xF_0000;
const NEXT_PLANE: u32 = 0x10_0000;
/// Placeholder that stands for no text. Together with `ESCAPE`, the last two characters of plane 15.
const NOTHING: char = '\u{FFFFD}';
/// Empty text that the engine does not treat as empty.
pub(crate) const EMPTY: &str = "\u{FFFFD}";
const ESCAPE: char = '\u{FFFFC}';

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn common_text_is_not_escaped() {
        for text in ["", "hello", "istio-system", "10.0.0.0/8", "a b", "misc:error"] {
            assert!(matches!(guarded(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn leading_dash_of_a_value_starts_no_list() {
        for text in ["-", " -", "  - a", "\t-", " * a", " &a b"] {
            assert_ne!(guarded(text), text);
            assert_eq!(plain(&guarded(text)), text);
        }
    }

    #[test]
    fn guarded_key_is_a_string_without_quotes() {
        for key in
            ["A", "true", "1", "null", "~", "1e3", "0x1f", "a b", "A:", "# a", ".5", "2001-01-01"]
        {
            let line = guarded_key(key, |_| false);
            assert_eq!(plain(&line), key);
            let parsed = release(documents::yaml::parse(&format!("name: {line}")).unwrap());
            assert_eq!(parsed, serde_json::json!({"name": key}));
        }
        let guarded = |key| guarded_key(key, |_| false);
        assert!(matches!(guarded("ISTIO_META_DNS_CAPTURE"), Cow::Borrowed(_)));
        // A template ranges over keys in sorted order, and so do the built-in overlays.
        assert!(guarded("0x1f") < guarded("1") && guarded("1") < guarded("A"));
        assert_eq!(guarded_key("on", |key| key == "on"), "on");
    }

    #[test]
    fn placeholders_in_a_pod_are_escaped() {
        for text in [
            "x\u{F0022}",
            "\u{F000A}",
            "\u{FFFFC}\u{100022}",
            "\u{FFFFD}",
            "\u{100022}",
            "\u{FFFFF}",
        ] {
            assert_eq!(plain(&guarded(text)), text);
            let document = format!("a: \"{}\"", guarded(text));
            let parsed = documents::yaml::parse(&document).unwrap();
            assert_eq!(release(parsed), serde_json::json!({"a": text}));
        }
    }

    proptest! {
        #[test]
        fn guarded_text_is_one_scalar(text in "\\PC*|[a\u{F0022}\u{FFFFC}\u{FFFFD}\u{FFFFE}\u{100022}]{0,5}|[a\0\u{7f}\u{9f}\u{fdd0}\u{feff}\u{fffe}\u{ffff}\u{1fffe}\u{10ffff}]{0,5}|[-a\\n\\t :#'\"\\\\{}\\[\\]&*!|>%@`?,]{0,12}") {
            let line = guarded(&text);
            prop_assert_eq!(plain(&line), text.as_str());
            for document in [format!("a: \"{line}\"\nb: 1"), format!("a: '{line}'\nb: 1")] {
                let parsed = release(documents::yaml::parse(&document).unwrap());
                prop_assert_eq!(parsed, serde_json::json!({"a": text, "b": 1}));
            }
            for document in [format!("- {line}\n- 1"), format!("[{line} ,1]")] {
                if let Ok(parsed) = documents::yaml::parse(&document) {
                    prop_assert_eq!(parsed.as_array().map(Vec::len), Some(2));
                    prop_assert!(!parsed[0].is_object() && !parsed[0].is_array());
                }
            }
        }
    }
}
