//! Which cluster, which objects in it, and in which times.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use webhook_certs::cause::with_causes;
use webhook_certs::cluster::{ForeignCa, Options, Parameters};

/// Which cluster, and which objects in it.
#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    /// The kubeconfig file; without it, the one of the environment, else the pod's own account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The namespace of the Secret and the Service.
    #[arg(long, env = "POD_NAMESPACE", default_value = "istio-system")]
    namespace: String,
    /// The name of the installation: of the CA and of the field manager.
    #[arg(long, default_value = "sidecar-injector")]
    install: String,
    /// The Service through which API servers reach the webhook.
    #[arg(long, default_value = "sidecar-injector")]
    service: String,
    /// The cluster's DNS domain.
    #[arg(long, default_value = "cluster.local")]
    cluster_domain: String,
    /// A further DNS name or address of the leaf; may be repeated.
    #[arg(long = "extra-san", value_name = "NAME")]
    extra_names: Vec<String>,
    /// The revision of the control plane.
    #[arg(long, env = "REVISION", default_value = "default")]
    revision: String,
    /// The Secret that holds the CA [default: <INSTALL>-ca].
    #[arg(long, value_name = "NAME")]
    secret_name: Option<String>,
    /// A mutating webhook configuration to keep up; may be repeated [default:
    /// istio-sidecar-injector, with the revision as suffix unless it is `default`].
    #[arg(long = "webhook-configuration", value_name = "NAME")]
    webhook_configurations: Vec<String>,
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
}

impl ClusterArgs {
    pub(super) fn options(&self) -> Options {
        let configurations = &self.webhook_configurations;
        Options {
            namespace: self.namespace.clone(),
            install: self.install.clone(),
            service: self.service.clone(),
            cluster_domain: self.cluster_domain.clone(),
            extra_names: self.extra_names.clone(),
            revision: self.revision.clone(),
            secret_name: self.secret_name.clone().unwrap_or_else(|| format!("{}-ca", self.install)),
            webhook_configurations: if configurations.is_empty() {
                vec![Options::default_configuration(&self.revision)]
            } else {
                configurations.clone()
            },
            parameters: self.parameters(),
        }
    }

    fn parameters(&self) -> Parameters {
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
        };
        // A leaf that is minted at the last moment has to expire before its CA is dropped.
        let least = parameters.leaf_lifetime + parameters.freshness() + parameters.freshness();
        parameters.retire_delay = parameters.retire_delay.max(least);
        parameters
    }

    pub(super) async fn client(&self) -> Result<Client> {
        let options =
            KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("--kubeconfig `{}`", file.display()))?;
                kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(|| format!("--kubeconfig `{}`", file.display()))?
            }
            None if self.context.is_some() => {
                kube::Config::from_kubeconfig(&options).await.context("--context")?
            }
            None => kube::Config::infer().await.map_err(|error| {
                let error = with_causes(&error);
                anyhow::anyhow!(
                    "no cluster is known: {error}\n\
                     hint: name one with --kubeconfig, or run in a pod"
                )
            })?,
        };
        // The upkeep has its own, shorter patience.
        config.default_retry = false;
        Client::try_from(config).context("cannot make a client of the cluster's configuration")
    }
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
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    let duration: SignedDuration = text.parse().map_err(|error| format!("{error}"))?;
    if duration.is_positive() {
        Ok(duration)
    } else {
        Err("it has to be more than nothing".to_owned())
    }
}
