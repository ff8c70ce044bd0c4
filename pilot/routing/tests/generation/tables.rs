//! Tables of rules.
