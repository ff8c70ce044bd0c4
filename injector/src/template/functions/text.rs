//! sprig's functions on strings.

use std::fmt::Write as _;

use gtmpl_ng::Value as TemplateValue;

use super::arguments::{at_least, count, exactly, is_nothing, list, printed, strings, text, whole};
use super::words::{lower, upper};
use super::{FunctionResult, Table, error, on_plain, table};
use crate::template::escape;
use crate::template::rendering::{ITEM, charge_for};
use crate::template::values::type_tag;

pub(super) const TABLE: Table = table![
    ("abbrev", |a| on_plain(a, abbrev)),
    ("abbrevboth", |a| on_plain(a, abbrev_both)),
    ("cat", |a| Ok(cat(a))),
    ("contains", |a| on_plain(a, |a| test("contains", a, |sub, text| text.contains(sub)))),
    ("hasPrefix", |a| on_plain(a, |a| test("hasPrefix", a, |sub, text| text.starts_with(sub)))),
    ("hasSuffix", |a| on_plain(a, |a| test("hasSuffix", a, |sub, text| text.ends_with(sub)))),
    ("initials", |a| on_plain(a, |a| map("initials", a, initials))),
    ("join", join),
    ("lower", |a| on_plain(a, |a| map("lower", a, str::to_lowercase))),
    ("nindent", nindent),
    ("nospace", |a| on_plain(a, |a| map("nospace", a, |text| text.split_whitespace().collect()))),
    ("plural", plural),
    ("quote", |a| Ok(quote(a))),
    ("repeat", repeat),
    ("replace", |a| on_plain(a, replace)),
    ("sortAlpha", |a| on_plain(a, sort_alpha)),
    ("split", |a| on_plain(a, split)),
    ("splitList", |a| on_plain(a, split_list)),
    ("splitn", |a| on_plain(a, splitn)),
    ("squote", |a| Ok(squote(a))),
    ("substr", |a| on_plain(a, substr)),
    ("swapcase", |a| on_plain(a, |a| map("swapcase", a, swap_case))),
    ("title", |a| on_plain(a, |a| map("title", a, title))),
    ("toString", |a| Ok(printed(&exactly::<1>("toString", a)?[0]).into())),
    ("toStrings", |a| Ok(strings(list(&exactly::<1>("toStrings", a)?[0])?.iter().map(printed)))),
    ("trim", |a| on_plain(a, |a| map("trim", a, |text| text.trim().to_owned()))),
    ("trimAll", |a| on_plain(a, trim_all)),
    ("trimPrefix", |a| on_plain(a, |a| cut("trimPrefix", a, |sub, text| text.strip_prefix(sub)))),
    ("trimSuffix", |a| on_plain(a, |a| cut("trimSuffix", a, |sub, text| text.strip_suffix(sub)))),
    ("trimall", |a| on_plain(a, trim_all)),
    ("trunc", |a| on_plain(a, trunc)),
    ("untitle", |a| on_plain(a, |a| map("untitle", a, untitle))),
    ("upper", |a| on_plain(a, |a| map("upper", a, str::to_uppercase))),
];

fn map(name: &str, arguments: &[TemplateValue], with: impl Fn(&str) -> String) -> FunctionResult {
    let [subject] = exactly(name, arguments)?;
    Ok(with(text(subject)?).into())
}

fn test(
    name: &str,
    arguments: &[TemplateValue],
    with: impl Fn(&str, &str) -> bool,
) -> FunctionResult {
    let [sub, subject] = exactly(name, arguments)?;
    Ok(with(text(sub)?, text(subject)?).into())
}

fn cut(
    name: &str,
    arguments: &[TemplateValue],
    with: impl for<'a> Fn(&str, &'a str) -> Option<&'a str>,
) -> FunctionResult {
    let [sub, subject] = exactly(name, arguments)?;
    let subject = text(subject)?;
    Ok(with(text(sub)?, subject).unwrap_or(subject).into())
}

