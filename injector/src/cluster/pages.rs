//! Paginated lists.

use std::fmt::Debug;

use kube::Api;
use kube::api::{ListParams, ObjectList};
use serde::de::DeserializeOwned;

use super::error::ClusterError;

/// Passes every object of a kind to `take`, with one page in memory at a time.
pub(super) async fn in_pages<K>(
    api: &Api<K>,
    parameters: ListParams,
    mut take: impl FnMut(K),
) -> Result<(), ClusterError>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut parameters = parameters;
    loop {
        let ObjectList { items, metadata, .. } = api.list(&parameters).await?;
        items.into_iter().for_each(&mut take);
        match metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok(()),
        }
    }
}
