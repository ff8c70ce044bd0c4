//! Length, seed and choices of random tests: a short run with another seed each day, a long one in `make soak`.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the number of rounds, or of seconds: `few`, or `many` if `OUTRIGGER_PACE` is `soak`.
pub fn rounds<T>(few: T, many: T) -> T {
    if env::var_os("OUTRIGGER_PACE").is_some_and(|pace| pace == "soak") { many } else { few }
}

/// Pseudo-random numbers, equal for equal seeds (Marsaglia's xorshift).
pub struct Random(u64);

impl Random {
    /// Mixes a seed with the name of its test, so that two tests with one seed choose otherwise.
    /// Small seeds that are close to each other begin alike without it.
    pub fn new(seed: u64, test: &str) -> Self {
        let bytes = seed.to_le_bytes();
        let mixed =
            bytes.iter().chain(test.as_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3_u64)
            });
        Self(mixed | 1)
    }

    /// Returns a number below `sides`, which is not 0.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// True once in as many calls as `sides`, on average.
    pub fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    /// Picks one of the choices, of which there is at least one.
    #[expect(clippy::expect_used, reason = "tests alone call it")]
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = usize::try_from(self.roll(choices.len() as u64)).expect("a small number");
        choices[index]
    }

    /// Picks one to three choices, separated by commas.
    pub fn some_of(&mut self, choices: &[&str]) -> String {
        let count = 1 + self.roll(3);
        let picked: Vec<&str> = (0..count).map(|_| self.pick(choices)).collect();
        picked.join(",")
    }
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
