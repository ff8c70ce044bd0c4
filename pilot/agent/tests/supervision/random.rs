//! Random numbers of tests.

/// Xorshift. The seed makes a failure reproducible.
pub(crate) struct Random(u64);

impl Random {
    /// Returns a generator whose seed differs in each run.
    pub(crate) fn new() -> Self {
        Self(u64::from(std::process::id()) | 1)
    }

    /// Returns the state; before the first number, the seed.
    pub(crate) fn seed(&self) -> u64 {
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