fn abbrev(arguments: &[TemplateValue]) -> FunctionResult {
    let [width, subject] = exactly("abbrev", arguments)?;
    Ok(abbreviate(text(subject)?, 0, whole(width)).into())
}

fn abbrev_both(arguments: &[TemplateValue]) -> FunctionResult {
    let [left, right, subject] = exactly("abbrevboth", arguments)?;
    let (left, right, subject) = (whole(left), whole(right), text(subject)?);
    if right < 4 || (left > 0 && right < 7) {
        return Ok(subject.into());
    }
    Ok(abbreviate(subject, left, right).into())
}

/// Abbreviates a text, with `...` for the parts before the offset and after the width.
fn abbreviate(subject: &str, offset: i64, width: i64) -> String {
    let length = i64::try_from(subject.len()).unwrap_or(i64::MAX);
    if width < 4 || length <= width {
        return subject.to_owned();
    }
    let offset = offset.min(length).min(length - (width - 3));
    if offset <= 4 {
        return format!("{}...", piece(subject, 0, width - 3));
    }
    if offset + width - 3 < length {
        return format!("...{}", abbreviate(piece(subject, offset, length), 0, width - 3));
    }
    format!("...{}", piece(subject, length - (width - 3), length))
}

fn cat(arguments: &[TemplateValue]) -> TemplateValue {
    let there = arguments.iter().filter(|value| !is_nothing(value));
    there.map(printed).collect::<Vec<_>>().join(" ").into()
}

fn initials(subject: &str) -> String {
    subject.split_whitespace().filter_map(|word| word.chars().next()).collect()
}

fn join(arguments: &[TemplateValue]) -> FunctionResult {
    let [separator, items] = exactly("join", arguments)?;
    let items = match items {
        TemplateValue::Array(items) => {
            items.iter().filter(|item| !is_nothing(item)).map(printed).collect()
        }
        TemplateValue::Nil | TemplateValue::NoValue => Vec::new(),
        one => vec![printed(one)],
    };
    let separator = text(separator)?;
    charge_for(items.len(), separator.len())?;
    Ok(items.join(separator).into())
}

fn nindent(arguments: &[TemplateValue]) -> FunctionResult {
    let [spaces, subject] = exactly("nindent", arguments)?;
    indented("nindent", spaces, &format!("\n{}", text(subject)?))
}

/// Indents every line but the first by this many spaces.
pub(super) fn indented(name: &str, spaces: &TemplateValue, subject: &str) -> FunctionResult {
    let spaces = count(name, spaces)?;
    charge_for(subject.matches('\n').count(), spaces)?;
    Ok(subject.replace('\n', &format!("\n{}", " ".repeat(spaces))).into())
}

fn plural(arguments: &[TemplateValue]) -> FunctionResult {
    let [one, many, number] = exactly("plural", arguments)?;
    Ok(if whole(number) == 1 { one.clone() } else { many.clone() })
}

fn quote(arguments: &[TemplateValue]) -> TemplateValue {
    let there = arguments.iter().filter(|value| !is_nothing(value));
    there.map(|value| quoted(&printed(value))).collect::<Vec<_>>().join(" ").into()
}

