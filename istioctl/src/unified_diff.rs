//! Unified diffs between files and their injected texts.

use std::convert::Infallible;
use std::ops::Range;

use similar::algorithms::{self, Capture, DiffHook, NoFinishHook, Replace};
use similar::udiff::UnifiedHunkHeader;
use similar::{Algorithm, DiffOp, DiffTag};

/// Returns the difference of a file in the form of `git diff`; empty if there is none.
///
/// `parts` are the old and the new text of each part of the file. Each part is compared on its own,
/// so that the cost grows with the size of the parts, not with that of the file.
pub(super) fn unified_diff<'a>(
    name: &str,
    parts: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let (mut old, mut new) = (String::new(), String::new());
    let mut ends = Vec::new();
    for (before, after) in parts {
        old.push_str(before);
        new.push_str(after);
        // Lines are compared, so a part that ends within a line belongs to the next one.
        if old.ends_with('\n') && new.ends_with('\n') {
            ends.push((old.len(), new.len()));
        }
    }
    ends.push((old.len(), new.len()));
    let (mut old_lines, mut new_lines) = (Lines::new(&old), Lines::new(&new));
    let mut hook = Replace::new(Capture::new());
    for (old_end, new_end) in ends {
        let (before, after) = (old_lines.extend(old_end), new_lines.extend(new_end));
        let Ok(()) = compare(&mut hook, (&old_lines.read, before), (&new_lines.read, after));
    }
    let Ok(()) = hook.finish();
    let hunks = hook.into_inner().into_grouped_ops(CONTEXT);
    let hunks = hunks.iter().map(|hunk| shown(hunk, &old_lines.read, &new_lines.read));
    let hunks: String = hunks.collect();
    if hunks.is_empty() {
        return hunks;
    }
    let [old, new] = ["a", "b"].map(|side| quoted(&format!("{side}/{name}")));
    format!("--- {old}\n+++ {new}\n{hunks}")
}

/// Returns the name of a file as git writes it: in quotes if it has control characters, quotes or
/// backslashes, and with a tab after it if it has spaces.
fn quoted(name: &str) -> String {
    if name.contains(|c: char| c.is_ascii_control() || c == '"' || c == '\\') {
        let escaped = name.chars().map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            '\t' => "\\t".to_owned(),
            '\n' => "\\n".to_owned(),
            c if c.is_ascii_control() => format!("\\{:03o}", u32::from(c)),
            c => c.to_string(),
        });
        return format!("\"{}\"", escaped.collect::<String>());
    }
    if name.contains(' ') { format!("{name}\t") } else { name.to_owned() }
}

/// A text and its lines up to an offset.
struct Lines<'a> {
    text: &'a str,
    end: usize,
    read: Vec<&'a str>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, end: 0, read: Vec::new() }
    }

    /// Adds the lines up to an offset. Returns their range.
    fn extend(&mut self, end: usize) -> Range<usize> {
        let start = self.read.len();
        self.read.extend(self.text[self.end..end].split_inclusive('\n'));
        self.end = end;
        start..self.read.len()
    }
}

fn compare(
    hook: &mut Replace<Capture>,
    (old, before): (&[&str], Range<usize>),
    (new, after): (&[&str], Range<usize>),
) -> Result<(), Infallible> {
    if old[before.clone()] == new[after.clone()] {
        // An empty step would part the hunks.
        return if before.is_empty() {
            Ok(())
        } else {
            hook.equal(before.start, after.start, before.len())
        };
    }
    // A hunk may continue in the next part.
    let mut hook = NoFinishHook::new(hook);
    algorithms::diff(Algorithm::Myers, &mut hook, old, before, new, after)
}

fn shown(hunk: &[DiffOp], old: &[&str], new: &[&str]) -> String {
    let mut text = format!("{}\n", UnifiedHunkHeader::new(hunk));
    for operation in hunk {
        let (tag, before, after) = operation.as_tag_tuple();
        let mut push = |mark, lines: &[&str]| {
            for line in lines {
                text.push(mark);
                text.push_str(line);
                if !line.ends_with('\n') {
                    text.push_str("\n\\ No newline at end of file\n");
                }
            }
        };
        if tag == DiffTag::Equal {
            push(' ', &old[before]);
        } else {
            push('-', &old[before]);
            push('+', &new[after]);
        }
    }
    text
}

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_quoted_as_git_does() {
        for (name, expected) in [
            ("a/web.yaml", "a/web.yaml"),
            ("a/my web.yaml", "a/my web.yaml\t"),
            ("a/\u{fc}.yaml", "a/\u{fc}.yaml"),
            ("a/\"x\"\t\\\u{1}", r#""a/\"x\"\t\\\001""#),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }

    /// Applies a diff as `patch` does.
    fn applied(old: &str, diff: &str) -> String {
        let old: Vec<_> = old.split_inclusive('\n').collect();
        let (mut new, mut read, mut last) = (String::new(), 0, ' ');
        for line in diff.split_inclusive('\n').skip(2) {
            if let Some(header) = line.strip_prefix("@@ -") {
                let range: Vec<usize> = header
                    .split([',', ' '])
                    .take_while(|number| !number.starts_with('+'))
                    .map(|number| number.parse().unwrap())
                    .collect();
                // An empty range names the line before it.
                let start = if range.get(1) == Some(&0) { range[0] } else { range[0] - 1 };
                new.push_str(&old[read..start].concat());
                read = start;
            } else if line.starts_with('\\') {
                if last != '-' {
                    new.pop();
                }
            } else if let Some(line) = line.strip_prefix('+') {
                new.push_str(line);
            } else {
                assert_eq!(&line[1..].trim_end(), &old[read].trim_end());
                new.push_str(line.strip_prefix(' ').unwrap_or_default());
                read += 1;
            }
            last = line.chars().next().unwrap();
        }
        new + &old[read..].concat()
    }

    #[test]
    fn diff_has_three_lines_around_a_change() {
        let before = (1..=20).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
        let (first, last) = before.split_at(before.find("10").unwrap());
        let changed = last.replace("15\n", "15\r\n") + "21";
        let parts = [(first, first), (last, changed.as_str())];
        insta::assert_snapshot!(unified_diff("a.yaml", parts.into_iter()));
        assert_eq!(unified_diff("a.yaml", [(first, first), ("", "")].into_iter()), "");
    }

    proptest! {
        #[test]
        fn applied_diff_is_the_new_text(
            parts in proptest::collection::vec(("([ab]?\n){0,9}[ab]?", "([ab]?\n){0,9}[ab]?"), 0..5),
            equal in any::<[bool; 5]>(),
        ) {
            let parts = parts.iter().zip(equal);
            let parts: Vec<_> =
                parts.map(|((old, new), equal)| (&**old, if equal { old } else { &**new })).collect();
            let whole = |part: fn(&(&str, &str)) -> String| parts.iter().map(part).collect::<String>();
            let (old, new) = (whole(|part| part.0.to_owned()), whole(|part| part.1.to_owned()));
            let diff = unified_diff("a", parts.iter().copied());
            prop_assert_eq!(applied(&old, &diff), new, "{}", diff);
        }
    }
}
