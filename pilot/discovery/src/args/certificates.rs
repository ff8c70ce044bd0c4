//! Arguments about certificates and authentication.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use jiff::SignedDuration;
use webhook_certs::cli::rotation_args::duration;
use webhook_certs::server_names::parse_name;

use crate::certificates::default_ca_folder;

/// Arguments about certificates and authentication.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Certificates")]
pub struct CertificateArgs {
    /// Folder with an operator's CA: ca-cert.pem, ca-key.pem, cert-chain.pem, root-cert.pem. If it
    /// holds one at start, it signs instead of a CA of our own
    #[arg(long = "caFolder", value_name = "DIR", default_value_os_t = default_ca_folder())]
    pub ca_folder: PathBuf,
    /// Secret of the CA of our own [default: pilot-discovery-ca, with the revision as suffix unless
    /// it is `default`]
    #[arg(long = "caSecret", value_name = "NAME", value_parser = kube_access::names::subdomain)]
    pub ca_secret: Option<String>,
    /// Service by which proxies reach this program, in its certificate [default: istiod, with the
    /// revision as suffix unless it is `default`]
    #[arg(long = "serviceName", value_name = "NAME", value_parser = kube_access::names::label)]
    pub service: Option<String>,
    /// Further DNS name or address in the server's certificate; may be repeated [default: none]
    #[arg(long = "extraName", value_name = "NAME", value_parser = parse_name)]
    pub extra_names: Vec<String>,
    /// Audiences of tokens, of which a proxy's token needs one
    #[arg(
        long = "tokenAudiences",
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new(),
        default_value = "istio-ca"
    )]
    pub token_audiences: Vec<String>,
    /// Lifetime of a new CA of our own
    #[arg(long = "caLifetime", value_name = "DURATION", default_value = "8760h",
          value_parser = duration)]
    pub ca_lifetime: SignedDuration,
    /// Longest lifetime of certificates that a CA of our own signs. It stays trusted for so long
    /// after a rotation
    #[arg(long = "maxCertLifetime", value_name = "DURATION", default_value = "168h",
          value_parser = duration)]
    pub max_lifetime: SignedDuration,
    /// Time that proxies may need to learn of a new root. A next CA is published for this long
    /// before it signs
    #[arg(long = "rootPropagationDelay", value_name = "DURATION", default_value = "5m",
          value_parser = duration)]
    pub propagation_delay: SignedDuration,
}
