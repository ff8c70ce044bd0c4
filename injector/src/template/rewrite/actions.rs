//! Lexical split of a Go template's actions into code and quoted strings.

/// Piece of a template; the concatenated pieces are the template.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::template) enum Piece<'a> {
    /// Text outside of actions, or a comment.
    Text(&'a str),
    /// Code of an action, including the braces.
    Code(&'a str),
    /// A string in double quotes or a rune in single quotes, including the quotes.
    Quoted(&'a str),
    /// A string in backticks, including the backticks.
    Raw(&'a str),
}

/// Returns the pieces of a template. An unterminated piece ends with the template.
pub(in crate::template) fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let (mut rest, mut inside) = (template, false);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if !inside {
            let action = rest.find(OPENING).unwrap_or(rest.len());
            if action > 0 {
                return Some(Piece::Text(cut(&mut rest, action)));
            }
            inside = true;
            if rest[OPENING.len()..]
                .trim_start_matches(['-', ' ', '\n', '\r', '\t'])
                .starts_with("/*")
            {
                let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
                return Some(Piece::Text(cut(&mut rest, end)));
            }
        }
        let length = match rest.as_bytes()[0] {
            b'`' => rest[1..].find('`').map_or(rest.len(), |end| end + 2),
            b'"' | b'\'' => quoted_length(rest),
            _ => {
                // Scans each byte of a long template only once.
                let stop = (0..rest.len()).find(|at| {
                    let rest = &rest.as_bytes()[*at..];
                    matches!(rest[0], b'"' | b'\'' | b'`') || rest.starts_with(CLOSING.as_bytes())
                });
                let closes = stop.filter(|stop| rest[*stop..].starts_with(CLOSING));
                inside = stop.is_some() && closes.is_none();
                let end = closes.map(|at| at + CLOSING.len()).or(stop).unwrap_or(rest.len());
                return Some(Piece::Code(cut(&mut rest, end)));
            }
        };
        let raw = rest.starts_with('`');
        let token = cut(&mut rest, length);
        Some(if raw { Piece::Raw(token) } else { Piece::Quoted(token) })
    })
}

fn cut<'a>(rest: &mut &'a str, length: usize) -> &'a str {
    let (piece, after) = rest.split_at(length);
    *rest = after;
    piece
}

fn quoted_length(token: &str) -> usize {
    let mut escaped = false;
    for (place, byte) in token.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            byte if byte == token.as_bytes()[0] => return place + 1,
            _ => {}
        }
    }
    token.len()
}

const OPENING: &str = "{{";
const CLOSING: &str = "}}";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Piece::{Code, Quoted, Raw, Text};
    use super::*;

    #[test]
    fn delimiters_in_quotes_are_ignored() {
        let of = |text| pieces(text).collect::<Vec<_>>();
        assert_eq!(
            of(r#"a "b {{- f "}}\"" `}}\` '}' -}} c {{/* "}} */}} `d"#),
            [
                Text("a \"b "),
                Code("{{- f "),
                Quoted(r#""}}\"""#),
                Code(" "),
                Raw(r"`}}\`"),
                Code(" "),
                Quoted("'}'"),
                Code(" -}}"),
                Text(" c "),
                Text("{{/* \"}} */"),
                Code("}}"),
                Text(" `d"),
            ]
        );
        assert_eq!(of("{{ `a"), [Code("{{ "), Raw("`a")]);
        assert_eq!(of(r#"{{ "\"#), [Code("{{ "), Quoted("\"\\")]);
    }

    proptest! {
        #[test]
        fn split_actions_concatenate_to_the_text(text in "([a{}\"'`\\\\*/ -]|\\{\\{|\\}\\}|é){0,40}") {
            let whole: String = pieces(&text)
                .map(|(Text(piece) | Code(piece) | Quoted(piece) | Raw(piece))| piece)
                .collect();
            prop_assert_eq!(whole, text);
        }
    }
}
