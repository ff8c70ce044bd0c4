//! Validation of pods and their annotations, and warnings about both.

pub mod annotations;
pub(crate) mod hold;
pub(crate) mod ineffective;
pub mod misplaced;
pub(crate) mod other_mesh;
pub(crate) mod pod;
pub mod proxy_user;
pub mod resources;
pub mod templates;
pub mod volumes;

/// Most labels or annotations in warnings; a client shows no more.
const MOST_KEYS: usize = 24;
