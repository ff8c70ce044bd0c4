//! Text, JSON and pictures of plans and explanations.

pub mod capture_svg;
pub mod chain_names;
pub mod explanation;
pub mod iptables;
pub mod json;
pub mod mermaid;
pub mod nft;
pub mod svg;
pub mod table;
