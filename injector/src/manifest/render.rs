//! Rendering of new values in the style of the text around them.

use std::fmt::Write as _;

use documents::yaml::{self, YamlError};
use serde_json::Value;

use super::source::Source;
use super::spelling::Spellings;
use super::tree::{Item, Node, NodeKind, Slot};

/// Indentation of block collections in a document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Style {
    /// Indentation of a mapping relative to the mapping around it.
    pub(super) step: usize,
    /// Indentation of a sequence relative to the mapping around it; often 0.
    pub(super) dash: usize,
}

impl Style {
    /// Detects the style of a document.
    pub(super) fn detect(source: &Source<'_>, root: &Node) -> Self {
        let mut seen = SeenStyle::default();
        seen.look(source, root);
        seen.style()
    }
}

/// Renders values in block style.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockText<'a> {
    /// The document's indentation.
    pub(super) style: Style,
    /// The spellings of the scalars.
    pub(super) spellings: &'a Spellings<'a>,
}

impl BlockText<'_> {
    /// Returns the text after `key:` for a value. Its further lines are indented relative to the
    /// key.
    pub(super) fn entry_value(&self, value: &Value) -> Result<String, YamlError> {
        if is_block(value) {
            return Ok(format!("\n{}", self.below_key(value)?));
        }
        self.scalar(value)
    }

    /// Returns `key: value`. Its further lines are indented relative to the key.
    pub(super) fn entry(&self, key: &str, value: &Value) -> Result<String, YamlError> {
        Ok(format!("{}:{}", self::key(key)?, self.entry_value(value)?))
    }

    /// Returns the text after a dash for a value. Its further lines are indented relative to the
    /// dash.
    pub(super) fn item_value(&self, value: &Value) -> Result<String, YamlError> {
        if is_block(value) {
            return Ok(format!(" {}", self.below_dash(value)?.trim_start_matches(' ')));
        }
        self.scalar(value)
    }

    /// Returns a value on lines of its own below its key.
    pub(super) fn below_key(&self, value: &Value) -> Result<String, YamlError> {
        match value {
            Value::Array(items) if !items.is_empty() => {
                Ok(indented(&self.lines(value)?, self.style.dash))
            }
            Value::Object(entries) if !entries.is_empty() => {
                Ok(indented(&self.lines(value)?, self.style.step))
            }
            _ => Ok(format!(
                "{:1$}{2}",
                "",
                self.style.step,
                self.scalar(value)?.trim_start_matches(' ')
            )),
        }
    }

    /// Returns a value on lines of its own below its dash.
    pub(super) fn below_dash(&self, value: &Value) -> Result<String, YamlError> {
        if is_block(value) {
            return Ok(indented(&self.lines(value)?, DASH.len()));
        }
        Ok(format!("{:1$}{2}", "", DASH.len(), self.scalar(value)?.trim_start_matches(' ')))
    }

    /// Returns a collection's items, or a scalar, from column 0.
    pub(super) fn lines(&self, value: &Value) -> Result<String, YamlError> {
        let lines: Vec<_> = match value {
            Value::Array(items) if !items.is_empty() => {
                let item = |item| Ok(format!("-{}", self.item_value(item)?));
                items.iter().map(item).collect::<Result<_, YamlError>>()?
            }
            Value::Object(entries) if !entries.is_empty() => {
                let entry = |(key, value): (&String, &Value)| self.entry(key, value);
                // The name comes first, because it identifies the lines below it.
                let (name, rest): (Vec<_>, Vec<_>) =
                    entries.iter().partition(|(key, _)| *key == "name");
                name.into_iter().chain(rest).map(entry).collect::<Result<_, _>>()?
            }
            _ => return Ok(self.scalar(value)?.trim_start_matches(' ').to_owned()),
        };
        Ok(lines.join("\n"))
    }

    /// Returns a scalar as it stands after `key:` or a dash, with the space before it.
    fn scalar(&self, value: &Value) -> Result<String, YamlError> {
        if let Some(text) = self.spellings.of(value) {
            return Ok(format!(" {text}"));
        }
        match value {
            Value::String(text) if yaml::is_word(text) => return Ok(format!(" {text}")),
            Value::Bool(_) | Value::Null => return Ok(format!(" {value}")),
            Value::Number(number) if number.is_u64() => return Ok(format!(" {number}")),
            _ => {}
        }
        let entry = serde_json::Map::from_iter([("k".to_owned(), value.clone())]);
        let text = yaml::to_string(&Value::Object(entry))?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(text.strip_prefix("k:").unwrap_or(text).to_owned())
    }
}

