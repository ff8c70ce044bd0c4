//! What may happen, and how often.

/// From where, and how far, states are explored.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) begin: Begin,
    pub(super) hours: u8,
    pub(super) reverts: u8,
    /// How many CAs somebody asks not to trust.
    pub(super) revocations: u8,
    pub(super) crashes: bool,
    /// How many API servers learn on their own.
    pub(super) servers: usize,
}

/// The phase of the beginning, in which no replica knows anything yet.
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
