//! Length and seed of random tests: a short run with another seed each day, a long one in `make soak`.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the number of rounds: `few`, or `many` if `OUTRIGGER_PACE` is `soak`.
pub fn rounds(few: usize, many: usize) -> usize {
    if env::var_os("OUTRIGGER_PACE").is_some_and(|pace| pace == "soak") { many } else { few }
}

/// Returns the seed of a random test: the one in `OUTRIGGER_SEED`, or the number of the day since
/// 1970, so that each day tries something else and a second run of the day the same. It is printed
/// with the output of the test.
///
/// # Panics
///
/// If `OUTRIGGER_SEED` is not a number.
#[expect(clippy::print_stderr, reason = "a failed test is repeated with it")]
#[expect(clippy::expect_used, reason = "tests alone call it")]
pub fn seed() -> u64 {
    let days = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs() / (24 * 60 * 60))
    };
    let seed = env::var("OUTRIGGER_SEED").map_or_else(
        |_| days(),
        |seed| seed.parse().expect("OUTRIGGER_SEED: expected a number, such as 20786"),
    );
    eprintln!("random choices of OUTRIGGER_SEED={seed}");
    seed
}
