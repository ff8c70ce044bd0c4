//! The program beside Envoy in the image that stands for the proxy.

fn main() {}
