//! Admission reviews: a review in, an answer out.

pub mod deadline;
pub mod handler;
mod refusal;
pub mod review;
pub mod verdict;
mod work;
