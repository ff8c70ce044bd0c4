//! `manifests/` as users compose them: the base with components, rendered by kustomize.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::programs::{Programs, repository};
use crate::tool;

/// Parts of a kustomization: the components in their order, and the names for those that need one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Composition {
    /// Folders of `manifests/components`.
    pub components: &'static [&'static str],
    /// The name for the component `revision`.
    pub revision: Option<&'static str>,
    /// The names for the component `tag`. Each tag after the first is a kustomization on top of the
    /// previous one.
    pub tags: &'static [&'static str],
}

impl Composition {
    /// Returns the base with components that need no name.
    pub const fn new(components: &'static [&'static str]) -> Self {
        Self { components, revision: None, tags: &[] }
    }

    /// Renders it to YAML documents.
    pub fn render(&self, programs: &Programs) -> Result<String> {
        self.render_over(programs, "base")
    }

    /// Renders it over a folder of `manifests`.
    pub fn render_over(&self, programs: &Programs, folder_below: &str) -> Result<String> {
        self.render_with(programs, folder_below, &[])
    }

    /// Renders it over a folder of `manifests`, and components over its tags.
    pub fn render_with(
        &self,
        programs: &Programs,
        folder_below: &str,
        over_tags: &[&str],
    ) -> Result<String> {
        let folder = TempDir::new().context("making a folder for kustomizations")?;
        let path = folder.path().canonicalize().context("finding the folder")?;
        let manifests = relative(&path.join("any"), &repository().join("manifests"))?;
        let component = |name: &&str| manifests.join("components").join(name);
        let mut resources = vec![manifests.join(folder_below)];
        let components: Vec<_> = self.components.iter().map(component).collect();
        let mut layer = path.join("install");
        if let Some(revision) = self.revision {
            resources.push("revision.yaml".into());
            write(
                &layer.join("revision.yaml"),
                &text_for_kustomize("revision", "revision", revision),
            )?;
        }
        write_kustomization(&layer, &resources, &components)?;
        for tag in self.tags {
            let resources = [Path::new("..").join(layer.file_name().unwrap_or_default())];
            let resources = [resources.as_slice(), &["tag.yaml".into()]].concat();
            layer = path.join(format!("tag-{tag}"));
            write(&layer.join("tag.yaml"), &text_for_kustomize("tag", "tag", tag))?;
            write_kustomization(&layer, &resources, &[component(&"tag")])?;
        }
        if !over_tags.is_empty() {
            let resources = [Path::new("..").join(layer.file_name().unwrap_or_default())];
            let components: Vec<_> = over_tags.iter().map(component).collect();
            layer = path.join("over-tags");
            write_kustomization(&layer, &resources, &components)?;
        }
        kustomize(programs, &layer).with_context(|| format!("{self:?}"))
    }
}

/// Renders a folder of `manifests` with components, and with the `ConfigMaps` of the texts that they
/// take: name, key and text.
pub fn render(
    programs: &Programs,
    folder_below: &str,
    components: &[&str],
    texts: &[(&str, &str, &str)],
) -> Result<String> {
    let folder = TempDir::new().context("making a folder for a kustomization")?;
    let path = folder.path().canonicalize().context("finding the folder")?;
    let manifests = relative(&path, &repository().join("manifests"))?;
    let mut resources = vec![manifests.join(folder_below)];
    let mut maps = BTreeMap::new();
    for (name, key, text) in texts {
        let empty = || text_for_kustomize(name, key, text);
        maps.entry(*name).or_insert_with(empty)["data"][*key] = (*text).into();
    }
    for (name, map) in maps {
        let file = format!("{name}.yaml");
        write(&path.join(&file), &map)?;
        resources.push(file.into());
    }
    let component = |name: &&str| manifests.join("components").join(name);
    write_kustomization(&path, &resources, &components.iter().map(component).collect::<Vec<_>>())?;
    kustomize(programs, &path).with_context(|| format!("{folder_below} with {components:?}"))
}

fn kustomize(programs: &Programs, folder: &Path) -> Result<String> {
    let kubectl = programs.kubernetes("kubectl")?;
    let output = tool::output(Command::new(kubectl).arg("kustomize").arg(folder), "")?;
    if !output.status.success() {
        bail!("kubectl kustomize: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("kubectl kustomize writes UTF-8")
}

/// Returns a ConfigMap that kustomize reads and does not render.
fn text_for_kustomize(name: &str, key: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "annotations": {"config.kubernetes.io/local-config": "true"},
        },
        "data": {key: text},
    })
}

fn write_kustomization(folder: &Path, resources: &[PathBuf], components: &[PathBuf]) -> Result<()> {
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "sortOptions": {"order": "legacy"},
        "resources": resources,
        "components": components,
    });
    write(&folder.join("kustomization.yaml"), &kustomization)
}

/// Writes a document as JSON, which is YAML.
fn write(path: &Path, document: &Value) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    fs::write(path, document.to_string()).with_context(|| format!("writing {}", path.display()))
}

/// Returns the relative path from a folder to another. kustomize accepts no absolute path.
fn relative(from: &Path, to: &Path) -> Result<PathBuf> {
    let to = to.canonicalize().with_context(|| format!("finding {}", to.display()))?;
    let up = from.components().skip(1).map(|_| "..");
    Ok(up.collect::<PathBuf>().join(to.strip_prefix("/").context("an absolute path")?))
}
