//! Flags that select the cluster and the objects in it.

use std::path::PathBuf;

use super::rotation_args::{RotationArgs, SignerError};
use crate::cluster::Options;
use crate::server_names::{parse_domain, parse_name};
use anyhow::{Context, Result};
use clap::Args;
use kube::Client;
use kube_access::{kubeconfig, names};

/// Flags that select the cluster and the objects in it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterArgs {
    /// Kubeconfig file [default: that of the environment, else the pod's service account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context].
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace of the Secret and the Service.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME", default_value = "istio-system",
          value_parser = names::label)]
    namespace: String,
    /// Name of the installation, part of the names of the CA and of the field manager;
    /// `pilot-discovery` is the CA of workloads [default: sidecar-injector; both with the revision
    /// as suffix unless it is `default`].
    #[arg(long, value_name = "NAME", value_parser = names::label)]
    install: Option<String>,
    /// Service through which API servers reach the webhook.
    #[arg(long, value_name = "NAME", default_value = "sidecar-injector",
          value_parser = names::label)]
    service: String,
    /// DNS domain of the cluster.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local",
          value_parser = parse_domain)]
    cluster_domain: String,
    /// A further DNS name or address of the leaf; may be repeated [default: none].
    #[arg(long = "extra-san", value_name = "NAME", value_parser = parse_name)]
    extra_names: Vec<String>,
    /// Revision of the control plane.
    #[arg(long, env = "REVISION", value_name = "NAME", default_value = "default",
          value_parser = names::revision)]
    revision: String,
    /// Secret that holds the CA [default: <INSTALL>-ca; without --install sidecar-injector-ca, or
    /// pilot-discovery-ca, with the revision as suffix unless it is `default`].
    #[arg(long, value_name = "NAME", value_parser = names::subdomain)]
    secret_name: Option<String>,
    /// Mutating webhook configuration to reconcile; may be repeated [default:
    /// istio-sidecar-injector, with the revision as suffix unless it is `default`; none with
    /// `--install pilot-discovery`].
    #[arg(long = "webhook-configuration", value_name = "NAME", value_parser = names::subdomain)]
    webhook_configurations: Vec<String>,
    #[command(flatten)]
    parameters: RotationArgs,
}

impl ClusterArgs {
    pub(super) fn options(&self) -> Result<Options, SignerError> {
        let configurations = &self.webhook_configurations;
        let of_control_plane = self.install.as_deref() == Some(CONTROL_PLANE);
        Ok(Options {
            namespace: self.namespace.clone(),
            install: match &self.install {
                Some(install) if !of_control_plane => install.clone(),
                install => self.named(install.as_deref().unwrap_or("sidecar-injector")),
            },
            service: self.service.clone(),
            cluster_domain: self.cluster_domain.clone(),
            extra_names: self.extra_names.clone(),
            revision: self.revision.clone(),
            secret_name: self.secret_name.clone().unwrap_or_else(|| match &self.install {
                Some(_) if of_control_plane => self.named("pilot-discovery-ca"),
                Some(install) => format!("{install}-ca"),
                None => self.named("sidecar-injector-ca"),
            }),
            webhook_configurations: if configurations.is_empty() && !of_control_plane {
                vec![Options::default_configuration(&self.revision)]
            } else {
                configurations.clone()
            },
            root_config_maps: false,
            parameters: self.parameters.parameters(),
            signer: self.parameters.signer()?,
        })
    }

    /// Name that the injector of the revision uses.
    fn named(&self, name: &str) -> String {
        Options::for_revision(name, &self.revision)
    }

    /// Makes a client; returns it with the kubeconfig and the URL of its API server for messages.
    pub(super) async fn client(&self) -> Result<(Client, String)> {
        let context = self.context.as_deref();
        let (mut config, origin) = match &self.kubeconfig {
            Some(file) => {
                let origin = format!("--kubeconfig `{}`", file.display());
                (kubeconfig::from_file(file, &origin, context).await?, origin)
            }
            None => kubeconfig::from_environment(context).await?,
        };
        // Reconciliation has its own, shorter timeouts.
        config.default_retry = false;
        let server = format!("{origin}, server {}", config.cluster_url);
        let client = Client::try_from(config);
        let client = client.context("cannot make a client of the cluster's configuration")?;
        Ok((client, server))
    }
}

/// Installation that signs for workloads. API servers do not call it.
const CONTROL_PLANE: &str = "pilot-discovery";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        cluster: ClusterArgs,
    }

    #[test]
    fn control_plane_has_no_webhook_configuration() {
        for (revision, suffix) in [("default", ""), ("canary", "-canary")] {
            let args = ["webhook-certs", "--install=pilot-discovery", "--revision", revision];
            let options = Program::parse_from(args).cluster.options().unwrap();
            assert_eq!(options.install, format!("pilot-discovery{suffix}"));
            assert_eq!(options.secret_name, format!("pilot-discovery-ca{suffix}"));
            assert!(options.webhook_configurations.is_empty());
        }
    }

    #[test]
    fn default_names_are_those_of_the_revisions_injector() {
        for (flags, install, secret, configuration) in [
            ("", "sidecar-injector", "sidecar-injector-ca", "istio-sidecar-injector"),
            (
                "--revision canary",
                "sidecar-injector-canary",
                "sidecar-injector-ca-canary",
                "istio-sidecar-injector-canary",
            ),
            (
                "--install mine --revision canary",
                "mine",
                "mine-ca",
                "istio-sidecar-injector-canary",
            ),
        ] {
            let args = ["webhook-certs"].into_iter().chain(flags.split_whitespace());
            let options = Program::parse_from(args).cluster.options().unwrap();
            assert_eq!(options.install, install);
            assert_eq!(options.secret_name, secret);
            assert_eq!(options.webhook_configurations, [configuration]);
        }
    }
}
