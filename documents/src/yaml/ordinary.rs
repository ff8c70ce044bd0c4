//! Fast path for ordinary YAML: reads the parser's events without a deserializer.
//!
//! Only unambiguous YAML is read here. The library's deserializer handles everything else (anchors,
//! tags, merge keys, repeated keys, errors), and every scalar that might not be a word.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// Returns the document's value; `None` if it is not ordinary. `resolve` returns the value of a
/// plain scalar that is neither a word nor a short number.
pub(super) fn parse(text: &str, resolve: impl Fn(&str) -> Option<Value>) -> Option<Value> {
    let options = granit_parser::options! { emit_comments: false };
    let events = Parser::new_from_str_with_options(text, options);
    read(events.map_while(|next| next.ok().map(|(event, _)| event)), resolve)
}

/// Parses like [`parse`] from the parser's events without comments. The caller omits events after
/// an error.
pub(super) fn read<'a>(
    events: impl Iterator<Item = Event<'a>>,
    resolve: impl Fn(&str) -> Option<Value>,
) -> Option<Value> {
    Reader { events, resolve, depth: 0 }.document()
}

/// True if every YAML parser reads a plain scalar as a string, so that the string needs no quotes.
pub(super) fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    (2..=MOST_LETTERS).contains(&bytes.len())
        && (bytes[0].is_ascii_alphabetic() || bytes[0] == b'/')
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-./_".contains(byte))
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// True if a plain scalar of one line can only be a string: an image, a flag such as `--domain`, a
/// variable reference such as `$(HOST_IP)`, or a quantity such as `100m` and `1Gi`.
fn is_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if (1..=MOST_DIGITS).contains(&digits) {
        return UNITS.contains(&&text[digits..]);
    }
    let first = text.strip_prefix("--").or(text.strip_prefix("$(")).unwrap_or(text).bytes().next();
    (2..=MOST_LETTERS).contains(&bytes.len())
        && first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/')
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-./_:@+=$()".contains(byte))
        && !bytes.ends_with(b":")
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text))
}

struct Reader<E, R> {
    events: E,
    resolve: R,
    depth: usize,
}

impl<'a, E, R> Reader<E, R>
where
    E: Iterator<Item = Event<'a>>,
    R: Fn(&str) -> Option<Value>,
{
    fn document(&mut self) -> Option<Value> {
        let Event::StreamStart = self.next()? else { return None };
        let Event::DocumentStart(_, None) = self.next()? else { return None };
        let first = self.next()?;
        let value = self.value(first)?;
        let Event::DocumentEnd = self.next()? else { return None };
        let Event::StreamEnd = self.next()? else { return None };
        Some(value)
    }

    fn next(&mut self) -> Option<Event<'a>> {
        self.events.next()
    }

    fn value(&mut self, event: Event<'a>) -> Option<Value> {
        self.depth += 1;
        if self.depth > MOST_LEVELS {
            return None;
        }
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, 0, None) => self.plain(&text)?,
            Event::Scalar(text, _, 0, None) => Value::String(text.into_owned()),
            Event::SequenceStart(_, 0, None) => self.sequence()?,
            Event::MappingStart(_, 0, None) => self.mapping()?,
            _ => return None,
        };
        self.depth -= 1;
        Some(value)
    }

    fn sequence(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Event::SequenceEnd => return Some(Value::Array(items)),
                event => items.push(self.value(event)?),
            }
        }
    }

    fn mapping(&mut self) -> Option<Value> {
        let mut members = Map::new();
        loop {
            let key = match self.next()? {
                Event::MappingEnd => return Some(Value::Object(members)),
                Event::Scalar(key, style, 0, None) if self.is_key(&key, style) => key,
                _ => return None,
            };
            let event = self.next()?;
            let value = self.value(event)?;
            if members.insert(key.into_owned(), value).is_some() {
                return None;
            }
        }
    }

    /// True if a scalar is a string key, and not a merge key.
    fn is_key(&self, text: &str, style: ScalarStyle) -> bool {
        let plain = style == ScalarStyle::Plain;
        text != "<<" && (!plain || self.plain(text).is_some_and(|value| value.is_string()))
    }

    fn plain(&self, text: &str) -> Option<Value> {
        if is_word(text) {
            return Some(Value::String(text.to_owned()));
        }
        match text {
            "true" => return Some(Value::Bool(true)),
            "false" => return Some(Value::Bool(false)),
            "null" | "~" | "" => return Some(Value::Null),
            _ => {}
        }
        if is_text(text) {
            return Some(Value::String(text.to_owned()));
        }
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        if digits && text.len() <= MOST_DIGITS && (text == "0" || !text.starts_with('0')) {
            return text.parse::<u64>().ok().map(Value::from);
        }
        // Alone it could be a document marker or several lines.
        if text.contains('\n') || text.starts_with("---") || text.starts_with("...") {
            return None;
        }
        (self.resolve)(text).filter(|value| !value.is_object() && !value.is_array())
    }
}

/// Words that old and new YAML parsers read as something other than a string.
const RESERVED: [&str; 11] =
    ["false", "inf", "infinity", "nan", "no", "null", "off", "on", "true", "yes", "y"];
/// Suffixes that unambiguously turn a number into a string.
const UNITS: [&str; 7] = ["Gi", "Ki", "Mi", "Ti", "h", "m", "s"];
/// Longer words might be written over several lines.
const MOST_LETTERS: usize = 64;
/// Lower than the library's own limit, so that the library reports the error.
const MOST_LEVELS: usize = 40;
/// Every number with this many digits fits into 64 bits.
const MOST_DIGITS: usize = 18;
