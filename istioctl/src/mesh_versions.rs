//! Versions of the control plane and the proxies of a cluster, by the images of their pods.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;
use injector::cluster::pods::{self, Selection};
use kube::Client;
use serde::Serialize;
use serde_json::Value;

use crate::Streams;
use crate::progress::Progress;

/// Versions of a cluster.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct MeshVersions {
    pub(super) control_plane: Vec<ComponentVersion>,
    pub(super) data_plane: Vec<ProxyVersion>,
}

/// Version of the pods of a component.
#[derive(Debug, Eq, PartialEq, Serialize)]
pub(super) struct ComponentVersion {
    component: String,
    revision: String,
    version: String,
    image: String,
    pods: usize,
}

/// Version of proxies.
#[derive(Debug, Eq, PartialEq, Serialize)]
pub(super) struct ProxyVersion {
    version: String,
    image: String,
    pods: usize,
}

impl MeshVersions {
    /// Reads all pods of the cluster. Needs list on them.
    pub(super) async fn read(
        client: Client,
        namespace: &str,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Self> {
        let (mut tally, mut progress) = (ImageTally::default(), Progress::new(streams, "pods"));
        let read = pods::each(client, Selection::default(), PAGE, |pod| {
            progress.count();
            tally.add(&pod, namespace);
        });
        read.await.context("listing pods")?;
        Ok(tally.into())
    }

    /// Returns a line for each version; with the image if it is not short.
    pub(super) fn lines(&self, short: bool) -> String {
        let mut text = String::new();
        let image = |image: &str| if short { String::new() } else { format!(", image {image}") };
        for it in &self.control_plane {
            let ComponentVersion { component, revision, version, pods, .. } = it;
            let revision = match revision.as_str() {
                "default" => String::new(),
                revision => format!(", revision {revision}"),
            };
            let image = image(&it.image);
            let _ = writeln!(
                text,
                "control plane version: {component} {version} ({}{revision}{image})",
                counted(*pods, "pod", "pods")
            );
        }
        for ProxyVersion { version, image: name, pods } in &self.data_plane {
            let (proxies, image) = (counted(*pods, "proxy", "proxies"), image(name));
            let _ = writeln!(text, "data plane version: {version} ({proxies}{image})");
        }
        text
    }
}

/// Number of pods by image.
#[derive(Debug, Default)]
struct ImageTally {
    /// Number of pods by component, revision and image.
    control_plane: BTreeMap<[String; 3], usize>,
    proxies: BTreeMap<String, usize>,
}

impl ImageTally {
    /// Counts a pod.
    fn add(&mut self, pod: &Value, control_plane: &str) {
        let labels = &pod["metadata"]["labels"];
        let component = labels["app"].as_str().filter(|app| COMPONENTS.contains(app));
        if let Some(component) = component.filter(|_| pod["metadata"]["namespace"] == control_plane)
        {
            let revision = labels["istio.io/rev"].as_str().unwrap_or("default");
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
            let key = [component, revision, image].map(str::to_owned);
            *self.control_plane.entry(key).or_default() += 1;
        }
        let lists = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array());
        let mut containers = lists.into_iter().flatten().flatten();
        let proxy = containers.find(|container| container["name"] == "istio-proxy");
        if let Some(image) = proxy.and_then(|proxy| proxy["image"].as_str()) {
            *self.proxies.entry(image.to_owned()).or_default() += 1;
        }
    }
}

impl From<ImageTally> for MeshVersions {
    fn from(ImageTally { control_plane, proxies }: ImageTally) -> Self {
        let component = |([component, revision, image], pods): ([String; 3], usize)| {
            let version = tag(&image).to_owned();
            ComponentVersion { component, revision, version, image, pods }
        };
        let proxy = |(image, pods): (String, usize)| {
            let version = tag(&image).to_owned();
            ProxyVersion { version, image, pods }
        };
        Self {
            control_plane: control_plane.into_iter().map(component).collect(),
            data_plane: proxies.into_iter().map(proxy).collect(),
        }
    }
}

/// Returns the tag of an image, or its digest if it has no tag.
fn tag(image: &str) -> &str {
    let (name, digest) = image.split_once('@').unwrap_or((image, ""));
    let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
    match (file.split_once(':'), digest) {
        (Some((_, tag)), _) => tag,
        (None, "") => "latest",
        (None, digest) => digest,
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Values of the label `app` of the pods of a control plane: ours, and Istio's.
const COMPONENTS: &[&str] = &["sidecar-injector", "pilot-discovery", "istiod"];

/// Page size of the list of pods, which bounds the memory.
const PAGE: u32 = 500;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn version_of_an_image_is_its_tag() {
        for (image, version) in [
            ("istio/proxyv2:1.28.0", "1.28.0"),
            ("localhost:5000/proxyv2", "latest"),
            ("localhost:5000/proxyv2:1.28.0-debug@sha256:1234", "1.28.0-debug"),
            ("proxyv2@sha256:1234", "sha256:1234"),
        ] {
            assert_eq!(tag(image), version, "{image}");
        }
    }

    #[test]
    fn pods_are_counted_by_component_and_image() {
        let component = |namespace: &str, app: &str, revision: &str| {
            json!({
                "metadata": {"namespace": namespace, "labels": {"app": app, "istio.io/rev": revision}},
                "spec": {"containers": [{"name": "x", "image": format!("example/{app}:1.2")}]},
            })
        };
        let proxy = |list: &str, image: &str| json!({"metadata": {}, "spec": {list: [{"name": "istio-proxy", "image": image}]}});
        let mut tally = ImageTally::default();
        for pod in [
            component("istio-system", "istiod", "default"),
            component("istio-system", "sidecar-injector", "canary"),
            component("istio-system", "sidecar-injector", "canary"),
            component("elsewhere", "istiod", "default"),
            component("istio-system", "web", "default"),
            proxy("containers", "a:1"),
            proxy("initContainers", "a:1"),
            proxy("containers", "a:2"),
        ] {
            tally.add(&pod, "istio-system");
        }
        let versions = MeshVersions::from(tally);
        assert_eq!(
            versions.lines(true),
            "control plane version: istiod 1.2 (1 pod)\ncontrol plane version: sidecar-injector \
             1.2 (2 pods, revision canary)\ndata plane version: 1 (2 proxies)\ndata plane version: \
             2 (1 proxy)\n"
        );
        let long = versions.lines(false);
        assert!(long.ends_with("data plane version: 2 (1 proxy, image a:2)\n"), "{long}");
    }
}
