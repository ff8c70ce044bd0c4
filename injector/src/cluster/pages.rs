//! Paginated lists.

use kube::api::{ListParams, ObjectList};

use super::error::ClusterError;

/// Passes every object that `list` returns to `take`, with one page in memory at a time.
pub(super) async fn in_pages<K: Clone>(
    mut parameters: ListParams,
    list: impl AsyncFn(&ListParams) -> kube::Result<ObjectList<K>>,
    mut take: impl FnMut(K),
) -> Result<(), ClusterError> {
    loop {
        let ObjectList { items, metadata, .. } = list(&parameters).await?;
        items.into_iter().for_each(&mut take);
        match metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok(()),
        }
    }
}
