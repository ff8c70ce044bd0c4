//! Deterministic damage to an input, by name and number.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A source of random numbers that chooses the damage.
pub(crate) struct Damage(u64);

impl Damage {
    pub(crate) fn new(name: &str, number: u64) -> Self {
        // `DefaultHasher::new` has fixed keys, unlike the hasher of a `HashMap`.
        let mut hasher = DefaultHasher::new();
        (name, number).hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Returns the input after one to three damages. Pieces may come from the other inputs.
    pub(crate) fn done_to(mut self, input: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.below(3) {
            let (from, to) = self.range(bytes.len());
            match self.below(7) {
                0 => bytes.truncate(from),
                1 => drop(bytes.drain(from..to)),
                2 => bytes
                    .splice(to..to, input.get(from..to).unwrap_or_default().to_vec())
                    .for_each(drop),
                3 => {
                    let other = &others[self.below(others.len())];
                    let (other_from, other_to) = self.range(other.len());
                    bytes.splice(from..to, other[other_from..other_to].to_vec()).for_each(drop);
                }
                4 => {
                    let piece = PIECES[self.below(PIECES.len())];
                    bytes.splice(from..from, piece.bytes()).for_each(drop);
                }
                5 => bytes.get_mut(from).into_iter().for_each(|byte| *byte = u8::MAX),
                _ => {
                    let bit = self.below(8);
                    bytes.get_mut(from).into_iter().for_each(|byte| *byte ^= 1 << bit);
                }
            }
        }
        bytes
    }

    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        (from, from + self.below((length - from).min(LONGEST_PIECE) + 1))
    }

    /// Returns a number below the bound (`splitmix64`).
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap_or(0)
    }
}

/// Characters and words with a meaning to parsers.
const PIECES: [&str; 16] = [
    "\0",
    "\n",
    "\r\n",
    "\t",
    " ",
    "\"",
    "'",
    "\\",
    "{",
    "[",
    "}",
    "null",
    "-1",
    "99999999999999999999",
    "\u{feff}",
    "\u{2028}",
];
const LONGEST_PIECE: usize = 64;
