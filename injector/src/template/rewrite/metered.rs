//! Rewriting of a template to charge for work in the engine, to grow lists in place, and to replace
//! `else with`, which the engine does not support.
//!
//! The engine copies a value on every read. Functions charge for their arguments, and the size of
//! the output is limited. Every other read becomes an argument of [`READ`]. The body of a loop or a
//! definition begins with a [`STEP`], which charges for the code in it.
//!
//! `$x = append $x …` copies the whole list, so in a loop its cost is quadratic. Here it becomes a
//! call of [`APPEND`], which leaves in the variable the index of a list that grows in place. All
//! reads of such a variable go through [`READ`], which returns the list. So no other value holds
//! the index.

use std::collections::HashSet;

use super::edits::{Edits, Rewritten};
use super::tokens::{Token, TokenKind, actions};

/// Function that returns its argument and charges for it.
pub(in crate::template) const READ: &str = "_read";
/// Function that returns an empty string and charges this many units.
pub(in crate::template) const STEP: &str = "_step";
/// Function that appends to the list of a variable.
pub(in crate::template) const APPEND: &str = "_append";

/// Returns the template with these calls.
pub(in crate::template) fn written(template: &str) -> Rewritten {
    let actions = actions(template);
    let appended = actions.iter().filter_map(|action| appended(action)).collect();
    let mut metering =
        Metering { edits: Edits::default(), appended, variables: 0, blocks: Vec::new() };
    for action in &actions {
        if let [_, inner @ .., close] = &action[..] {
            metering.action(inner, close);
        }
    }
    metering.edits.apply(template)
}

/// Returns the variable of an action that only appends to it.
fn appended<'a>(action: &[Token<'a>]) -> Option<&'a str> {
    let [_, variable, assign, append, list, rest @ ..] = action else { return None };
    let is = |token: &Token<'_>, kind| token.kind == kind;
    let mut depth = 0_usize;
    let piped = rest.iter().any(|token| {
        match token.kind {
            TokenKind::OpenParenthesis => depth += 1,
            TokenKind::CloseParenthesis => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is(token, TokenKind::Pipe)
    });
    let whole = is(variable, TokenKind::Variable) && !variable.text.contains('.');
    (whole
        && !piped
        && variable.text != "$"
        && variable.text == list.text
        && assign.text == "="
        && APPENDS.contains(&append.text))
    .then_some(variable.text)
}

/// State of the rewriting.
struct Metering<'a> {
    edits: Edits,
    appended: HashSet<&'a str>,
    /// Number of declared variables; the engine searches all of them on each read.
    variables: usize,
    blocks: Vec<Block<'a>>,
}

/// An open block.
struct Block<'a> {
    keyword: &'a str,
    /// Offset of the block's body; `close` is the delimiter that ends the opening action.
    body: usize,
    close: &'a str,
    /// Bytes of code in the block.
    code: usize,
    /// Number of `else with` in the block; the engine gets a nested block for each.
    with_else: usize,
}

