//! Addresses that tests of all packets use.

/// Addresses outside the pod.
pub(crate) const OUTSIDE: &[&str] = &[
    "10.1.2.3",
    "10.200.0.9",
    "203.0.113.7",
    "192.168.77.1",
    "192.168.99.1",
    "fd88::1",
    "2001:db8::7",
    "fd99::1",
];
/// The pod's own addresses.
pub(crate) const OWN: &[&str] = &["192.168.77.2", "192.168.99.2", "fd77::2"];
/// Addresses of the loopback interface.
pub(crate) const LOOPBACKS: &[&str] = &["127.0.0.1", "127.9.0.9", "::1"];
/// The proxy's connections to the application, from its own source address.
pub(crate) const FROM_LOOPBACK: &[(&str, &str)] = &[
    ("127.0.0.6", "127.0.0.1"),
    ("127.0.0.6", "192.168.77.2"),
    ("::6", "::1"),
    ("::6", "fd77::2"),
];
