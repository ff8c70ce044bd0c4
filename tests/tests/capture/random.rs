//! Reproducible random choices.

/// Pseudo-random numbers, equal in every run (Marsaglia's xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
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
