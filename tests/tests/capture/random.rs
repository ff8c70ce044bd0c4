//! Reproducible random choices.

/// Pseudo-random numbers, equal for equal seeds (Marsaglia's xorshift).
pub(crate) struct Random(u64);

impl Random {
    /// Mixes a seed with the name of its test, so that two tests with one seed choose otherwise.
    /// Small seeds that are close to each other begin alike without it.
    pub(crate) fn new(seed: u64, test: &str) -> Self {
        let bytes = seed.to_le_bytes();
        let mixed =
            bytes.iter().chain(test.as_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3_u64)
            });
        Self(mixed | 1)
    }

    pub(crate) fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    /// Picks one to three choices, separated by commas.
    pub(crate) fn some_of(&mut self, choices: &[&str]) -> String {
        let count = 1 + self.roll(3);
        let picked: Vec<&str> = (0..count).map(|_| self.pick(choices)).collect();
        picked.join(",")
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = usize::try_from(self.roll(choices.len() as u64)).expect("a small number");
        choices[index]
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
