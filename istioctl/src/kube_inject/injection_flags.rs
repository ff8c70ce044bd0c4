//! Flags for settings and cluster state, and the injection inputs made from them.

use anyhow::{Context, anyhow};
use clap::{Args, ValueHint};
use documents::notice::Notice;
use injector::inject::policy::Rules;
use injector::kubernetes::native_sidecars::NativeSidecars;
use injector::manifest::PodTemplateRule;
use injector::settings::{Process, Settings};
use injector::sources::config_maps::ReadError;
use injector::sources::{Text, Texts};
use kube_access::{names, with_causes};

use super::cluster_state::{ClusterSnapshot, Questions};
use super::document_flags::DocumentFlags;
use super::webhook::Webhook;
use super::workloads::namespaces;
use crate::cluster::{Cluster, ClusterClient};
use crate::inputs::InputFile;
use crate::{Streams, cluster};

/// Flags for the settings by which workloads are injected.
#[derive(Debug, Args)]
pub(crate) struct InjectionFlags {
    #[command(flatten)]
    documents: DocumentFlags,
    /// The control plane's revision [default: with a cluster that of the tag `default`, else none]
    #[arg(
        short,
        long,
        value_name = "REVISION",
        default_value = "",
        hide_default_value = true,
        value_parser = names::label_or_nothing
    )]
    revision: String,
    /// Makes the proxy a native sidecar, unless the pod decides; `auto` depends on the cluster's
    /// nodes, and is `true` without a cluster
    #[arg(
        long = "enable-native-sidecars",
        env = "ENABLE_NATIVE_SIDECARS",
        value_name = "auto|true|false",
        default_value = "auto",
        value_hint = ValueHint::Other
    )]
    native_sidecars: NativeSidecars,
    /// The compliance policy passed to the proxy [default: none]
    #[arg(
        long = "compliance-policy",
        env = "COMPLIANCE_POLICY",
        value_name = "POLICY",
        default_value = "",
        hide_default_value = true
    )]
    compliance_policy: String,
    /// The platform; with `openshift`, the platform sets the users of a pod
    /// [default: none]
    #[arg(
        long,
        env = "PLATFORM",
        value_name = "PLATFORM",
        default_value = "",
        hide_default_value = true
    )]
    platform: String,
}

/// Settings and cluster state for injecting workloads.
#[derive(Debug)]
pub(crate) struct InjectionInputs {
    pub(super) settings: Settings,
    pub(super) rules: Rules,
    /// Rules for pod templates in other kinds.
    pub(crate) pod_templates: Vec<PodTemplateRule>,
    /// The namespace of workloads that name none; empty if unknown.
    pub(crate) namespace: String,
    /// Environment of the proxy from the path of a cluster's webhook.
    pub(super) path_env: Vec<(String, String)>,
    pub(super) snapshot: ClusterSnapshot,
}

