//! xDS v3: the messages that every client and server of it shares.
