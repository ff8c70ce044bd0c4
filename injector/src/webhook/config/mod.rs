//! Flags of the webhook, and the options made of them.

pub mod args;
pub mod options;
pub mod report_args;
