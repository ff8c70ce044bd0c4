//! Names of chains, which depend on the program that installs the rules.

use super::{iptables, nft};
use crate::plan::{Chain, Verdict};

/// Program by whose names chains are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainNames {
    /// `ISTIO_OUTPUT`.
    Iptables,
    /// `istio-output`.
    Nftables,
}

impl ChainNames {
    /// Returns the name of a chain.
    pub fn name(self, chain: Chain) -> String {
        match self {
            Self::Iptables => iptables::chain_name(chain),
            Self::Nftables => chain.name().to_owned(),
        }
    }

    /// Returns a verdict in nft's syntax, with the name of the chain that it continues in.
    pub fn verdict(self, verdict: Verdict) -> String {
        match verdict {
            Verdict::Jump(chain) => format!("jump {}", self.name(chain)),
            other => nft::verdict_text(other),
        }
    }
}
