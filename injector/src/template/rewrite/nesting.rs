//! Limits on nesting and variables in a template. The engine's parser recurses once per level of
//! nesting, and a stack overflow aborts the process. On each read of a variable, the engine
//! searches all of them.

use super::actions::{Piece, pieces};

/// Returns the first position with more nesting or variables than any template needs: line and
/// column, from 1, and the problem.
pub(in crate::template) fn too_deep(template: &str) -> Option<((usize, usize), String)> {
    let mut parentheses = 0_usize;
    // Number of `else if` and `else with` in each open block.
    let mut blocks = vec![0_usize];
    let mut before = 0;
    let mut variables = 0;
    for piece in pieces(template) {
        let (Piece::Text(text) | Piece::Code(text) | Piece::Quoted(text) | Piece::Raw(text)) =
            piece;
        if let Piece::Code(code) = piece {
            if code.starts_with("{{") {
                parentheses = 0;
                follow(code, &mut blocks);
                if blocks.last().is_some_and(|chain| *chain > MOST) {
                    let problem = format!("more than {MOST} times `else if` or `else with`");
                    return Some((place(template, before), problem));
                }
            }
            for (at, _) in code.match_indices(":=") {
                variables += 1;
                if variables > MOST_VARIABLES {
                    let problem = format!("more than {MOST_VARIABLES} variables are declared");
                    return Some((place(template, before + at), problem));
                }
            }
            for (at, byte) in code.bytes().enumerate() {
                match byte {
                    b'(' => parentheses += 1,
                    b')' => parentheses = parentheses.saturating_sub(1),
                    _ => {}
                }
                if parentheses > MOST {
                    let problem = format!("more than {MOST} parentheses in each other");
                    return Some((place(template, before + at), problem));
                }
            }
        }
        before += text.len();
    }
    None
}

fn follow(action: &str, blocks: &mut Vec<usize>) {
    let code = action.trim_start_matches(['{', '-', ' ', '\n', '\r', '\t']);
    let mut words = code.split(|c: char| !c.is_ascii_alphanumeric());
    match (words.next(), words.find(|word| !word.is_empty())) {
        (Some("if" | "with" | "range" | "block" | "define"), _) => blocks.push(0),
        (Some("end"), _) if blocks.len() > 1 => {
            blocks.pop();
        }
        (Some("else"), Some("if" | "with")) => {
            if let Some(chain) = blocks.last_mut() {
                *chain += 1;
            }
        }
        _ => {}
    }
}

fn place(template: &str, at: usize) -> (usize, usize) {
    let before = &template[..at];
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

const MOST: usize = 100;

const MOST_VARIABLES: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excessive_constructs_are_found_with_their_position() {
        let nested =
            |depth: usize| format!("a\n{{{{ {}1{} }}}}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(too_deep(&nested(MOST)), None);
        let found = too_deep(&nested(MOST + 1)).map(|(place, _)| place);
        assert_eq!(found, Some((2, 4 + MOST)));
        let quoted = format!("{{{{ print \"{0}\" `{0}` }}}}", "(".repeat(MOST + 1));
        assert_eq!(too_deep(&quoted), None);
        let declared = |many: usize| "{{ $x := 1 }}".repeat(many);
        assert_eq!(too_deep(&declared(MOST_VARIABLES)), None);
        let found = too_deep(&declared(MOST_VARIABLES + 1)).map(|(place, _)| place);
        assert_eq!(found, Some((1, 13 * MOST_VARIABLES + 7)));
        let chain = |length: usize| {
            let others = "{{ else if 1 }}".repeat(length);
            format!("{{{{ if 1 }}}}{others}{{{{ end }}}}").repeat(3)
        };
        assert_eq!(too_deep(&chain(MOST)), None);
        assert!(too_deep(&chain(MOST + 1)).is_some_and(|(_, problem)| problem.contains("else if")));
    }
}