/// Layout of a flow collection.
#[derive(Clone, Debug)]
pub(super) enum Layout {
    /// On one line, with or without spaces.
    Line { spaces: bool },
    /// One item per line: the indentation of the items, and its increase with each level.
    Lines { indent: String, step: String },
}

impl Layout {
    /// Detects the layout of a collection with items.
    pub(super) fn new(source: &Source<'_>, node: &Node) -> Self {
        let NodeKind::Collection(collection) = &node.kind else {
            return Self::Line { spaces: true };
        };
        let Some(first) = collection.items.first() else {
            return Self::Line { spaces: true };
        };
        let bracket = source.skip_properties(node.start);
        if source.text[bracket..first.start].contains('\n') {
            let indent = source.line_indent(first.start);
            let outer = source.line_indent(bracket);
            let step = indent.strip_prefix(outer).filter(|step| !step.is_empty()).unwrap_or("  ");
            return Self::Lines { indent: indent.to_owned(), step: step.to_owned() };
        }
        let mark = |item: &Item| match item.after {
            Some(after) => Some(after),
            None => (source.byte(item.end()) == Some(b',')).then_some(item.end() + 1),
        };
        let mut marks = collection.items.iter().filter_map(mark);
        Self::Line { spaces: marks.all(|at| source.byte(at) == Some(b' ')) }
    }

    /// Returns the text between two items.
    pub(super) fn between(&self, eol: &str) -> String {
        match self {
            Self::Line { spaces: true } => ", ".to_owned(),
            Self::Line { spaces: false } => ",".to_owned(),
            Self::Lines { indent, .. } => format!(",{eol}{indent}"),
        }
    }

    /// Returns a value as JSON, except for scalars with a spelling of the author's.
    pub(super) fn value(&self, value: &Value, spellings: &Spellings<'_>, eol: &str) -> String {
        let mut text = String::new();
        self.write(value, spellings, eol, 0, &mut text);
        text
    }

    /// Returns `"key": value`.
    pub(super) fn entry(
        &self,
        key: &str,
        value: &Value,
        spellings: &Spellings<'_>,
        eol: &str,
    ) -> String {
        format!("{}{}", self.key(key), self.value(value, spellings, eol))
    }

    fn write(
        &self,
        value: &Value,
        spellings: &Spellings<'_>,
        eol: &str,
        depth: usize,
        text: &mut String,
    ) {
        match value {
            Value::Array(items) if !items.is_empty() => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.begin_item(index, eol, depth + 1, text);
                    self.write(item, spellings, eol, depth + 1, text);
                }
                self.end_items(eol, depth, text);
                text.push(']');
            }
            Value::Object(entries) if !entries.is_empty() => {
                text.push('{');
                for (index, (key, item)) in entries.iter().enumerate() {
                    self.begin_item(index, eol, depth + 1, text);
                    text.push_str(&self.key(key));
                    self.write(item, spellings, eol, depth + 1, text);
                }
                self.end_items(eol, depth, text);
                text.push('}');
            }
            scalar => match spellings.of(scalar) {
                Some(spelling) => text.push_str(spelling),
                None => text.push_str(&printable(&scalar.to_string())),
            },
        }
    }

    /// Returns `"key": `.
    fn key(&self, key: &str) -> String {
        let colon = if matches!(self, Self::Line { spaces: false }) { ":" } else { ": " };
        format!("{}{colon}", printable(&Value::from(key).to_string()))
    }

    fn begin_item(&self, index: usize, eol: &str, depth: usize, text: &mut String) {
        if index > 0 {
            text.push(',');
        }
        match self {
            Self::Line { spaces } => text.push_str(if *spaces && index > 0 { " " } else { "" }),
            Self::Lines { .. } => self.break_line(eol, depth, text),
        }
    }

    fn end_items(&self, eol: &str, depth: usize, text: &mut String) {
        if matches!(self, Self::Lines { .. }) {
            self.break_line(eol, depth, text);
        }
    }

    fn break_line(&self, eol: &str, depth: usize, text: &mut String) {
        if let Self::Lines { indent, step } = self {
            text.push_str(eol);
            text.push_str(indent);
            text.extend(std::iter::repeat_n(step.as_str(), depth));
        }
    }
}

