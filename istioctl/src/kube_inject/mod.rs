//! `istioctl kube-inject`: sidecar injection for the workloads of a file.

mod cluster_state;
mod document_flags;
mod injection_source;
mod operator_file;
mod tally;
mod webhook;
mod workloads;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use documents::notice::Notice;
use injector::inject::policy::Rules;
use injector::kubernetes::native_sidecars::NativeSidecars;
use injector::manifest;
use injector::settings::{Process, Settings};
use injector::sources::config_maps::ReadError;
use injector::sources::{Text, Texts};
use kube_access::with_causes;

use crate::cluster::{Cluster, ClusterClient};
use crate::{Failure, Streams, cluster, output};
use cluster_state::{ClusterSnapshot, Questions};
use document_flags::DocumentFlags;
use injection_source::InjectionInputs;
use tally::Tally;
use webhook::Webhook;
use workloads::{Injected, in_order, namespaces};

/// Add the sidecar to the workloads of a file
///
/// Only pod templates change, and in them only what injection adds or replaces: comments, order,
/// quoting, anchors and unknown fields stay as they are, and so do documents of other kinds. YAML
/// stays YAML, JSON stays JSON. Injecting twice gives the same as injecting once.
///
/// Supported kinds are Deployment, DaemonSet, ReplicaSet, StatefulSet (apps/v1), Job, CronJob
/// (batch/v1), Pod, ReplicationController, List (v1) and DeploymentConfig (apps.openshift.io/v1 and
/// v1); of old API versions, Deployment, DaemonSet, ReplicaSet (extensions/v1beta1) and CronJob
/// (batch/v1beta1).
///
/// A summary on standard error counts the objects that were injected, skipped with the reason, or
/// skipped because of their kind.
///
/// The command uses a cluster only with --kubeconfig, --context, --injectConfigMapName or
/// --meshConfigMapName. Then it injects like that cluster's injector: with its ConfigMaps, its
/// nodes and its ProxyConfig resources. Each named file replaces one of its documents; with
/// --injectConfigFile, the policy, the selectors and ProxyConfig resources are ignored, as without
/// a cluster.
///
/// The command writes nothing if any workload of the file cannot be injected.
#[expect(clippy::doc_markdown, reason = "it is shown as help, where backticks only disturb")]
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct KubeInject {
    /// The file to inject; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// Output file; standard output by default
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    documents: DocumentFlags,
    /// The control plane's revision; with a cluster, by default the one with the tag `default`
    #[arg(short, long, default_value = "", hide_default_value = true)]
    revision: String,
    /// Makes the proxy a native sidecar, unless the pod decides; `auto` depends on the cluster's
    /// nodes, and is `true` without a cluster
    #[arg(
        long = "enable-native-sidecars",
        env = "ENABLE_NATIVE_SIDECARS",
        value_name = "auto|true|false",
        default_value = "auto"
    )]
    native_sidecars: NativeSidecars,
    /// The compliance policy passed to the proxy
    #[arg(
        long = "compliance-policy",
        env = "COMPLIANCE_POLICY",
        value_name = "POLICY",
        default_value = "",
        hide_default_value = true
    )]
    compliance_policy: String,
    /// The platform; with `openshift`, the platform sets the users of a pod
    #[arg(long, env = "PLATFORM", default_value = "", hide_default_value = true)]
    platform: String,
    /// Fail if an object is skipped although it looks like a workload: an unknown kind with a pod
    /// template, a kind in the wrong letter case, a workload without apiVersion, or a document that
    /// is not an object
    #[arg(long)]
    strict: bool,
}

