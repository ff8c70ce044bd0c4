//! A plan as text.

pub mod nft;
