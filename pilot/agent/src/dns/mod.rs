//! DNS proxy: answers from the name table, and forwards the rest.
