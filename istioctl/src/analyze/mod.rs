//! `istioctl analyze`: messages about the injection of a cluster or of files.

mod from_cluster;
mod from_files;
mod policies;
mod rendering;
mod snapshot;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use clap::{ArgAction, Args, ValueEnum};
use injector::analysis::message::{Level, Message, MessageOrigin};
use injector::analysis::suppression::{Suppression, is_suppressed_by_object};
use injector::analysis::{analyze, sort};
use injector::report::inspection::Injector;
use injector::settings::proxy_configs::ProxyConfigs;
use injector::settings::{Documents, Process, Settings};
use kube::Client;

use self::rendering::AnalysisForm;
use self::snapshot::Snapshot;
use crate::cluster::{Cluster, ClusterClient};
use crate::exit_code::CommandOutcome;
use crate::inputs::InputFile;
use crate::{Failure, Streams, cluster, inputs, output};

/// Find problems of injection in a cluster or in files
///
/// The command checks the injection labels of namespaces, pods without a sidecar or with an old
/// one, pods that the injector would deny, revisions that do not exist, `image: auto` without
/// injection, webhook configurations, and PeerAuthentications without an effect. Objects of files
/// count as if they were applied.
///
/// A note on standard error names what no analyzer looks at. The command exits with 79 if there is a
/// message at or above --failure-threshold, and with 1 if a file cannot be read; messages about the
/// other files are printed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::doc_markdown, reason = "it is shown as help, where backticks only disturb")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Analyze {
    /// Files or directories of objects that are not applied; `-` is standard input
    #[arg(value_name = "FILE|DIRECTORY")]
    files: Vec<PathBuf>,
    /// Read the subdirectories of a directory too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Analyze all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Also analyze the objects of the cluster
    #[arg(
        short = 'k',
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true
    )]
    use_kube: bool,
    /// Level of the messages that make the command fail
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, default_value = "Error")]
    failure_threshold: Threshold,
    /// Lowest level of the messages to print
    #[arg(long, value_name = "LEVEL", value_enum, ignore_case = true, default_value = "Info")]
    output_threshold: Threshold,
    /// Leave out messages of a code about an object, `*` stands for any text. May be repeated
    #[arg(short = 'S', long, value_name = "CODE=RESOURCE", value_parser = Suppression::parse)]
    suppress: Vec<Suppression>,
    /// List the analyzers and do nothing else
    #[arg(short = 'L', long)]
    list_analyzers: bool,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "log")]
    output: AnalysisForm,
    /// Accepted without effect: other files are ignored
    #[arg(long, hide = true)]
    ignore_unknown: bool,
}

/// Level of messages, spelt as in Istio.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Threshold {
    Info,
    Warning,
    Error,
}

impl Threshold {
    fn level(self) -> Level {
        match self {
            Self::Info => Level::Info,
            Self::Warning => Level::Warning,
            Self::Error => Level::Error,
        }
    }
}

