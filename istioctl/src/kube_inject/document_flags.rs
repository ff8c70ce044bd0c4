//! Configuration documents named on the command line.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use injector::sources::Texts;
use injector::sources::config_maps::{ConfigMaps, MESH, SIDECAR};
use injector::sources::files::Files;
use kube_access::{names, with_causes};

use super::operator_file;

/// Sources of the documents. A document that no flag names comes from the cluster if there is one,
/// else it is built in.
#[expect(clippy::doc_markdown, reason = "it is shown as help, where backticks only disturb")]
#[derive(Debug, Args)]
pub(super) struct DocumentFlags {
    /// The `config` document of Istio's ConfigMap `istio-sidecar-injector`
    /// [default: the cluster's, or built in]
    #[arg(long = "injectConfigFile", value_name = "FILE")]
    inject_config: Option<PathBuf>,
    /// The `values` document of Istio's ConfigMap `istio-sidecar-injector`
    /// [default: the cluster's, or built in]
    #[arg(long = "valuesFile", value_name = "FILE")]
    values: Option<PathBuf>,
    /// The `mesh` document of Istio's ConfigMap `istio` [default: the cluster's, or
    /// built in]
    #[arg(long = "meshConfigFile", value_name = "FILE")]
    mesh_config: Option<PathBuf>,
    /// An IstioOperator document: its spec.values and spec.meshConfig replace the files that are
    /// not named [default: none]
    #[arg(long = "operatorFileName", value_name = "FILE")]
    operator: Option<PathBuf>,
    /// The cluster's ConfigMap of `config` and `values` [default: istio-sidecar-injector, with the
    /// revision as suffix]
    #[arg(
        long = "injectConfigMapName",
        value_name = "NAME",
        value_parser = names::subdomain
    )]
    inject_config_map: Option<String>,
    /// The cluster's ConfigMap of `mesh` [default: istio, with the revision as suffix]
    #[arg(
        long = "meshConfigMapName",
        value_name = "NAME",
        value_parser = names::subdomain
    )]
    mesh_config_map: Option<String>,
    /// Istio's flag; only messages use the value.
    #[arg(long = "webhookConfig", hide = true)]
    _webhook: Option<String>,
}

impl DocumentFlags {
    /// Reads the documents from the files.
    pub(super) fn read(&self) -> anyhow::Result<Texts> {
        let files = Files {
            inject_config: self.inject_config.clone(),
            values: self.values.clone(),
            mesh_config: self.mesh_config.clone(),
        };
        // A shell's `<(command)` is a pipe.
        let texts = files
            .read(|path| std::fs::read_to_string(path))
            .map_err(|error| anyhow!(with_causes(&error)))?;
        match &self.operator {
            Some(path) => operator_file::complete(path, texts),
            None => Ok(texts),
        }
    }

    /// True if a flag names a `ConfigMap`, and so requires a cluster.
    pub(super) fn name_config_maps(&self) -> bool {
        self.inject_config_map.is_some() || self.mesh_config_map.is_some()
    }

    /// Returns the names of a cluster's `ConfigMap`s for a revision. A name other than Istio's
    /// default gets no revision suffix, as in Istio's command.
    pub(super) fn config_maps(&self, namespace: &str, revision: &str) -> ConfigMaps {
        let usual = ConfigMaps::for_revision(namespace, revision);
        let named = |given: &Option<String>, base: &str, usual: String| {
            given.clone().filter(|given| given != base).unwrap_or(usual)
        };
        ConfigMaps {
            sidecar: named(&self.inject_config_map, SIDECAR, usual.sidecar),
            mesh: named(&self.mesh_config_map, MESH, usual.mesh),
            namespace: usual.namespace,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        documents: DocumentFlags,
    }

    #[test]
    fn only_default_names_get_the_revision_suffix() {
        let names = |flags: &str, revision| {
            let args = std::iter::once("kube-inject").chain(flags.split_whitespace());
            let documents = Command::parse_from(args).documents;
            let ConfigMaps { namespace, sidecar, mesh } = documents.config_maps("n", revision);
            (documents.name_config_maps(), format!("{namespace} {sidecar} {mesh}"))
        };
        for (flags, revision, named, expected) in [
            ("", "", false, "n istio-sidecar-injector istio"),
            ("", "canary", false, "n istio-sidecar-injector-canary istio-canary"),
            ("--webhookConfig other", "default", false, "n istio-sidecar-injector istio"),
            ("--injectConfigMapName mine", "canary", true, "n mine istio-canary"),
            (
                "--injectConfigMapName istio-sidecar-injector --meshConfigMapName mine",
                "canary",
                true,
                "n istio-sidecar-injector-canary mine",
            ),
        ] {
            assert_eq!(names(flags, revision), (named, expected.to_owned()), "{flags}");
        }
    }
}
