//! Admission reviews: a review in, an answer out.

pub mod deadline;
pub mod handler;
pub(crate) mod outline;
pub mod review;
pub mod verdict;
mod work;