impl Analyze {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<CommandOutcome, Failure> {
        if self.list_analyzers {
            let text = self.output.list().map_err(Failure::from_error)?;
            return output::write(streams.output, &text)
                .map(|()| CommandOutcome::Done)
                .map_err(Failure::from_error);
        }
        if self.files.is_empty() && !self.use_kube {
            return Err(Failure::Usage(NOTHING.to_owned()));
        }
        let (files, mut errors) = inputs::read("", &self.files, self.recursive, streams);
        let files: Vec<_> = files.into_iter().map(InputFile::indented).collect();
        let (snapshot, unreadable) = Snapshot::from_files(&files);
        errors.extend(unreadable);
        let (snapshot, namespace) = if self.use_kube {
            let read = cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
                self.read(snapshot, client, cluster_client, streams).await.context(name)
            });
            read.map_err(|error| {
                let is_hinted = !files.is_empty() && !cluster::is_configured();
                let error = if is_hinted { anyhow!("{error:#}{FILES_ALONE}") } else { error };
                Failure::from_error(error)
            })?
        } else {
            let namespace = match cluster_client.namespace {
                "" => "default",
                namespace => namespace,
            };
            let mut snapshot = snapshot.with_default_namespace(namespace);
            snapshot.built_in = Some(built_in().map_err(Failure::from_error)?);
            if !snapshot.pods.is_empty() || !snapshot.namespaces.is_empty() {
                snapshot.notes.push(FILES_CHECKED.to_owned());
            }
            (snapshot, namespace.to_owned())
        };
        let mut messages = analyze(&snapshot.state(cluster_client.control_plane));
        let root_namespace = cluster_client.control_plane;
        messages.extend(snapshot.policies.messages(&snapshot.pods, root_namespace));
        sort(&mut messages);
        let outcome = self.conclude(messages, &namespace, errors.is_empty(), streams)?;
        for note in snapshot.left_out() {
            streams.say(&format!("note: {note}"));
        }
        if errors.is_empty() { Ok(outcome) } else { Err(Failure::Errors(errors)) }
    }

    /// Adds the objects of the cluster. Returns the namespace to analyze, too.
    async fn read(
        &self,
        snapshot: Snapshot,
        client: Client,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<(Snapshot, String)> {
        let namespace = match cluster_client.namespace {
            "" => client.default_namespace().to_owned(),
            namespace => namespace.to_owned(),
        };
        let mut snapshot = snapshot.with_default_namespace(&namespace);
        let only = Some(&*namespace).filter(|_| !self.all_namespaces);
        snapshot.add_cluster(&client, only, cluster_client.control_plane, streams).await?;
        let exists = only.is_none_or(|name| snapshot.namespaces.contains_key(name));
        ensure!(exists || !self.files.is_empty(), "namespace {namespace:?} not found");
        Ok((snapshot, namespace))
    }

    /// Prints the messages. `is_whole` is true if every file could be read.
    fn conclude(
        &self,
        mut messages: Vec<Message>,
        namespace: &str,
        is_whole: bool,
        streams: &mut Streams<'_>,
    ) -> Result<CommandOutcome, Failure> {
        messages.retain(|message| {
            (self.all_namespaces || is_of(&message.origin, namespace))
                && !is_suppressed_by_object(message)
                && !self.suppress.iter().any(|suppression| suppression.applies(message))
        });
        let threshold = self.failure_threshold.level();
        let failed = messages.iter().any(|message| message.kind.level >= threshold);
        messages.retain(|message| message.kind.level >= self.output_threshold.level());
        let text = self
            .output
            .render(&messages, streams.terminal.color_output)
            .map_err(Failure::from_error)?;
        output::write(streams.output, &text).map_err(Failure::from_error)?;
        let subject = self.subject(namespace);
        if failed {
            streams.complain(&format!(
                "Error: Analyzers found issues when analyzing {subject}.\nSee \
                 https://istio.io/latest/docs/reference/config/analysis for more information about \
                 causes and resolutions."
            ));
            return Ok(CommandOutcome::FoundIssues);
        }
        if messages.is_empty() && is_whole {
            streams.say(&format!("✔ No validation issues found when analyzing {subject}."));
        }
        Ok(CommandOutcome::Done)
    }

    fn subject(&self, namespace: &str) -> String {
        if !self.files.is_empty() {
            let names: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
            return names.join(", ");
        }
        if self.all_namespaces {
            return "all namespaces".to_owned();
        }
        format!("namespace: {namespace}")
    }
}

/// Returns an injector with the built-in settings.
fn built_in() -> anyhow::Result<Injector> {
    let process = Process { native_sidecars: true, ..Process::default() };
    let settings = Settings::parse(&Documents::default(), process)?;
    Ok(Injector { settings: Arc::new(settings), proxy_configs: ProxyConfigs::default() })
}

/// True for an object of a file, an object of the namespace, the namespace itself, and other objects
/// of the whole cluster.
fn is_of(origin: &MessageOrigin, namespace: &str) -> bool {
    if !origin.place.is_empty() {
        return true;
    }
    match (origin.kind.as_str(), origin.namespace.as_str()) {
        ("Namespace", _) => origin.name == namespace,
        (_, "") => true,
        (_, of) => of == namespace,
    }
}

const FILES_CHECKED: &str = "without a cluster, pods are checked with the built-in settings, and \
                             revisions are not checked";
const FILES_ALONE: &str = "; --use-kube=false looks at the files alone";
const NOTHING: &str = "error: --use-kube=false needs files; hint: name files or directories";

const EXAMPLES: &str = "\
Examples:
  istioctl analyze -n shop
  istioctl analyze -A --failure-threshold Warning
  istioctl analyze web.yaml
  istioctl analyze --use-kube=false -R manifests
  istioctl analyze -A -S 'IST0102=Namespace test-*'";
