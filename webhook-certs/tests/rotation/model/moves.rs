//! Moves of the model, and bounds of their number.

/// Start and bounds of an exploration.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) begin: Begin,
    pub(super) hours: u8,
    pub(super) reverts: u8,
    /// Number of revocations.
    pub(super) revocations: u8,
    pub(super) crashes: bool,
    /// Number of API servers that learn independently.
    pub(super) servers: usize,
}

/// Phase at the start, which no replica knows yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    Steady,
    Prepared,
    Activated,
}

#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "the numbers are there to be read by people")]
pub(super) enum Move {
    Learn(usize),
    Crash(usize),
    Work(usize),
    Hour,
    Revert,
    Revoke(u64),
}
