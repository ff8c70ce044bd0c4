//! Watches of mounted files.
