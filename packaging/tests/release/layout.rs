//! Reader of image layouts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use packaging::Digest;
use serde_json::Value;

pub(crate) struct Layout {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Layout {
    pub(crate) fn read(path: &Path) -> Self {
        let mut archive = tar::Archive::new(File::open(path).unwrap());
        let files = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (entry.path().unwrap().display().to_string(), bytes)
        });
        Self { files: files.collect() }
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.files[path]).unwrap()
    }

    pub(crate) fn check_digests(&self) {
        let blobs = self.files.iter().filter_map(|(path, bytes)| {
            let digest = path.strip_prefix("blobs/sha256/")?;
            (!digest.is_empty()).then_some((digest, bytes))
        });
        for (digest, bytes) in blobs {
            assert_eq!(digest, Digest::from_bytes(bytes).to_string());
        }
    }

    /// First artifact of a type.
    pub(crate) fn artifact(&self, artifact_type: &str) -> Value {
        let index = self.json("index.json");
        let mut manifests = index["manifests"].as_array().unwrap().iter();
        let found = manifests.find(|one| one["artifactType"] == artifact_type).unwrap();
        self.blob(&self.blob(found)["layers"][0])
    }

    /// Contents without digests and sizes, which change with each dependency.
    pub(crate) fn outline(&self) -> String {
        let mut text = String::new();
        let mut digests = BTreeMap::new();
        let index = self.json("index.json");
        for manifest in index["manifests"].as_array().unwrap() {
            self.outline_manifest(manifest, "", &mut digests, &mut text);
        }
        text
    }

    fn outline_manifest(
        &self,
        descriptor: &Value,
        indent: &str,
        digests: &mut BTreeMap<String, String>,
        text: &mut String,
    ) {
        let blob = self.blob(descriptor);
        let media_type = descriptor["mediaType"].as_str().unwrap();
        writeln!(text, "{indent}{media_type}").unwrap();
        let platform = &descriptor["platform"];
        if let Some(architecture) = platform["architecture"].as_str() {
            let platform = format!("{}/{architecture}", platform["os"].as_str().unwrap());
            let digest = descriptor["digest"].as_str().unwrap().to_owned();
            writeln!(text, "{indent}  platform {platform}").unwrap();
            digests.insert(digest, platform);
        }
        if let Some(subject) = blob["subject"]["digest"].as_str() {
            writeln!(text, "{indent}  subject {}", digests[subject]).unwrap();
        }
        for (key, value) in descriptor["annotations"].as_object().into_iter().flatten() {
            writeln!(text, "{indent}  {key}: {}", value.as_str().unwrap()).unwrap();
        }
        for (key, value) in blob["annotations"].as_object().into_iter().flatten() {
            writeln!(text, "{indent}  {key}: {}", value.as_str().unwrap()).unwrap();
        }
        for part in blob["layers"].as_array().into_iter().flatten() {
            writeln!(text, "{indent}  layer {}", part["mediaType"].as_str().unwrap()).unwrap();
        }
        if blob["config"]["mediaType"] == "application/vnd.oci.image.config.v1+json" {
            let mut config = self.blob(&blob["config"]);
            config["rootfs"].take();
            writeln!(text, "{indent}  {config}").unwrap();
        }
        for child in blob["manifests"].as_array().into_iter().flatten() {
            self.outline_manifest(child, &format!("{indent}  "), digests, text);
        }
    }

    fn blob(&self, descriptor: &Value) -> Value {
        let digest = descriptor["digest"].as_str().unwrap().trim_start_matches("sha256:");
        self.json(&format!("blobs/sha256/{digest}"))
    }
}