impl<'a> Metering<'a> {
    fn action(&mut self, action: &[Token<'a>], close: &Token<'a>) {
        let Some(first) = action.first() else { return };
        // A nested block that does not charge for itself counts towards the enclosing one.
        let repeated = self.blocks.iter_mut().rev().find(|block| REPEATED.contains(&block.keyword));
        let reads = action.iter().filter(|token| token.kind == TokenKind::Variable).count();
        if let Some(block) = repeated
            && first.text != "end"
        {
            block.code += close.end() - first.at + reads * self.variables / 2;
        }
        self.variables += action.iter().filter(|token| token.text == ":=").count();
        match (first.text, action.get(1)) {
            ("end", _) => self.end(first),
            ("else", Some(second)) => {
                let block = self.blocks.last_mut();
                if let Some(block) = block.filter(|block| block.keyword == second.text)
                    && second.text == "with"
                {
                    block.with_else += 1;
                    self.edits.replace(first.end()..second.at, "}}{{");
                }
                self.pipeline(&action[2..], false);
            }
            ("if" | "with" | "range" | "define" | "block", _) => {
                self.blocks.push(Block {
                    keyword: first.text,
                    body: close.end(),
                    close: close.text,
                    code: 0,
                    with_else: 0,
                });
                self.pipeline(&action[1..], false);
            }
            ("template", _) => self.pipeline(&action[1..], false),
            _ if appended(&[&[*first], action].concat()).is_some() => {
                self.edits.replace(action[2].at..action[2].end(), APPEND);
                self.pipeline(&[&action[2..3], &action[4..]].concat(), true);
            }
            _ => {
                let printed = !action.iter().any(|token| token.kind == TokenKind::Assign);
                self.pipeline(action, printed);
            }
        }
    }

    fn end(&mut self, end: &Token<'a>) {
        let Some(block) = self.blocks.pop() else { return };
        self.edits.insert(end.end(), "}}{{end".repeat(block.with_else));
        if REPEATED.contains(&block.keyword) && block.code > 0 {
            // Keeps the trimming of the text that follows.
            let trim = if block.close.starts_with('-') { " -" } else { "" };
            self.edits.insert(block.body, format!("{{{{{STEP} {}{trim}}}}}", block.code));
        }
    }

    /// Rewrites the reads in the commands of a pipeline. `printed` is true if the result is
    /// printed, and false if it goes where no function charges for it.
    fn pipeline(&mut self, tokens: &[Token<'a>], printed: bool) {
        let mut commands = vec![Command::default()];
        let mut uncharged = 0;
        let mut before: Option<&Token<'_>> = None;
        for (place, token) in tokens.iter().enumerate() {
            let next = tokens.get(place + 1);
            let is_inner = commands.len() > 1;
            let Some(command) = commands.last_mut() else { return };
            let of_value = before.is_some_and(|before| {
                before.end() == token.at
                    && matches!(before.kind, TokenKind::CloseParenthesis | TokenKind::Word)
            });
            match token.kind {
                TokenKind::Pipe | TokenKind::Assign | TokenKind::Comma => {
                    *command = Command::default();
                }
                TokenKind::OpenParenthesis => {
                    command.operands += 1;
                    commands.push(Command::default());
                }
                TokenKind::CloseParenthesis => {
                    commands.pop();
                    if commands.is_empty() {
                        return;
                    }
                }
                TokenKind::Field if of_value => {}
                TokenKind::Field | TokenKind::Variable => {
                    if next.is_some_and(|next| is_declared(token, next)) {
                        before = Some(token);
                        continue;
                    }
                    command.operands += 1;
                    let charged = if command.operands > 1 {
                        command.charges
                    } else {
                        match next {
                            None => printed && !is_inner && before.is_none(),
                            Some(next) if next.kind == TokenKind::Pipe => {
                                tokens.get(place + 2).is_some_and(charges)
                            }
                            Some(_) => false,
                        }
                    };
                    if charged {
                        uncharged += 1;
                    }
                    self.read(token, !charged || uncharged > MOST_ARGUMENTS);
                }
                TokenKind::Word => {
                    command.charges |= command.operands == 0 && charges(token);
                    command.operands += 1;
                }
                TokenKind::Literal | TokenKind::Open | TokenKind::Close => command.operands += 1,
            }
            before = Some(token);
        }
    }

    /// Wraps a read in [`READ`] if it must be charged, and always if the variable may hold the
    /// index of a list that grows in place.
    fn read(&mut self, read: &Token<'a>, charge: bool) {
        let variable = read.text.split('.').next().unwrap_or_default();
        let end = if self.appended.contains(variable) {
            read.at + variable.len()
        } else if charge {
            read.end()
        } else {
            return;
        };
        self.edits.insert(read.at, format!("({READ} "));
        self.edits.insert(end, ")");
    }
}

/// State of one command of a pipeline.
#[derive(Default)]
struct Command {
    operands: usize,
    /// True if the command calls a function that charges for its arguments.
    charges: bool,
}

/// True if a token is a variable in a declaration or assignment.
fn is_declared(token: &Token<'_>, next: &Token<'_>) -> bool {
    token.kind == TokenKind::Variable && matches!(next.kind, TokenKind::Assign | TokenKind::Comma)
}

/// True if a token names a function that charges for its arguments.
fn charges(token: &Token<'_>) -> bool {
    let is_name = token.text.starts_with(|c: char| c == '_' || c.is_alphabetic());
    token.kind == TokenKind::Word && is_name && !NO_CALLS.contains(&token.text)
}

/// Functions that append to a list.
const APPENDS: [&str; 4] = ["append", "mustAppend", "mustPush", "push"];

/// Blocks whose body may run more than once.
const REPEATED: [&str; 3] = ["block", "define", "range"];

/// Words that are not functions, and functions that the engine does not call with all arguments.
const NO_CALLS: [&str; 5] = ["and", "false", "nil", "or", "true"];

/// Most reads of one action that wait for a function to charge for them; until then, their copies
/// occupy memory.
const MOST_ARGUMENTS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_reads_outside_functions_are_charged() {
        for (template, expected) in [
            ("{{ if .a.b }}{{ end }}", "{{ if (_read .a.b) }}{{ end }}"),
            ("{{- with $x := .a -}}", "{{- with $x := (_read .a) -}}"),
            ("{{ if and .a (f .b) (.c) }}", "{{ if and (_read .a) (f .b) ((_read .c)) }}"),
            ("{{ else if or $.a }}", "{{ else if or (_read $.a) }}"),
            ("{{ $x = . }}", "{{ $x = (_read .) }}"),
            ("{{ $x := .a | f }}{{ $x | and }}", "{{ $x := .a | f }}{{ (_read $x) | and }}"),
            ("{{ template `t` . }}", "{{ template `t` (_read .) }}"),
            ("{{ (.a).b }}", "{{ ((_read .a)).b }}"),
            ("{{ f .a .b .c .d .e $.f }}", "{{ f .a .b .c .d (_read .e) (_read $.f) }}"),
        ] {
            assert_eq!(written(template).text, expected);
        }
        for same in [
            "{{ .a }}{{ $x.b }}{{ f .a $x | g . }}{{ .a | f }}{{ f (g .a).b }}{{ if f .a }}",
            "{{ $x := 1 }}.a {{/* if .a */}}{{ if eq 1.5 -1 }}{{ `if .a` }}{{ end }}",
            "{{ end }}{{ else }}{{ }}{{ ) }}{{ .a",
        ] {
            assert_eq!(written(same).text, same);
        }
    }

    #[test]
    fn repeatable_bodies_begin_with_a_step() {
        for (template, expected) in [
            (
                "{{ range f -}} a{{ if 1 }}{{ range 2 }}b{{ end }}{{ end }}{{ end }}",
                "{{ range f -}}{{_step 17 -}} a{{ if 1 }}{{ range 2 }}b{{ end }}{{ end }}{{ end }}",
            ),
            (
                "{{ define `d` }}{{ f }}{{ end }}{{ define `e` }} {{ end }}",
                "{{ define `d` }}{{_step 4}}{{ f }}{{ end }}{{ define `e` }} {{ end }}",
            ),
        ] {
            assert_eq!(written(template).text, expected);
        }
    }

    #[test]
    fn append_to_a_variable_happens_in_place() {
        for (template, expected) in [
            (
                "{{ $x = append $x .a }}{{ len $x }}{{ $x.y }}",
                "{{ $x = _append $x .a }}{{ len (_read $x) }}{{ (_read $x).y }}",
            ),
            ("{{- $x = push $x (len $x) -}}", "{{- $x = _append $x (len (_read $x)) -}}"),
            (
                "{{ $x = append $x 1 }}{{ $x := list }}{{ range $x }}{{ end }}",
                "{{ $x = _append $x 1 }}{{ $x := list }}{{ range (_read $x) }}{{ end }}",
            ),
        ] {
            assert_eq!(written(template).text, expected);
        }
        for same in [
            "{{ $x = append $x 1 | uniq }}",
            "{{ $y = append $x 1 }}",
            "{{ $x := append $x 1 }}",
            "{{ $x.y = append $x.y 1 }}",
        ] {
            assert_eq!(written(same).text, same);
        }
    }

    #[test]
    fn else_with_becomes_a_nested_with() {
        for (template, expected) in [
            (
                "{{ with f }}1{{- else with g -}}2{{ else  with h }}3{{ else }}4{{- end -}}5",
                "{{ with f }}1{{- else}}{{with g -}}2{{ else}}{{with h }}3{{ else }}4{{- end}}{{end}}{{end -}}5",
            ),
            (
                "{{ with f }}{{ if 1 }}{{ end }}{{ else with g }}{{ end }}",
                "{{ with f }}{{ if 1 }}{{ end }}{{ else}}{{with g }}{{ end}}{{end }}",
            ),
        ] {
            assert_eq!(written(template).text, expected);
        }
        // As in Go, `if` and `range` have no `else with`.
        let same = "{{ if f }}{{ else with g }}{{ end }}";
        assert_eq!(written(same).text, same);
    }
}
