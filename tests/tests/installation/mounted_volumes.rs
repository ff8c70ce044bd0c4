//! Volumes as a kubelet writes them: a directory per generation, and a link that is replaced
//! atomically.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::fixture::Fixture;

/// The mounted Secrets and `ConfigMap`s of one pod, in a folder that represents the root of its
/// container.
pub(crate) struct Mounted {
    root: tempfile::TempDir,
    volumes: Vec<Volume>,
    generation: u32,
}

struct Volume {
    kind: &'static str,
    object: String,
    path: PathBuf,
}

impl Mounted {
    /// Mounts the volumes of a pod template. A missing Secret or `ConfigMap` is an error, since it
    /// keeps a pod from starting.
    pub(crate) fn of_pod(fixture: &Fixture, pod: &Value) -> Result<Self> {
        let root = tempfile::tempdir().context("making a root")?;
        let mut volumes = Vec::new();
        for volume in pod["volumes"].as_array().into_iter().flatten() {
            let (kind, object) = match (&volume["secret"], &volume["configMap"]) {
                (Value::Object(secret), _) => ("secret", &secret["secretName"]),
                (_, Value::Object(map)) => ("configmap", &map["name"]),
                _ => anyhow::bail!("no such volume here: {volume}"),
            };
            let mounts = pod["containers"][0]["volumeMounts"].as_array();
            let mount = mounts.into_iter().flatten().find(|mount| mount["name"] == volume["name"]);
            let path = mount.and_then(|mount| mount["mountPath"].as_str());
            let path = path.context("a volume is not mounted")?.trim_start_matches('/');
            volumes.push(Volume {
                kind,
                object: object.as_str().context("a volume of no object")?.to_owned(),
                path: root.path().join(path),
            });
        }
        let mut mounted = Self { root, volumes, generation: 0 };
        mounted.update(fixture)?;
        Ok(mounted)
    }

    /// Returns a flag with the container's paths replaced by those outside of it.
    pub(crate) fn flag(&self, flag: &str) -> String {
        match flag.split_once("=/") {
            Some((name, path)) => format!("{name}={}", self.root.path().join(path).display()),
            None => flag.to_owned(),
        }
    }

    /// Updates every volume to the current state of its object.
    pub(crate) fn update(&mut self, fixture: &Fixture) -> Result<()> {
        self.generation += 1;
        for volume in &self.volumes {
            let object = fixture.get(volume.kind, &volume.object)?;
            let mut files = Vec::new();
            for (key, value) in object["data"].as_object().context("an object without data")? {
                let text = value.as_str().context("data are text")?;
                let content = match volume.kind {
                    "secret" => BASE64_STANDARD.decode(text).context("reading a Secret")?,
                    _ => text.into(),
                };
                files.push((key.as_str(), content));
            }
            publish(&volume.path, self.generation, &files)
                .with_context(|| format!("writing {}", volume.path.display()))?;
        }
        Ok(())
    }
}

fn publish(volume: &Path, generation: u32, files: &[(&str, Vec<u8>)]) -> Result<()> {
    let data = volume.join("..data");
    let before = fs::read_link(&data).ok();
    let folder = format!("..generation_{generation}");
    fs::create_dir_all(volume.join(&folder))?;
    for (name, content) in files {
        fs::write(volume.join(&folder).join(name), content)?;
        if before.is_none() {
            symlink(Path::new("..data").join(name), volume.join(name))?;
        }
    }
    symlink(&folder, volume.join("..data_tmp"))?;
    fs::rename(volume.join("..data_tmp"), data)?;
    if let Some(before) = before {
        fs::remove_dir_all(volume.join(before))?;
    }
    Ok(())
}
