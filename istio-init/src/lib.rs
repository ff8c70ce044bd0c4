//! Istio traffic capture as data and its kernel backend.
