//! Repeatable random numbers.

/// Pseudo-random numbers (Marsaglia's xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.roll(2);
        }
        random
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % sides
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = usize::try_from(self.roll(choices.len() as u64)).unwrap_or_default();
        choices[index]
    }
}
