//! Text and JSON forms of plans and explanations.

pub mod explanation;
pub mod iptables;
pub mod json;
pub mod nft;
pub mod table;
