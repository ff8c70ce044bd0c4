//! Direction of a packet.

/// Direction of a packet, from the pod's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The pod receives it.
    In,
    /// A program in the pod sends it.
    Out,
}
