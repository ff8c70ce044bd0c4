//! Messages of the kernel's netlink socket.

use istio_init::kernel::fuzzing::{rules, written_and_read};
use istio_init::observed::Found;
use istio_init::render::nft;

/// Fuzzes received bytes.
pub fn messages(data: &[u8]) {
    for found in rules(data) {
        match found {
            Found::Ours(rule) => {
                let line = nft::add_rule(&rule);
                assert!(!line.chars().any(char::is_control), "{line:?}");
                if let Some(again) = written_and_read(&rule) {
                    assert_eq!(again, Found::Ours(rule));
                }
            }
            Found::Foreign(summary) => assert!(summary.len() <= 4 * data.len() + 64),
        }
    }
}