impl InjectionFlags {
    /// Reads the settings from the files, the cluster or the built-in defaults, and the cluster
    /// state that applies to the workloads of the input files.
    pub(crate) fn inputs(
        &self,
        (files, pod_templates): (&[InputFile], &[PodTemplateRule]),
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<InjectionInputs> {
        let given = self.documents.read()?;
        if cluster_client.flags.is_given() || self.documents.name_config_maps() {
            let inputs = async |asked: Cluster| {
                let files = (files, pod_templates);
                self.of_cluster(asked, given, files, cluster_client, streams).await
            };
            return cluster::ask(cluster_client.flags, inputs);
        }
        if cluster::is_named_by_environment() && !given.are_complete() {
            streams.say(&format!("using {}; {NO_CLUSTER}", given.sources()));
        }
        Ok(InjectionInputs {
            settings: settings(&given, self.process(&self.revision), Rules::Manual, streams)?,
            rules: Rules::Manual,
            pod_templates: pod_templates.to_owned(),
            namespace: cluster_client.namespace.to_owned(),
            path_env: Vec::new(),
            snapshot: ClusterSnapshot::default(),
        })
    }

    /// Returns the settings and the cluster snapshot that the cluster's injector uses.
    async fn of_cluster(
        &self,
        Cluster { client, name: cluster }: Cluster,
        given: Texts,
        (files, pod_templates): (&[InputFile], &[PodTemplateRule]),
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<InjectionInputs> {
        let words = || cluster.clone();
        // The rules of `kube-inject` apply to a file's templates, those of admission to a
        // cluster's.
        let rules = if given.inject_config.is_some() { Rules::Manual } else { Rules::Admission };
        let webhook =
            Webhook::of_cluster(&client, cluster_client.control_plane, &self.revision, streams);
        let webhook = webhook.await.with_context(words)?;
        let maps = self.documents.config_maps(cluster_client.control_plane, &webhook.revision);
        let texts = maps.complete(client.clone(), given).await;
        let texts = texts.map_err(|error| unread(&error, &webhook)).with_context(words)?;
        let settings = settings(&texts, self.process(&webhook.revision), rules, streams)?;
        let namespace = match cluster_client.namespace {
            "" => client.default_namespace(),
            given => given,
        }
        .to_owned();
        let questions = Questions {
            nodes: self.native_sidecars == NativeSidecars::Auto,
            proxy_configs: rules == Rules::Admission,
            namespaces: files
                .iter()
                .flat_map(|file| namespaces(&file.text, pod_templates, &namespace))
                .collect(),
        };
        let snapshot = ClusterSnapshot::ask(client, questions, &settings, streams);
        let snapshot = snapshot.await.with_context(words)?;
        let path_env = match rules {
            Rules::Admission => webhook.path_env,
            Rules::Manual => Vec::new(),
        };
        let pod_templates = pod_templates.to_owned();
        Ok(InjectionInputs { settings, rules, pod_templates, namespace, path_env, snapshot })
    }

    fn process(&self, revision: &str) -> Process {
        Process {
            // As in Istio's command, templates see the default revision without a name.
            revision: if revision == "default" { "" } else { revision }.to_owned(),
            native_sidecars: self.native_sidecars.by_default(),
            compliance_policy: self.compliance_policy.clone(),
            openshift: self.platform == "openshift",
        }
    }
}

/// Parses the documents, and prints warnings about them.
fn settings(
    texts: &Texts,
    process: Process,
    rules: Rules,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Settings> {
    let mut settings = Settings::parse(&texts.documents(), process)?;
    if rules == Rules::Manual {
        keep_templates_alone(&mut settings, texts.inject_config.as_ref());
    }
    for notice in &settings.notices {
        streams.say(&format!("warning: {notice}"));
    }
    Ok(settings)
}

/// Keeps only the templates of a file, as Istio's command does. Adds a warning for each part that
/// has no effect.
fn keep_templates_alone(settings: &mut Settings, config: Option<&Text>) {
    let without_effect = settings.inject.keep_templates_alone();
    let Some(config) = config else { return };
    settings.notices.extend(without_effect.into_iter().map(|key| Notice {
        origin: config.source.clone(),
        path: key.to_owned(),
        problem: "is used only by the webhook".to_owned(),
    }));
}

/// Returns the error for unreadable documents of a cluster, with a hint for the user.
fn unread(error: &ReadError, webhook: &Webhook) -> anyhow::Error {
    let by_tag = match &webhook.tagged_by {
        Some(name) => format!(
            "; hint: revision {} is the one with the tag default, by \
             MutatingWebhookConfiguration {name}",
            webhook.revision
        ),
        None => String::new(),
    };
    anyhow!("{}{by_tag}{WHERE_ELSE}", with_causes(error))
}

const NO_CLUSTER: &str = "hint: KUBECONFIG is set, but the configuration of its cluster is used \
                          only with --context or --kubeconfig";
const WHERE_ELSE: &str = "; hint: --istioNamespace names the control plane's namespace, \
--revision its revision, --injectConfigMapName and --meshConfigMapName its ConfigMaps; with \
--injectConfigFile, --valuesFile and --meshConfigFile files replace them";
