//! Certificates of an admission webhook.
