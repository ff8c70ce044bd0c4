//! Tests of the index.

mod histories;