impl KubeInject {
    /// Reads, injects, and writes only if everything succeeded.
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let given = self.documents.read().map_err(Failure::from_error)?;
        let names_cluster = cluster_client.flags.is_given() || self.documents.name_config_maps();
        let (inputs, (file, text)) = if names_cluster {
            let inputs =
                async |asked: Cluster| self.of_cluster(asked, given, cluster_client, streams).await;
            cluster::ask(cluster_client.flags, inputs)
        } else {
            if cluster::is_named_by_environment() && !given.are_complete() {
                streams.say(&format!("using {}; {NO_CLUSTER}", given.sources()));
            }
            self.of_files(&given, cluster_client.namespace, streams)
        }
        .map_err(Failure::from_error)?;
        let mut injected = Vec::new();
        let mut errors = Vec::new();
        let mut tally = Tally::default();
        let documents = manifest::Document::split(&text).into_iter();
        let documents: Vec<_> = documents.flat_map(manifest::Document::parts).collect();
        let outcomes = in_order(&documents, |document| Injected::new(&inputs, document));
        for (document, outcome) in documents.iter().zip(outcomes) {
            let place = || format!("{file}: document {}", document.number);
            for message in outcome.messages {
                streams.say(&message);
            }
            for surprise in outcome.surprises.into_iter().map(|error| error.context(place())) {
                if self.strict {
                    errors.push(surprise);
                } else {
                    streams.say(&format!("warning: {surprise:#}"));
                }
            }
            tally.add(outcome.tally);
            match outcome.text {
                Ok(text) => injected.push(text),
                Err(failed) => {
                    errors.extend(failed.into_iter().map(|error| error.context(place())));
                }
            }
        }
        if !errors.is_empty() {
            return Err(Failure::Errors(errors));
        }
        match &self.output {
            Some(path) if path != Path::new(STANDARD) => output::write_file(path, &injected),
            _ => output::write_parts(streams.output, &injected),
        }
        .map_err(Failure::from_error)?;
        streams.say(&format!("{file}: {tally}"));
        Ok(())
    }

    /// Returns the settings from files and built-in defaults, and the input file with its name for
    /// messages.
    fn of_files(
        &self,
        given: &Texts,
        namespace: &str,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<(InjectionInputs, (String, String))> {
        let process = self.process(&self.revision);
        let settings = settings(given, process, Rules::Manual, streams)?;
        let inputs = InjectionInputs::from_files(settings, namespace);
        Ok((inputs, self.read(streams)?))
    }

    /// Returns the settings and the cluster snapshot that the cluster's injector uses, and the
    /// input file.
    async fn of_cluster(
        &self,
        Cluster { client, name: cluster }: Cluster,
        given: Texts,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<(InjectionInputs, (String, String))> {
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
        let (name, text) = self.read(streams)?;
        let namespace = match cluster_client.namespace {
            "" => client.default_namespace(),
            given => given,
        }
        .to_owned();
        let questions = Questions {
            nodes: self.native_sidecars == NativeSidecars::Auto,
            proxy_configs: rules == Rules::Admission,
            namespaces: namespaces(&text, &namespace),
        };
        let snapshot = ClusterSnapshot::ask(client, questions, &settings, streams);
        let snapshot = snapshot.await.with_context(words)?;
        let path_env = match rules {
            Rules::Admission => webhook.path_env,
            Rules::Manual => Vec::new(),
        };
        let inputs = InjectionInputs { settings, rules, namespace, path_env, snapshot };
        Ok((inputs, (name, text)))
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

    /// Returns the name of the input for messages, and its text.
    fn read(&self, streams: &mut Streams<'_>) -> anyhow::Result<(String, String)> {
        let (name, bytes) = if self.filename == Path::new(STANDARD) {
            let mut bytes = Vec::new();
            streams.input.read_to_end(&mut bytes).context("standard input")?;
            ("standard input".to_owned(), bytes)
        } else {
            let name = self.filename.display().to_string();
            let bytes = fs::read(&self.filename).with_context(|| format!("--filename {name}"))?;
            (name, bytes)
        };
        let text = String::from_utf8(bytes).with_context(|| format!("{name}: not UTF-8 text"))?;
        Ok((name, text))
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
            "\n  hint: revision {} is the one with the tag default, by \
             MutatingWebhookConfiguration {name}",
            webhook.revision
        ),
        None => String::new(),
    };
    anyhow!("{}{by_tag}{WHERE_ELSE}", with_causes(error))
}

const NO_CLUSTER: &str = "hint: KUBECONFIG is set, but the configuration of its cluster is used \
                          only with --context or --kubeconfig";
/// File name that means standard input or output.
const STANDARD: &str = "-";
const WHERE_ELSE: &str = "\n  hint: --istioNamespace names the control plane's namespace, \
--revision its revision, --injectConfigMapName and --meshConfigMapName its ConfigMaps; with \
--injectConfigFile, --valuesFile and --meshConfigFile files replace them";

const EXAMPLES: &str = "\
Examples:
  istioctl kube-inject -f deployment.yaml | kubectl apply -f -
  istioctl kube-inject -f deployment.yaml -o injected.yaml
  kubectl get deployment web -o json | istioctl kube-inject -f - | kubectl apply -f -
  istioctl kube-inject -f deployment.yaml --context production -r canary";
