//! Comments that an edit keeps or loses.

use std::collections::HashMap;
use std::iter::once;
use std::ops::Range;

use super::source::Source;
use super::tree::{Item, NodeKind};
use super::{Manifest, PodTemplate};

impl Manifest<'_> {
    /// Returns the lines with comments that an edited text lacks, counted from 1 in the document. A
    /// part that cannot be edited in place is written anew, without its comments.
    pub fn comments_lost(&self, edited: &str) -> Vec<usize> {
        let edited = Source::new(edited);
        let (mut kept, mut kept_lines) = (HashMap::new(), HashMap::new());
        let whole = |source: &Source<'_>| once(0..source.text.len());
        for comment in edited.comments(whole(&edited)) {
            *kept_lines.entry(line_of(edited.text, &comment)).or_default() += 1;
            *kept.entry(edited.text[comment].trim_end()).or_default() += 1;
        }
        let text = self.source.text;
        // Of equal comments, those are kept whose whole line is.
        let (found, moved): (Vec<_>, Vec<_>) = self
            .source
            .comments(whole(&self.source))
            .partition(|comment| take(&mut kept_lines, line_of(text, comment)));
        for comment in found {
            take(&mut kept, text[comment].trim_end());
        }
        let lost = moved.into_iter().filter(|it| !take(&mut kept, text[it.clone()].trim_end()));
        let mut lines: Vec<_> = lost.map(|comment| self.source.place(comment.start).0).collect();
        lines.dedup();
        lines
    }

    /// True if comments belong to a field of a pod template: beside its key, above or inside its
    /// value, or below and indented deeper. False for a field from an alias.
    pub fn has_comments(&self, template: &PodTemplate, path: &[String]) -> bool {
        let Some((item, extent)) = self.item_in_text(template, path) else { return false };
        self.source.comments(once(item.start..extent)).next().is_some()
    }

    /// Returns the item of the text at a path in a pod template, and the end of the text that
    /// belongs to it.
    pub(super) fn item_in_text(
        &self,
        template: &PodTemplate,
        path: &[String],
    ) -> Option<(&Item, usize)> {
        let (last, path) = path.split_last()?;
        let mut path = template.place.iter().chain(path);
        let parent =
            path.try_fold(self.root.as_ref()?, |node, key| Some(&node.item(key)?.value))?;
        let item = parent.item(last)?;
        let extent = match &parent.kind {
            NodeKind::Collection(collection) if !collection.flow => {
                self.source.extent_end(item.end(), self.source.column(item.start), false)
            }
            _ => item.end(),
        };
        Some((item, extent))
    }
}

/// Returns the line with a comment.
fn line_of<'a>(text: &'a str, comment: &Range<usize>) -> &'a str {
    let start = text[..comment.start].rfind('\n').map_or(0, |end| end + 1);
    text[start..comment.end].trim()
}

/// Takes one of the texts. False if none is left.
fn take(left: &mut HashMap<&str, usize>, text: &str) -> bool {
    match left.get_mut(text) {
        Some(count @ 1..) => *count -= 1,
        _ => return false,
    }
    true
}
