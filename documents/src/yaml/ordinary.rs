//! Ordinary YAML, read from the parser's events without a deserializer in between.
//!
//! Only what cannot be understood in two ways is read here. All else (anchors, tags, merge keys,
//! repeated keys, errors) is left to the library's deserializer, and so is the meaning of every
//! scalar that might be more than a word.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// The document's value; `None` where it is not ordinary. `resolve` tells what a plain scalar
/// means that is neither a word nor a short number.
pub(super) fn parse(text: &str, resolve: impl Fn(&str) -> Option<Value>) -> Option<Value> {
    let options = granit_parser::options! { emit_comments: false };
    let events = Parser::new_from_str_with_options(text, options);
    read(events.map_while(|next| next.ok().map(|(event, _)| event)), resolve)
}

/// [`parse`] from the parser's events without comments; those after an error are left out.
pub(super) fn read<'a>(
    events: impl Iterator<Item = Event<'a>>,
    resolve: impl Fn(&str) -> Option<Value>,
) -> Option<Value> {
    Reader { events, resolve, depth: 0 }.document()
}

/// Whether a plain scalar is a string to every reader of YAML, and a string is written plain.
pub(super) fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    (2..=MOST_LETTERS).contains(&bytes.len())
        && (bytes[0].is_ascii_alphabetic() || bytes[0] == b'/')
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-./_".contains(byte))
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Whether a plain scalar of one line can be read as nothing but a string: an image, a flag such as
/// `--domain`, a reference to a variable such as `$(HOST_IP)`, or a quantity such as `100m` and `1Gi`.
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

    /// Whether a scalar is a key that is its own text, and no merge key.
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
        // By itself it could be a mark or several lines.
        if text.contains('\n') || text.starts_with("---") || text.starts_with("...") {
            return None;
        }
        (self.resolve)(text).filter(|value| !value.is_object() && !value.is_array())
    }
}

/// What old and new readers of YAML take for something other than a string.
const RESERVED: [&str; 11] =
    ["false", "inf", "infinity", "nan", "no", "null", "off", "on", "true", "yes", "y"];
/// What makes a string of a number without leaving a doubt.
const UNITS: [&str; 7] = ["Gi", "Ki", "Mi", "Ti", "h", "m", "s"];
/// Longer words might be written over several lines.
const MOST_LETTERS: usize = 64;
/// Fewer than the library's own limit, so that its message is the one that is seen.
const MOST_LEVELS: usize = 40;
/// Any number of so many digits fits.
const MOST_DIGITS: usize = 18;
