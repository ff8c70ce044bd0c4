//! Properties of every plan.

use istio_init::plan::Plan;
use istio_init::render::chain_names::ChainNames;
use istio_init::render::{iptables, json, nft, table};

/// No unvalidated user text reaches a script, and each line of a script is one command.
pub fn check(plan: &Plan) {
    let script = nft::script(plan);
    for line in script.lines() {
        assert!(["add ", "delete ", "# "].iter().any(|verb| line.starts_with(verb)), "{line:?}");
        assert!(line.starts_with("# ") || line.chars().all(is_plain), "{line:?}");
    }
    assert!(script.chars().all(|c| c == '\n' || !c.is_control()), "{script:?}");
    for line in iptables::script(plan).lines() {
        let is_command = ["# ", "* ", ":", "-A ", "COMMIT"].iter().any(|w| line.starts_with(w));
        assert!(is_command && line.chars().all(is_plain), "{line:?}");
    }
    let json = json::plan(plan).to_string();
    let read: serde_json::Value = serde_json::from_str(&json).expect("the plan as JSON");
    assert!(read.is_object(), "{json}");
    assert!(!table::plan(plan, ChainNames::Nftables).chars().any(|c| c.is_control() && c != '\n'));
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || " -./:!=\"*_@{},+[]#;".contains(c)
}