/// Returns a Go string literal that is also valid in YAML.
fn quoted(subject: &str) -> String {
    if type_tag::problem(subject).is_some() {
        // Escapes would hide the struct from the check of the rendered text.
        return subject.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in subject.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if escape::is_unprintable(c) => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

fn squote(arguments: &[TemplateValue]) -> TemplateValue {
    let there = arguments.iter().filter(|value| !is_nothing(value));
    there.map(|value| format!("'{}'", printed(value))).collect::<Vec<_>>().join(" ").into()
}

fn repeat(arguments: &[TemplateValue]) -> FunctionResult {
    let [times, subject] = exactly("repeat", arguments)?;
    let (times, subject) = (count("repeat", times)?, text(subject)?);
    count("repeat", &TemplateValue::from(times.saturating_mul(subject.len())))?;
    charge_for(times, subject.len())?;
    Ok(subject.repeat(times).into())
}

fn replace(arguments: &[TemplateValue]) -> FunctionResult {
    let [old, new, subject] = exactly("replace", arguments)?;
    let (old, new, subject) = (text(old)?, text(new)?, text(subject)?);
    charge_for(subject.matches(old).count(), new.len())?;
    Ok(subject.replace(old, new).into())
}

fn sort_alpha(arguments: &[TemplateValue]) -> FunctionResult {
    let [items] = exactly("sortAlpha", arguments)?;
    let items = list(items)?.iter().filter(|item| !is_nothing(item));
    let mut items: Vec<_> = items.map(printed).collect();
    items.sort();
    Ok(strings(items))
}

fn split(arguments: &[TemplateValue]) -> FunctionResult {
    let [separator, subject] = exactly("split", arguments)?;
    Ok(numbered(pieces(text(separator)?, text(subject)?, usize::MAX)?))
}

fn split_list(arguments: &[TemplateValue]) -> FunctionResult {
    let [separator, subject] = exactly("splitList", arguments)?;
    Ok(strings(pieces(text(separator)?, text(subject)?, usize::MAX)?))
}

fn splitn(arguments: &[TemplateValue]) -> FunctionResult {
    let [separator, most, subject] = exactly("splitn", arguments)?;
    let most = usize::try_from(whole(most)).unwrap_or(usize::MAX);
    Ok(numbered(pieces(text(separator)?, text(subject)?, most)?))
}

/// Splits a text; an empty separator splits it into characters.
fn pieces<'a>(
    separator: &str,
    subject: &'a str,
    most: usize,
) -> Result<Vec<&'a str>, gtmpl_ng::FuncError> {
    charge_for(subject.matches(separator).count().min(most), ITEM)?;
    if !separator.is_empty() {
        return Ok(subject.splitn(most, separator).collect());
    }
    let mut pieces = Vec::new();
    let mut rest = subject;
    while let Some(c) = rest.chars().next() {
        let end = if pieces.len() + 1 < most { c.len_utf8() } else { rest.len() };
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    Ok(pieces)
}

fn numbered(pieces: Vec<&str>) -> TemplateValue {
    let pieces = pieces.into_iter().enumerate();
    TemplateValue::Map(pieces.map(|(number, piece)| (format!("_{number}"), piece.into())).collect())
}

fn substr(arguments: &[TemplateValue]) -> FunctionResult {
    let [start, end, subject] = exactly("substr", arguments)?;
    let subject = text(subject)?;
    let length = i64::try_from(subject.len()).unwrap_or(i64::MAX);
    let (start, end) = (whole(start).max(0), whole(end));
    let end = if end < 0 || end > length { length } else { end };
    if start > end {
        return Err(error(format!("substr: {start} is behind {end}")));
    }
    Ok(piece(subject, start, end).into())
}

fn swap_case(subject: &str) -> String {
    subject.chars().map(|c| if c.is_uppercase() { lower(c) } else { upper(c) }).collect()
}

fn title(subject: &str) -> String {
    let mut before = ' ';
    let titled = subject.chars().map(|c| {
        // In Go, every other ASCII character ends a word, even an apostrophe.
        let ends = if before.is_ascii() {
            !before.is_ascii_alphanumeric() && before != '_'
        } else {
            before.is_whitespace()
        };
        before = c;
        if ends { upper(c) } else { c }
    });
    titled.collect()
}

fn untitle(subject: &str) -> String {
    let mut before = ' ';
    let lowered = subject.chars().map(|c| {
        let first = before.is_whitespace();
        before = c;
        if first { lower(c) } else { c }
    });
    lowered.collect()
}

fn trim_all(arguments: &[TemplateValue]) -> FunctionResult {
    let [set, subject] = exactly("trimAll", arguments)?;
    let (set, subject) = (text(set)?, text(subject)?);
    // Each character is searched in the set.
    charge_for(subject.len(), set.len() / 16)?;
    Ok(subject.trim_matches(|c| set.contains(c)).into())
}

fn trunc(arguments: &[TemplateValue]) -> FunctionResult {
    let ([width, subject], _) = at_least("trunc", arguments)?;
    let subject = text(subject)?;
    let (width, length) = (whole(width), i64::try_from(subject.len()).unwrap_or(i64::MAX));
    Ok(match width {
        width if width < 0 && length + width > 0 => piece(subject, length + width, length),
        width if width >= 0 && length > width => piece(subject, 0, width),
        _ => subject,
    }
    .into())
}

/// Returns a range of bytes, without partial characters at either end.
fn piece(subject: &str, from: i64, to: i64) -> &str {
    let place = |at: i64, step: isize| {
        let mut at = usize::try_from(at).unwrap_or_default().min(subject.len());
        while !subject.is_char_boundary(at) {
            at = at.saturating_add_signed(step);
        }
        at
    };
    let (from, to) = (place(from, 1), place(to, -1));
    subject.get(from..to).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
        check(&[
            ("trunc 5 `hello world`", "hello"),
            ("trunc -5 `hello world`", "world"),
            ("trunc 63 `a`", "a"),
            ("abbrev 5 `hello world`", "he..."),
            ("abbrevboth 5 10 `1234 5678 9123`", "...5678..."),
            ("trim `  hello  `", "hello"),
            ("trimAll `$` `$5.00`", "5.00"),
            ("trimAll `-_.` `--a.`", "a"),
            ("trimSuffix `-` `hello-`", "hello"),
            ("trimPrefix `-` `-hello`", "hello"),
            ("title `hello world`", "Hello World"),
            ("title `don't a_b`", "Don'T A_b"),
            ("title `ßa`", "ßa"),
            ("(splitn `` 2 `abc`)._1", "bc"),
            ("sortAlpha (list `b` nil `a`)", "[a b]"),
            ("untitle `Hello World`", "hello world"),
            ("substr 0 5 `hello world`", "hello"),
            ("substr 6 -1 `hello world`", "world"),
            ("repeat 3 `ho`", "hohoho"),
            ("nospace `hello w o r l d`", "helloworld"),
            ("initials `First Try`", "FT"),
            ("swapcase `aB`", "Ab"),
            ("contains `cat` `catch`", "true"),
            ("hasPrefix `cat` `catch`", "true"),
            ("quote `a\"b` 1 nil", "\"a\\\"b\" \"1\""),
            ("squote `a` 1", "'a' '1'"),
            ("cat `hello` `beautiful` nil `world`", "hello beautiful world"),
            ("nindent 2 `a\nb`", "\n  a\n  b"),
            ("replace ` ` `-` `I Am Henry VIII`", "I-Am-Henry-VIII"),
            ("plural `one anchovy` `many anchovies` 1", "one anchovy"),
            ("plural `one anchovy` `many anchovies` 0", "many anchovies"),
            ("(split `$` `foo$bar$baz`)._1", "bar"),
            ("splitList `,` `a,b,c` | join `-`", "a-b-c"),
            ("splitList `,` `` | len", "1"),
            ("(splitn `$` 2 `foo$bar$baz`)._1", "bar$baz"),
            ("sortAlpha (list `b` `a` 3) | join ` `", "3 a b"),
            ("join `-` (list 1 2)", "1-2"),
            ("repeat 10000000 `x`", "error: repeat: 10000000 is not between 0 and 1048576"),
            ("upper 1", "error: the number 1 where a string is expected"),
        ]);
    }

    #[test]
    fn text_is_cut_at_character_boundaries() {
        check(&[("trunc 2 `aü`", "a"), ("trunc -1 `aü`", ""), ("substr 1 2 `üa`", "")]);
    }
}
