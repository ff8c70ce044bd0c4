//! Configuration of the agent: settings of each part, resolved from all layers.

pub mod options;

pub use options::{
    CertificateOptions, Config, DiscoveryOptions, DnsOptions, DrainOptions, EnvoyOptions, Paths,
    Pod, Role, RootSource, StatusOptions,
};
