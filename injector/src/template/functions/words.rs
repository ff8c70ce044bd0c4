//! sprig's functions that change the case of words and wrap lines.

use std::sync::LazyLock;

use regex::Regex;

use super::arguments::{exactly, text, whole};
use super::{FunctionResult, Table, on_plain, table};
use crate::template::rendering::charge_for;

pub(super) const TABLE: Table = table![
    ("camelcase", |a| on_plain(a, |a| joined("camelcase", a, camel_case))),
    ("kebabcase", |a| on_plain(a, |a| joined("kebabcase", a, |text| lower_case(text, '-')))),
    ("snakecase", |a| on_plain(a, |a| joined("snakecase", a, |text| lower_case(text, '_')))),
    ("wrap", |a| {
        on_plain(a, |a| {
            let [width, subject] = exactly("wrap", a)?;
            Ok(wrapped(text(subject)?, whole(width), "\n", false).into())
        })
    }),
    ("wrapWith", |a| {
        on_plain(a, |a| {
            let [width, separator, subject] = exactly("wrapWith", a)?;
            let separator = Some(text(separator)?).filter(|separator| !separator.is_empty());
            let (width, subject) = (whole(width), text(subject)?);
            let lines = subject.len() / usize::try_from(width).unwrap_or_default().max(1);
            charge_for(lines, separator.map_or(1, str::len))?;
            Ok(wrapped(subject, width, separator.unwrap_or("\n"), true).into())
        })
    }),
];

fn joined(name: &str, arguments: &[gtmpl_ng::Value], with: fn(&str) -> String) -> FunctionResult {
    let [subject] = exactly(name, arguments)?;
    let subject = text(subject)?;
    // Looks up the class of each character.
    charge_for(subject.len(), 8)?;
    Ok(with(subject).into())
}

/// Capitalises every word. Keeps leading connectors, and all but the last of several in a row.
fn camel_case(subject: &str) -> String {
    let rest = subject.trim_start_matches(is_connector);
    let mut written = subject[..subject.len() - rest.len()].to_owned();
    let mut characters = rest.chars();
    let Some(first) = characters.next() else {
        // As in sprig's library, a text of only connectors gets its last one twice.
        written.extend(subject.chars().next_back());
        return written;
    };
    // In a word that begins with several capitals, all but the first become lower case.
    let mut capitals = first.is_uppercase();
    let mut before = upper(first);
    for c in characters {
        if is_connector(before) {
            if is_connector(c) {
                written.push(before);
                before = c;
            } else {
                capitals = c.is_uppercase();
                before = upper(c);
            }
            continue;
        }
        written.push(before);
        capitals &= c.is_uppercase();
        before = if capitals { lower(c) } else { c };
    }
    written.push(before);
    written
}

/// Converts to lower case, with a connector between words. A word begins with a capital or a
/// number.
fn lower_case(subject: &str, connector: char) -> String {
    let mut words = Words(subject);
    let mut written = String::with_capacity(subject.len() + 4);
    let mut word = words.next();
    while let (Some(current), false) = (word, words.0.is_empty()) {
        put(&mut written, current, connector);
        word = words.next();
        match (current.0, word) {
            (CharacterKind::Number, _) => {
                while let Some(more) = continues(word) {
                    put(&mut written, more, connector);
                    word = words.next();
                }
                if is_apart(word) {
                    written.push(connector);
                }
            }
            (CharacterKind::Connector | CharacterKind::Punctuation, _) => {}
            (_, Some(number @ (CharacterKind::Number, _))) if !words.0.is_empty() => {
                word = words.next();
                if matches!(word, Some((CharacterKind::Lower, _))) {
                    written.push(connector);
                    put(&mut written, number, connector);
                    while let Some(more) = continues(word) {
                        put(&mut written, more, connector);
                        word = words.next();
                    }
                } else {
                    // A trailing number belongs to the word before it.
                    put(&mut written, number, connector);
                }
                if is_apart(word) {
                    written.push(connector);
                }
            }
            (_, Some((CharacterKind::Number, _))) => {}
            (_, next) => {
                if is_apart(next) {
                    written.push(connector);
                }
            }
        }
    }
    if let Some(last) = word {
        put(&mut written, last, connector);
    }
    written
}

fn put(written: &mut String, (kind, word): Word<'_>, connector: char) {
    match kind {
        CharacterKind::Upper => written.extend(word.chars().map(lower)),
        CharacterKind::Connector => written.extend(word.chars().map(|_| connector)),
        _ => written.push_str(word),
    }
}

/// True if a connector precedes the word.
fn is_apart(word: Option<Word<'_>>) -> bool {
    word.is_some_and(|(kind, _)| {
        !matches!(kind, CharacterKind::Connector | CharacterKind::Punctuation)
    })
}

/// Returns the word if it can continue a number.
fn continues(word: Option<Word<'_>>) -> Option<Word<'_>> {
    word.filter(|(kind, _)| matches!(kind, CharacterKind::Lower | CharacterKind::Number))
}

type Word<'a> = (CharacterKind, &'a str);

/// Remaining text of an iteration over words.
struct Words<'a>(&'a str);

