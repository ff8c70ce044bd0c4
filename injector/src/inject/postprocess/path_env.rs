//! Environment from the webhook's path, set in the merged pod.

use crate::inject::computed_env::{has_computed, put_env};
use crate::inject::prepare::path_env::Variables;
use crate::json::change::Draft;

/// Sets the variables in the proxy's environment. What an earlier injection found out of the
/// application stands.
pub fn apply(draft: &mut Draft, variables: &Variables, reinjected: bool) {
    for (name, value) in variables {
        if !(reinjected && has_computed(draft.value(), name)) {
            put_env(draft, name, value);
        }
    }
}
