//! Comments that an edit loses.

use granit_parser::{Event, Parser};
use json_patch::PatchOperation;

use super::{Edit, Manifest};

impl Manifest<'_> {
    /// Returns the lines with comments inside list items that an edit removes, counted from 1 in
    /// the document. A container that moves to another list is written there without its comments.
    pub fn comments_lost(&self, edit: &Edit<'_>) -> Vec<usize> {
        let Some(root) = &self.root else { return Vec::new() };
        let taken_out = edit.patch.iter().filter_map(|operation| {
            let PatchOperation::Remove(remove) = operation else { return None };
            let inner = remove.path.tokens().map(|token| token.decoded().into_owned());
            let path: Vec<_> = edit.template.place.iter().cloned().chain(inner).collect();
            path.last()?.parse::<usize>().ok()?;
            let (first, rest) = path.split_first()?;
            let first = root.item(first)?;
            let item = rest.iter().try_fold(first, |item, token| item.value.item(token))?;
            Some(item.start..item.end())
        });
        let text = self.source.text;
        let ranges: Vec<_> = taken_out.filter(|range| text[range.clone()].contains('#')).collect();
        if ranges.is_empty() {
            return Vec::new();
        }
        let options = granit_parser::options! { emit_comments: true };
        let events = Parser::new_from_str_with_options(text, options).map_while(Result::ok);
        let comments = events.filter(|(event, _)| matches!(event, Event::Comment(..)));
        let starts = comments.filter_map(|(_, span)| Some(span.byte_range()?.start));
        let lost = starts.filter(|start| ranges.iter().any(|range| range.contains(start)));
        lost.map(|start| self.source.place(start).0).collect()
    }
}
