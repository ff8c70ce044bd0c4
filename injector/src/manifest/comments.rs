//! Comments inside the parts that an edit removes.

use std::iter::once;

use json_patch::PatchOperation;

use super::tree::{Item, NodeKind};
use super::{Edit, Manifest, PodTemplate};

impl Manifest<'_> {
    /// Returns the lines with comments inside fields and list items that an edit removes or
    /// replaces, counted from 1 in the document. A container that moves to another list is written
    /// there without its comments.
    pub fn comments_lost(&self, edit: &Edit<'_>) -> Vec<usize> {
        let removed = edit.patch.iter().filter_map(|operation| {
            let (path, replaced) = match operation {
                PatchOperation::Remove(remove) => (&remove.path, false),
                PatchOperation::Replace(replace) => (&replace.path, true),
                _ => return None,
            };
            let path: Vec<_> = path.tokens().map(|token| token.decoded().into_owned()).collect();
            let (item, _) = self.item_in_text(edit.template, &path)?;
            let is_collection = matches!(item.value.kind, NodeKind::Collection(_));
            (is_collection || !replaced).then(|| item.start..item.end())
        });
        let comments = self.source.comments(removed);
        comments.map(|comment| self.source.place(comment.start).0).collect()
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
