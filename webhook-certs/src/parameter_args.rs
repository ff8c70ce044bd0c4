//! The times of the upkeep, as flags of whichever program does it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::SignedDuration;

use crate::options::{ForeignCa, Parameters, Signer};

/// Lifetimes of certificates and intervals of the upkeep; the defaults suit any cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Upkeep of the certificate")]
pub struct ParameterArgs {
    /// How long a new CA is valid, for example 8760h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    authority_lifetime: Option<SignedDuration>,
    /// How long a new leaf is valid, for example 168h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leaf_lifetime: Option<SignedDuration>,
    /// How long a CA that no longer signs stays trusted; more than a leaf is valid.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retire_delay: Option<SignedDuration>,
    /// How long API servers may take to learn of a changed caBundle, for example 5m; a next CA is
    /// published for so long before it signs.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    propagation_delay: Option<SignedDuration>,
    /// What becomes of a CA in a caBundle that the Secret does not know: it stays until it expires,
    /// or for the retire delay, or not at all.
    #[arg(long, value_name = "WHAT", value_enum, default_value = "grace")]
    foreign_ca: ForeignCaArg,
    /// How many writes to one object may follow each other at once.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    write_burst: Option<u32>,
    /// How often a further write to that object is allowed, for example 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    write_interval: Option<SignedDuration>,
    /// How long a write that was forbidden is not tried again, for example 5m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    denied_interval: Option<SignedDuration>,
    /// How long one call to the API server may take, for example 10s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    call_timeout: Option<SignedDuration>,
    /// How often everything is looked at without an event, for example 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tick: Option<SignedDuration>,
    /// Try at intervals that the API server calls the webhook, by the dry run of a ConfigMap's
    /// creation that an entry `probe.…` reviews; a next CA then signs only while it does.
    #[arg(long)]
    trust_probe: bool,
    /// How often that is tried, for example 60s.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "trust_probe")]
    trust_probe_interval: Option<SignedDuration>,
    /// Who signs the certificate: a CA of our own in a Secret, or a signer of the cluster, by
    /// certificate signing requests [default: own].
    #[arg(long, value_name = "MODE", value_enum, requires_if("csr", "signer_name"))]
    cert_mode: Option<CertMode>,
    /// With --cert-mode csr: the name of the signer, for example example.com/serving.
    #[arg(long, value_name = "NAME", requires = "cert_mode", value_parser = signer_name)]
    signer_name: Option<String>,
    /// With --cert-mode csr: the file with the signer's CAs, which are published in caBundle;
    /// without it, somebody else publishes them.
    #[arg(long, value_name = "FILE", requires = "signer_name")]
    signer_ca_file: Option<PathBuf>,
    /// With --cert-mode csr: approve the requests here; that needs the right to approve for the
    /// signer, which is a right to any certificate of it.
    #[arg(long, requires = "signer_name")]
    approve_csr: bool,
}

impl ParameterArgs {
    /// What they come to, with the defaults for what was not typed.
    pub fn parameters(&self) -> Parameters {
        let defaults = Parameters::default();
        let mut parameters = Parameters {
            authority_lifetime: self.authority_lifetime.unwrap_or(defaults.authority_lifetime),
            leaf_lifetime: self.leaf_lifetime.unwrap_or(defaults.leaf_lifetime),
            retire_delay: self.retire_delay.unwrap_or(defaults.retire_delay),
            propagation_delay: self.propagation_delay.unwrap_or(defaults.propagation_delay),
            foreign_ca: self.foreign_ca.into(),
            tick: self.tick.map_or(defaults.tick, SignedDuration::unsigned_abs),
            call_timeout: self
                .call_timeout
                .map_or(defaults.call_timeout, SignedDuration::unsigned_abs),
            write_burst: self.write_burst.unwrap_or(defaults.write_burst),
            write_interval: self.write_interval.unwrap_or(defaults.write_interval),
            denied_interval: self.denied_interval.unwrap_or(defaults.denied_interval),
            trust_probe: self.trust_probe,
            trust_probe_interval: self
                .trust_probe_interval
                .map_or(defaults.trust_probe_interval, SignedDuration::unsigned_abs),
        };
        // A leaf that is minted at the last moment has to expire before its CA is dropped.
        let least = parameters.leaf_lifetime + parameters.freshness() + parameters.freshness();
        parameters.retire_delay = parameters.retire_delay.max(least);
        parameters
    }
}

impl ParameterArgs {
    /// Who signs, where it is not a CA of our own.
    pub fn signer(&self) -> Result<Option<Signer>, SignerError> {
        match (self.cert_mode, &self.signer_name) {
            (None | Some(CertMode::Own), None) => Ok(None),
            (None | Some(CertMode::Own), Some(_)) => Err(SignerError::OwnCa),
            (Some(CertMode::Csr), None) => Err(SignerError::NoName),
            (Some(CertMode::Csr), Some(name)) => Ok(Some(Signer {
                name: name.clone(),
                approve: self.approve_csr,
                authorities: self.signer_ca_file.clone(),
            })),
        }
    }

    /// A flag that was typed and does nothing where no certificate is kept up in a cluster.
    pub fn only_in_cluster(&self) -> Option<&'static str> {
        match self.cert_mode {
            Some(CertMode::Csr) => Some("--cert-mode csr"),
            _ if self.trust_probe => Some("--trust-probe"),
            _ => None,
        }
    }
}

/// Flags about the signer that contradict each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SignerError {
    /// A CA of our own signs.
    #[error("--signer-name: only --cert-mode csr asks a signer, and --cert-mode is own")]
    OwnCa,
    /// It is not said who signs.
    #[error("--cert-mode csr: --signer-name is missing")]
    NoName,
}

/// Reads the name of a signer as Kubernetes wants it: a domain, a slash and a name.
fn signer_name(text: &str) -> Result<String, String> {
    let is_name = |part: &str| {
        !part.is_empty()
            && part.split('.').all(|label| {
                !label.is_empty()
                    && !label.starts_with('-')
                    && !label.ends_with('-')
                    && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            })
    };
    match text.split_once('/') {
        Some((domain, path)) if domain.contains('.') && is_name(domain) && is_name(path) => {
            Ok(text.to_owned())
        }
        _ => Err("want a domain and a path, for example example.com/serving".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CertMode {
    Own,
    Csr,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ForeignCaArg {
    Keep,
    Grace,
    Drop,
}

impl From<ForeignCaArg> for ForeignCa {
    fn from(arg: ForeignCaArg) -> Self {
        match arg {
            ForeignCaArg::Keep => Self::Keep,
            ForeignCaArg::Grace => Self::Grace,
            ForeignCaArg::Drop => Self::Drop,
        }
    }
}

/// Reads a duration that is more than nothing.
pub fn duration(text: &str) -> Result<SignedDuration, String> {
    let duration = crate::duration::positive(text)?;
    SignedDuration::try_from(duration).map_err(|error| error.to_string())
}
