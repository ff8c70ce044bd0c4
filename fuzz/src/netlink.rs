//! Messages received from netlink.

use istio_init::backend::nftables::fuzzing::{rules, written_and_read};
use istio_init::render::nft;
use istio_init::verify::observed::ObservedRule;

/// Received bytes.
pub fn messages(data: &[u8]) {
    for found in rules(data) {
        match found {
            ObservedRule::Ours(rule) => {
                let line = nft::add_rule(&rule);
                assert!(!line.chars().any(char::is_control), "{line:?}");
                if let Some(again) = written_and_read(&rule) {
                    assert_eq!(again, ObservedRule::Ours(rule));
                }
            }
            ObservedRule::Foreign(summary) => assert!(summary.len() <= 4 * data.len() + 64),
        }
    }
}
