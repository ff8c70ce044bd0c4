//! Flags of rotation and reconciliation, for every program that reconciles.

use std::path::PathBuf;

use clap::{Args, Command, ValueEnum};
use go_duration::DurationError;
use jiff::SignedDuration;

use crate::options::{ForeignCa, Parameters, Signer};

/// Heading of the flags in the help.
pub(crate) const HEADING: &str = "Certificate";

/// Lifetimes of certificates and intervals of the reconciliation; the defaults suit any cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = HEADING)]
pub struct RotationArgs {
    /// Lifetime of a new CA, for example 8760h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    authority_lifetime: Option<SignedDuration>,
    /// Lifetime of a new leaf, for example 168h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leaf_lifetime: Option<SignedDuration>,
    /// Time for which a CA that no longer signs stays trusted; longer than a leaf's lifetime.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    retire_delay: Option<SignedDuration>,
    /// Time that API servers may need to learn of a changed caBundle, for example 5m. A next CA is
    /// published for this long before it signs.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    propagation_delay: Option<SignedDuration>,
    /// Treatment of CAs in a caBundle that are not in the Secret: keep them until they expire, for
    /// the retire delay, or not at all.
    #[arg(long, value_name = "WHAT", value_enum, default_value = "grace")]
    foreign_ca: ForeignCaArg,
    /// Number of writes to one object without a pause.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    write_burst: Option<u32>,
    /// Interval of further writes to that object, for example 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    write_interval: Option<SignedDuration>,
    /// Time after which a forbidden write is tried again, for example 5m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    denied_interval: Option<SignedDuration>,
    /// Timeout of one call to the API server, for example 10s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    call_timeout: Option<SignedDuration>,
    /// Interval of reconciliation without an event, for example 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tick: Option<SignedDuration>,
    /// Probe at intervals whether the API server calls the webhook: by the dry run of a ConfigMap's
    /// creation, reviewed by an entry `probe.…`. A next CA then signs only while the probe
    /// succeeds.
    #[arg(long)]
    trust_probe: bool,
    /// Interval of the trust probe, for example 60s.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "trust_probe")]
    trust_probe_interval: Option<SignedDuration>,
    /// Signer of the certificate: our own CA in a Secret, or a signer of the cluster, by
    /// certificate signing requests [default: own].
    #[arg(long, value_name = "MODE", value_enum, requires_if("csr", "signer_name"))]
    cert_mode: Option<CertMode>,
    /// With --cert-mode csr: name of the signer, for example example.com/serving [default: none].
    #[arg(long, value_name = "NAME", requires = "cert_mode", value_parser = signer_name)]
    signer_name: Option<String>,
    /// With --cert-mode csr: file with the signer's CAs, which are published in caBundle; without
    /// it, another program must publish them [default: none].
    #[arg(long, value_name = "FILE", requires = "signer_name")]
    signer_ca_file: Option<PathBuf>,
    /// With --cert-mode csr: approve the requests. This needs the right to approve for the signer,
    /// which is a right to any certificate of it.
    #[arg(long, requires = "signer_name")]
    approve_csr: bool,
}

impl RotationArgs {
    /// Parameters, with defaults for flags that are not set.
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
        // A leaf minted at the last moment must expire before its CA is dropped.
        let least = parameters.leaf_lifetime + parameters.freshness() + parameters.freshness();
        parameters.retire_delay = parameters.retire_delay.max(least);
        parameters
    }
}

impl RotationArgs {
    /// Signer of the cluster; `None` for our own CA.
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

    /// A flag that has no effect without reconciliation in a cluster.
    pub fn only_in_cluster(&self) -> Option<&'static str> {
        match self.cert_mode {
            Some(CertMode::Csr) => Some("--cert-mode csr"),
            _ if self.trust_probe => Some("--trust-probe"),
            _ => None,
        }
    }
}

/// Conflicting flags about the signer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SignerError {
    /// A signer is named, and our own CA signs.
    #[error("--signer-name: only --cert-mode csr uses a signer, and --cert-mode is own")]
    OwnCa,
    /// No signer is named.
    #[error("--cert-mode csr: --signer-name is missing")]
    NoName,
}

/// Adds the defaults of [`Parameters`] to the help texts, for the reference pages.
pub fn with_defaults(command: Command) -> Command {
    let Parameters {
        authority_lifetime,
        leaf_lifetime,
        retire_delay,
        propagation_delay,
        foreign_ca: _,
        tick,
        call_timeout,
        write_burst,
        write_interval,
        denied_interval,
        trust_probe: _,
        trust_probe_interval,
    } = Parameters::default();
    let unsigned =
        |duration| format!("{:#}", SignedDuration::try_from(duration).unwrap_or_default());
    let defaults = [
        ("authority_lifetime", format!("{authority_lifetime:#}")),
        ("leaf_lifetime", format!("{leaf_lifetime:#}")),
        ("retire_delay", format!("{retire_delay:#}")),
        ("propagation_delay", format!("{propagation_delay:#}")),
        ("tick", unsigned(tick)),
        ("call_timeout", unsigned(call_timeout)),
        ("write_burst", write_burst.to_string()),
        ("write_interval", format!("{write_interval:#}")),
        ("denied_interval", format!("{denied_interval:#}")),
        ("trust_probe_interval", unsigned(trust_probe_interval)),
    ];
    command.mut_args(|arg| match defaults.iter().find(|(flag, _)| arg.get_id() == flag) {
        Some((_, default)) => {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.help(format!("{help} [default: {default}]"))
        }
        None => arg,
    })
}

/// Parses a signer's name as Kubernetes does: a domain, a slash and a name.
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

/// Parses a duration greater than zero.
pub fn duration(text: &str) -> Result<SignedDuration, DurationError> {
    // Fits: it has at most 63 bits of nanoseconds.
    go_duration::positive(text)
        .map(|duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX))
}