#[derive(Clone, Copy, Eq, PartialEq)]
enum CharacterKind {
    Connector,
    Lower,
    Number,
    Other,
    Punctuation,
    /// Capitals, or one capital and the lower-case letters that follow it.
    Upper,
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let kind = character_kind(self.0.chars().next()?);
        let end = match kind {
            CharacterKind::Upper => self.end_of_capitals(),
            // After other punctuation, a hyphen or an underscore is no connector.
            CharacterKind::Punctuation => self.end(0, is_punctuation),
            kind => self.end(0, |c| character_kind(c) == kind),
        };
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        Some((kind, word))
    }
}

impl Words<'_> {
    /// Returns the position of the first character, at or after `from`, that does not belong to the
    /// word.
    fn end(&self, from: usize, belongs: impl Fn(char) -> bool) -> usize {
        let rest = &self.0[from..];
        from + rest.find(|c| !belongs(c)).unwrap_or(rest.len())
    }

    fn end_of_capitals(&self) -> usize {
        let end = self.end(0, |c| character_kind(c) == CharacterKind::Upper);
        let capitals = &self.0[..end];
        let small_follows =
            self.0[end..].starts_with(|c| character_kind(c) == CharacterKind::Lower);
        match capitals.char_indices().next_back() {
            Some((0, _)) => self.end(end, |c| character_kind(c) == CharacterKind::Lower),
            // The last capital begins the next word: `HTTP` and `Server`.
            Some((last, _)) if small_follows => last,
            _ => end,
        }
    }
}

fn character_kind(c: char) -> CharacterKind {
    match c {
        c if is_connector(c) => CharacterKind::Connector,
        c if c.is_uppercase() => CharacterKind::Upper,
        c if c.is_alphabetic() && !is_han(c) => CharacterKind::Lower,
        c if c.is_numeric() => CharacterKind::Number,
        c if is_punctuation(c) => CharacterKind::Punctuation,
        _ => CharacterKind::Other,
    }
}

fn is_punctuation(c: char) -> bool {
    static PUNCTUATION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{P}").ok());
    let mut bytes = [0; 4];
    PUNCTUATION.as_ref().is_some_and(|pattern| pattern.is_match(c.encode_utf8(&mut bytes)))
}

/// True for Han characters, which have no lower case.
fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4D85}' | '\u{4E00}'..='\u{9FCC}' | '\u{20000}'..='\u{2B81D}')
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// Returns the upper-case character; as in Go, a letter without a single one stays.
pub(super) fn upper(c: char) -> char {
    let mut changed = c.to_uppercase();
    changed.next().filter(|_| changed.next().is_none()).unwrap_or(c)
}

pub(super) fn lower(c: char) -> char {
    let mut changed = c.to_lowercase();
    changed.next().filter(|_| changed.next().is_none()).unwrap_or(c)
}

/// Wraps text into lines of at most `width` bytes at blanks. With `cut_words`, also splits longer
/// words.
fn wrapped(subject: &str, width: i64, separator: &str, cut_words: bool) -> String {
    let width = usize::try_from(width).unwrap_or_default().max(1);
    let subject = subject.as_bytes();
    let mut lines = Vec::with_capacity(subject.len());
    let mut rest = subject;
    while rest.len() > width {
        if rest[0] == b' ' {
            rest = &rest[1..];
            continue;
        }
        let before = rest[..=width].iter().rposition(|byte| *byte == b' ');
        let after = || rest[width..].iter().position(|byte| *byte == b' ').map(|at| width + at);
        let (line, next) = match before {
            Some(blank) => (blank, blank + 1),
            None if cut_words => (width, width),
            None => match after() {
                Some(blank) => (blank, blank + 1),
                None => break,
            },
        };
        lines.extend_from_slice(&rest[..line]);
        lines.extend_from_slice(separator.as_bytes());
        rest = &rest[next..];
    }
    lines.extend_from_slice(rest);
    String::from_utf8_lossy(&lines).into_owned()
}

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
        check(&[
            ("camelcase `http_server`", "HttpServer"),
            ("camelcase `GOLANG_IS_GREAT`", "GolangIsGreat"),
            ("camelcase `_complex__case_`", "_Complex_Case_"),
            ("camelcase `some words-here`", "SomeWordsHere"),
            ("camelcase ``", ""),
            ("camelcase `_-`", "_--"),
            ("snakecase `1232xx日本`", "1232xx_日本"),
            ("snakecase `FirstName`", "first_name"),
            ("snakecase `HTTPServer`", "http_server"),
            ("snakecase `NoHTTPS`", "no_https"),
            ("snakecase `GO PATH`", "go_path"),
            ("snakecase `http2xx`", "http_2xx"),
            ("snakecase `HTTP20xOK`", "http_20x_ok"),
            ("snakecase `Bld4Floor3rd`", "bld4_floor_3rd"),
            ("kebabcase `Duration2m3s`", "duration-2m3s"),
            ("kebabcase `GO_PATH`", "go-path"),
            ("kebabcase `a.B`", "a.b"),
            ("snakecase `a:-b`", "a:-b"),
            ("camelcase `a -_`", "A -_"),
            ("wrap 5 `hello beautiful world`", "hello\nbeautiful\nworld"),
            ("wrapWith 5 `,` `Hello World`", "Hello,World"),
            ("wrapWith 4 `,` `beautiful`", "beau,tifu,l"),
        ]);
    }
}
