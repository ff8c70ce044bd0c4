//! Lists of ports that are captured or excluded from capture.

/// Adds a port to a list; `0` is none.
pub(crate) fn with_port(list: &str, port: &str) -> String {
    let port = port.trim();
    let ports = || list.split(',').map(str::trim).filter(|port| !port.is_empty());
    if port.is_empty() || port == "0" || ports().any(|listed| listed == port) {
        return list.to_owned();
    }
    ports().chain([port]).collect::<Vec<_>>().join(",")
}
