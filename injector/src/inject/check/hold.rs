//! Hold of the application until the proxy is ready.

use reason::{Reason, words};

use crate::overlay::context::Context;

/// Warns if the `lifecycle` of the values replaces the hook with which the application waits. A
/// native sidecar needs no hook: Kubernetes waits for its startup probe.
pub(crate) fn canceled(context: &Context<'_>, hold: bool) -> Option<Reason> {
    let is_canceled =
        hold && !context.native_sidecar && context.settings.values.global.proxy.lacks_post_start();
    is_canceled.then(|| {
        let message = "the application does not wait for the proxy, because global.proxy.lifecycle \
                       of the values has no postStart";
        Reason::new(words::HOLD_CANCELED, message)
    })
}
