//! A plan as text.

pub mod explanation;
pub mod iptables;
pub mod json;
pub mod nft;
pub mod table;
