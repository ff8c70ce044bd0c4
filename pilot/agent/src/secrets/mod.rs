//! Workload certificates: request, rotation, and SDS for Envoy.
