//! `istioctl version`: the versions of this program, the control plane and the proxies.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use documents::yaml;
use injector::settings::values::Values;
use kube::Client;
use kube_access::with_causes;
use serde_json::{Value, json};

use crate::cluster::{self, Cluster, ClusterClient};
use crate::mesh_versions::MeshVersions;
use crate::{Failure, Streams, output};

/// Print the versions of this program, of the control plane and of the proxies
///
/// The versions of a cluster are the tags of its images: those of the injector and the control
/// plane in the control plane's namespace, and those of all proxies. Without a cluster, the command
/// prints its own version only.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Version {
    /// Print versions only; with `--short=false`, the images too, and those of the built-in
    /// configuration
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set,
        hide_possible_values = true)]
    short: bool,
    /// Output format [default: short, or long with --short=false]
    #[arg(short, long, value_name = "FORM", value_enum)]
    output: Option<VersionForm>,
    /// Ask the cluster too. If it is named and cannot be asked, the command fails [default: ask it
    /// if it is configured]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", action = clap::ArgAction::Set, hide_possible_values = true)]
    remote: Option<bool>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum VersionForm {
    Short,
    Json,
    Yaml,
}

impl Version {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let named = cluster_client.flags.is_given() || self.remote == Some(true);
        let asked = self.remote.unwrap_or(named || cluster::is_configured());
        // As in kubectl, the own version comes before an answer or error of the cluster.
        let own = self.own_lines();
        if self.output.is_none_or(|form| matches!(form, VersionForm::Short)) {
            output::write(streams.output, &own).map_err(Failure::from_error)?;
        }
        let mut failed = None;
        let versions = match asked.then(|| ask(cluster_client, streams)) {
            None => None,
            Some(Ok(versions)) => Some(versions),
            Some(Err(error)) => {
                failed = Some(error);
                None
            }
        };
        let text = self.text(versions.as_ref()).map_err(Failure::from_error)?;
        output::write(streams.output, &text).map_err(Failure::from_error)?;
        if let Some(MeshVersions { control_plane, .. }) = versions
            && control_plane.is_empty()
        {
            let namespace = cluster_client.control_plane;
            streams.say(&format!(
                "note: no control plane runs in namespace {namespace}; hint: --istioNamespace \
                 names another one"
            ));
        }
        match failed {
            Some(error) if named => Err(Failure::from_error(error)),
            Some(error) => {
                let error = with_causes(error.as_ref());
                streams.say(&format!(
                    "note: the versions in the cluster are unknown: {error}; hint: \
                     --remote=false asks no cluster"
                ));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the lines about this program.
    fn own_lines(&self) -> String {
        let mut text = format!("client version: {}\n", program_version::title());
        if !self.is_short() {
            let [init, proxy] = built_in_images();
            let _ = writeln!(text, "built-in images: istio-init {init}, istio-proxy {proxy}");
        }
        text
    }

    /// Returns the lines about the cluster, or the document about both.
    fn text(&self, versions: Option<&MeshVersions>) -> anyhow::Result<String> {
        match self.output {
            None | Some(VersionForm::Short) => {
                Ok(versions.map(|found| found.lines(self.is_short())).unwrap_or_default())
            }
            Some(VersionForm::Json) => Ok(format!("{:#}\n", self.document(versions))),
            Some(VersionForm::Yaml) => {
                yaml::to_string(&self.document(versions)).context("writing YAML")
            }
        }
    }

    fn document(&self, versions: Option<&MeshVersions>) -> Value {
        let mut document = json!({"clientVersion": {
            "version": program_version::title(),
            "tag": program_version::NUMBER,
            "gitRevision": program_version::COMMIT,
        }});
        if !self.is_short() {
            let [init, proxy] = built_in_images();
            document["builtInImages"] = json!({"istio-init": init, "istio-proxy": proxy});
        }
        if let Some(MeshVersions { control_plane, data_plane }) = versions {
            document["meshVersion"] = json!(control_plane);
            document["dataPlaneVersion"] = json!(data_plane);
        }
        document
    }

    fn is_short(&self) -> bool {
        self.short || matches!(self.output, Some(VersionForm::Short))
    }
}

fn ask(
    cluster_client: ClusterClient<'_>,
    streams: &mut Streams<'_>,
) -> anyhow::Result<MeshVersions> {
    cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
        reach(&client).await.context(name.clone())?;
        MeshVersions::read(client, cluster_client.control_plane, streams).await.context(name)
    })
}

/// Returns an error if the API server does not answer soon.
async fn reach(client: &Client) -> anyhow::Result<()> {
    match tokio::time::timeout(LONGEST_WAIT, client.apiserver_version()).await {
        Ok(answer) => answer.map(drop).context("asking for the version of the API server"),
        Err(_) => Err(anyhow!("no answer in {} seconds", LONGEST_WAIT.as_secs())),
    }
}

/// Returns the images of the built-in configuration: of the init container and of the proxy.
fn built_in_images() -> [String; 2] {
    let global = Values::default().global;
    let proxy = format!("{}/{}:{}", &*global.hub, &*global.proxy.image, &*global.tag);
    [(*global.proxy_init.image).to_owned(), proxy]
}

/// Time after which a cluster counts as unreachable.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  istioctl version
  istioctl version --remote=false
  istioctl version --context production -o json";
