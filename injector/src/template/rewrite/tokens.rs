//! Tokens of a template's actions.

use super::actions::{Piece, pieces};

/// Token of an action.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::template) struct Token<'a> {
    pub(in crate::template) kind: TokenKind,
    pub(in crate::template) text: &'a str,
    /// Offset of the token in the template.
    pub(in crate::template) at: usize,
}

impl Token<'_> {
    /// Returns the offset after the token.
    pub(in crate::template) fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// Type of a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::template) enum TokenKind {
    /// `{{` or `{{-`
    Open,
    /// `}}` or `-}}`
    Close,
    /// A keyword, the name of a function, a number or `true`.
    Word,
    /// `.`, or a chain of fields: `.a.b`.
    Field,
    /// A variable, with fields: `$x.a.b`.
    Variable,
    OpenParenthesis,
    CloseParenthesis,
    Pipe,
    /// `:=` or `=`
    Assign,
    Comma,
    /// A string, a rune, or a character that is invalid in an action.
    Literal,
}

/// Returns the actions of a template, each from opening to closing braces, without comments. Omits
/// unterminated actions.
pub(in crate::template) fn actions(template: &str) -> Vec<Vec<Token<'_>>> {
    let (mut actions, mut open) = (Vec::new(), None::<Vec<_>>);
    let mut at = 0;
    for piece in pieces(template) {
        let (Piece::Text(text) | Piece::Code(text) | Piece::Quoted(text) | Piece::Raw(text)) =
            piece;
        let tokens = match piece {
            Piece::Text(_) => Vec::new(),
            Piece::Code(_) => of_code(text, at),
            Piece::Quoted(_) | Piece::Raw(_) => vec![Token { kind: TokenKind::Literal, text, at }],
        };
        for token in tokens {
            if token.kind == TokenKind::Open {
                open = Some(Vec::new());
            }
            if let Some(action) = &mut open {
                action.push(token);
            }
            if token.kind == TokenKind::Close {
                actions.extend(open.take());
            }
        }
        at += text.len();
    }
    actions
}

fn of_code(code: &str, at: usize) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut here = 0;
    while let Some(first) = code[here..].chars().next() {
        let rest = &code[here..];
        let (kind, length) = match first {
            c if c.is_whitespace() => {
                here += c.len_utf8();
                continue;
            }
            '{' if rest.starts_with("{{- ") => (TokenKind::Open, 3),
            '{' if rest.starts_with("{{") => (TokenKind::Open, 2),
            '}' if rest.starts_with("}}") => (TokenKind::Close, 2),
            '-' if rest.starts_with("-}}") => (TokenKind::Close, 3),
            '(' => (TokenKind::OpenParenthesis, 1),
            ')' => (TokenKind::CloseParenthesis, 1),
            '|' => (TokenKind::Pipe, 1),
            ',' => (TokenKind::Comma, 1),
            '=' => (TokenKind::Assign, 1),
            ':' if rest.starts_with(":=") => (TokenKind::Assign, 2),
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                (TokenKind::Field, fields(rest))
            }
            '$' => {
                let name = 1 + name_length(&rest[1..]);
                let fields = if rest[name..].starts_with('.') { fields(&rest[name..]) } else { 0 };
                (TokenKind::Variable, name + fields)
            }
            c if c.is_ascii_digit() || "+-.".contains(c) => (TokenKind::Word, number_length(rest)),
            c if is_of_name(c) => (TokenKind::Word, name_length(rest)),
            c => (TokenKind::Literal, c.len_utf8()),
        };
        tokens.push(Token { kind, text: &rest[..length], at: at + here });
        here += length;
    }
    tokens
}

/// Returns the length of a chain of fields at the start of the text.
fn fields(text: &str) -> usize {
    let mut length = 1 + name_length(&text[1..]);
    while text[length..].starts_with('.') && name_length(&text[length + 1..]) > 0 {
        length += 1 + name_length(&text[length + 1..]);
    }
    length
}

fn name_length(text: &str) -> usize {
    text.find(|c| !is_of_name(c)).unwrap_or(text.len())
}

fn number_length(text: &str) -> usize {
    let mut before = ' ';
    let end = text.find(|c: char| {
        let sign = "+-".contains(c) && (before == ' ' || "eEpP".contains(before));
        before = c;
        !(sign || c == '.' || is_of_name(c))
    });
    end.unwrap_or(text.len()).max(1)
}

fn is_of_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::TokenKind::{
        Assign, Close, CloseParenthesis, Comma, Field, Literal, Open, OpenParenthesis, Pipe,
        Variable, Word,
    };
    use super::*;

    #[test]
    fn actions_are_split_into_tokens() {
        let template = r#"a {{- range $i, $c := .A.b | f -1 1e+5 .5 -}} b.c {{/* .c */}}{{ (g "}}" .).x $.y =. }}{{ x"#;
        let actions = actions(template);
        let shown = actions
            .iter()
            .map(|action| action.iter().map(|token| (token.kind, token.text)).collect::<Vec<_>>());
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                vec![
                    (Open, "{{-"),
                    (Word, "range"),
                    (Variable, "$i"),
                    (Comma, ","),
                    (Variable, "$c"),
                    (Assign, ":="),
                    (Field, ".A.b"),
                    (Pipe, "|"),
                    (Word, "f"),
                    (Word, "-1"),
                    (Word, "1e+5"),
                    (Word, ".5"),
                    (Close, "-}}"),
                ],
                vec![
                    (Open, "{{"),
                    (OpenParenthesis, "("),
                    (Word, "g"),
                    (Literal, "\"}}\""),
                    (Field, "."),
                    (CloseParenthesis, ")"),
                    (Field, ".x"),
                    (Variable, "$.y"),
                    (Assign, "="),
                    (Field, "."),
                    (Close, "}}"),
                ],
            ]
        );
        for token in actions.concat() {
            assert_eq!(&template[token.at..token.end()], token.text);
        }
    }
}
