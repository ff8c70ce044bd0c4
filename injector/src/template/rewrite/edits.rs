//! Edits of a template's text for the engine, and the mapping of positions back to the original.

use std::ops::Range;

/// Edits of a text.
#[derive(Default)]
pub(in crate::template) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    /// Replaces bytes of the text.
    pub(in crate::template) fn replace(&mut self, bytes: Range<usize>, with: impl Into<String>) {
        self.0.push((bytes, with.into()));
    }

    /// Inserts a piece before a byte of the text.
    pub(in crate::template) fn insert(&mut self, at: usize, piece: impl Into<String>) {
        self.replace(at..at, piece);
    }

    /// Applies all edits. Edits at the same position keep the order in which they were added.
    pub(in crate::template) fn apply(mut self, text: &str) -> Rewritten {
        self.0.sort_by_key(|(bytes, _)| bytes.start);
        let mut rewritten =
            Rewritten { text: String::with_capacity(text.len()), ..Rewritten::default() };
        let mut copied = 0;
        for (bytes, with) in self.0 {
            rewritten.text.push_str(&text[copied..bytes.start]);
            rewritten.origins.push((rewritten.text.len(), bytes.start, false));
            rewritten.text.push_str(&with);
            rewritten.origins.push((rewritten.text.len(), bytes.end, true));
            copied = bytes.end;
        }
        rewritten.text.push_str(&text[copied..]);
        rewritten
    }
}

/// An edited text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::template) struct Rewritten {
    /// The text after the edits.
    pub(in crate::template) text: String,
    /// Positions in the text in ascending order, each with its byte in the original, and true if
    /// the bytes that follow were copied.
    origins: Vec<(usize, usize, bool)>,
}

impl Rewritten {
    /// Returns the byte of the original text from which a byte comes.
    pub(in crate::template) fn origin(&self, at: usize) -> usize {
        let before = self.origins.partition_point(|(place, ..)| *place <= at);
        match before.checked_sub(1).map(|last| self.origins[last]) {
            None => at,
            Some((place, origin, true)) => origin + (at - place),
            Some((_, origin, false)) => origin,
        }
    }
}

/// Returns the byte at a line and column, both from 1, with columns in bytes.
pub(in crate::template) fn byte_at(text: &str, (line, column): (usize, usize)) -> usize {
    let before = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len);
    (before.sum::<usize>() + column.saturating_sub(1)).min(text.len())
}

/// Returns line and column of a byte, both from 1, with columns in bytes.
pub(in crate::template) fn place_of(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let mut lines = before.split(|byte| *byte == b'\n');
    let column = lines.next_back().map_or(0, <[u8]>::len) + 1;
    (lines.count() + 1, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_map_to_the_original_text() {
        let text = "ab\ncdef";
        let mut edits = Edits::default();
        edits.replace(4..6, "12345");
        edits.insert(1, "((");
        edits.insert(1, "[");
        let rewritten = edits.apply(text);
        assert_eq!(rewritten.text, "a(([b\nc12345f");
        let origins: Vec<_> = (0..=13).map(|at| rewritten.origin(at)).collect();
        assert_eq!(origins, [0, 1, 1, 1, 1, 2, 3, 4, 4, 4, 4, 4, 6, 7]);
        for at in 0..=text.len() {
            assert_eq!(byte_at(text, place_of(text, at)), at);
        }
        assert_eq!((place_of(text, 3), byte_at(text, (9, 9))), ((2, 1), 7));
    }
}
