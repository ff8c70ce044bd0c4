//! libFuzzer around the fuzz target named by the variable `TARGET`.

#![no_main]

use std::env;
use std::sync::LazyLock;

use fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| (CHOSEN.run)(data));

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("TARGET").unwrap_or_default();
    let chosen = TARGETS.iter().find(|target| target.name == name);
    chosen.unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        panic!("TARGET: `{name}` is not a fuzz target; hint: there are {}", names.join(", "))
    })
});