/// Returns a text with all lines but the first indented, and with the document's line breaks.
pub(super) fn hanging(text: &str, indent: usize, eol: &str) -> String {
    let mut lines = text.split('\n');
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        out.push_str(eol);
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
    }
    out
}

/// True if a value takes lines of its own.
pub(super) fn is_block(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => false,
    }
}

fn indented(text: &str, indent: usize) -> String {
    format!("{:1$}{2}", "", indent, hanging(text, indent, "\n"))
}

fn key(key: &str) -> Result<String, YamlError> {
    if yaml::is_word(key) {
        return Ok(key.to_owned());
    }
    let entry = serde_json::Map::from_iter([(key.to_owned(), Value::Null)]);
    let text = yaml::to_string(&Value::Object(entry))?;
    let text = match text.trim_end().strip_suffix(": null") {
        Some(key) => key.to_owned(),
        None => printable(&Value::from(key).to_string()),
    };
    if text.len() <= LONGEST_KEY {
        return Ok(text);
    }
    let problem = format!("a key takes more than {LONGEST_KEY} bytes");
    Err(YamlError { line: 0, column: 0, problem })
}

/// Returns JSON with escapes for the characters that JSON allows in strings, and YAML does not, or
/// takes for line breaks (YAML 1.2, sections 5.1 and 5.4).
fn printable(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text
}

/// The first indentations of a document, from which its [`Style`] is derived.
#[derive(Debug, Default)]
pub(super) struct SeenStyle {
    step: Option<usize>,
    dash: Option<usize>,
}

impl SeenStyle {
    /// Returns the style, with defaults for indentations that were not seen.
    pub(super) fn style(&self) -> Style {
        Style { step: self.step.unwrap_or(2), dash: self.dash.unwrap_or(0) }
    }

    /// Inspects a node and its contents.
    pub(super) fn look(&mut self, source: &Source<'_>, node: &Node) {
        let NodeKind::Collection(outer) = &node.kind else {
            return;
        };
        if outer.flow {
            return;
        }
        for slot in &outer.slots {
            let Slot::Old(at) = *slot else { continue };
            if self.step.is_some() && self.dash.is_some() {
                return;
            }
            let item = &outer.items[at];
            if outer.map {
                self.look_at_entry(source, item.start, &item.value);
            } else {
                self.look(source, &item.value);
            }
        }
    }

    /// Inspects the value of a key in block style that starts at `key`, and its contents.
    pub(super) fn look_at_entry(&mut self, source: &Source<'_>, key: usize, value: &Node) {
        if let NodeKind::Collection(inner) = &value.kind
            && let Some(first) = inner.items.first()
            && !inner.flow
        {
            if inner.map {
                let further = source.column(first.start).checked_sub(source.column(key));
                self.step = self.step.or(further.filter(|&step| step > 0));
            } else {
                self.look_at_dash(source, key, first.start);
            }
        }
        self.look(source, value);
    }

    /// Inspects the first dash below a key.
    pub(super) fn look_at_dash(&mut self, source: &Source<'_>, key: usize, dash: usize) {
        self.dash = self.dash.or(source.column(dash).checked_sub(source.column(key)));
    }
}

/// YAML's limit on a key in one line with its value.
const LONGEST_KEY: usize = 1_024;
const DASH: &str = "- ";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flow_text_has_no_character_that_yaml_rejects_or_breaks_lines_at() {
        let value = json!({"k\u{7f}": "a\u{85}b\u{2028}ä"});
        for spaces in [true, false] {
            let text = Layout::Line { spaces }.value(&value, &Spellings::default(), "\n");
            assert!(text.contains("\\u007f") && text.contains("a\\u0085b\\u2028ä"), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
