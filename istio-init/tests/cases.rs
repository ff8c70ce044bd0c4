//! Cases in `testdata`: flags, environment and pod, with the script of `--dry-run` or the errors.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics has failed, as it should"
)]

use std::fmt::Write as _;

use istio_init::plan::plan;
use istio_init::render::{iptables, nft};

use crate::case::read;

mod case;

#[test]
fn plans() {
    insta::glob!("../testdata/plans", "*.case", |file| {
        let (config, warnings) = read(file).expect("a valid case");
        let mut text = String::new();
        for warning in warnings {
            let _ = writeln!(text, "# warning: {warning}");
        }
        insta::assert_snapshot!(text + &nft::script(&plan(&config)));
    });
}

#[test]
fn iptables_restore_texts() {
    insta::glob!("../testdata/plans", "*.case", |file| {
        let (config, _) = read(file).expect("a valid case");
        insta::assert_snapshot!(iptables::script(&plan(&config)));
    });
}

#[test]
fn refusals() {
    insta::glob!("../testdata/refusals", "*.case", |file| {
        insta::assert_snapshot!(read(file).expect_err("an invalid case"));
    });
}
