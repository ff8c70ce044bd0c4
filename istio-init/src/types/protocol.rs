//! Transport protocols.

use std::fmt;
use std::str::FromStr;

use super::input_error::ValueError;

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// Returns the usual lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl FromStr for Protocol {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let named = Self::ALL.into_iter().find(|protocol| protocol.name() == text.trim());
        named.ok_or_else(|| ValueError::new("is not a supported protocol").hint("use tcp or udp"))
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
