//! Objects of files to analyze.

use injector::analysis::cluster_state::{AnalyzedNamespace, AnalyzedPod};
use injector::manifest::{Document, Manifest, ManifestError};
use serde_json::Value;

use super::snapshot::{Snapshot, origin};
use crate::inputs::InputFile;
use crate::{objects, unrendered};

impl Snapshot {
    /// Parses the documents of files. Returns the errors of those that cannot be parsed, too.
    pub(super) fn from_files(files: &[InputFile]) -> (Self, Vec<anyhow::Error>) {
        let (mut snapshot, mut errors) = (Self::default(), Vec::new());
        for file in files {
            for document in Document::split(&file.text) {
                if let Err(error) = snapshot.add_document(file, &document) {
                    let place = format!("{file}: document {}", document.number);
                    errors.push(unrendered::unreadable(error, &document).context(place));
                }
            }
        }
        (snapshot, errors)
    }

    /// Sets the namespace of objects without one.
    pub(super) fn with_default_namespace(mut self, namespace: &str) -> Self {
        for AnalyzedPod { origin, pod, .. } in &mut self.pods {
            if origin.namespace.is_empty() {
                namespace.clone_into(&mut origin.namespace);
            }
            pod["metadata"]["namespace"] = origin.namespace.clone().into();
        }
        for (origin, object) in &mut self.policies.objects {
            if origin.namespace.is_empty() {
                namespace.clone_into(&mut origin.namespace);
                object["metadata"]["namespace"] = namespace.into();
            }
        }
        for service in &mut self.policies.services {
            if service["metadata"]["namespace"].is_null() {
                service["metadata"]["namespace"] = namespace.into();
            }
        }
        let services = std::mem::take(&mut self.services).into_iter();
        self.services = services
            .map(|(of, name)| if of.is_empty() { (namespace.to_owned(), name) } else { (of, name) })
            .collect();
        self
    }

    fn add_document(
        &mut self,
        file: &InputFile,
        document: &Document<'_>,
    ) -> Result<(), ManifestError> {
        let manifest = Manifest::read(document)?;
        for template in manifest.pods() {
            let place = format!("{file}:{}", template.line);
            let metadata = &manifest.object(template)["metadata"];
            self.pods.push(AnalyzedPod {
                origin: origin(&template.workload.kind, metadata, place),
                pod: manifest.pod(template).clone(),
                running: false,
            });
        }
        for other in manifest.left_alone() {
            let kind = Some(other.object.kind).filter(|kind| !kind.is_empty());
            let kind = kind.unwrap_or_else(|| "without a kind".to_owned());
            if !ANALYZED.contains(&kind.as_str()) {
                *self.ignored.entry(kind).or_default() += 1;
            }
        }
        // A document of another kind may have content that only its own parser understands.
        for object in objects::parse(document.text).unwrap_or_default() {
            self.add_object(&object, format!("{file}:{}", document.content_line()));
        }
        Ok(())
    }

    fn add_object(&mut self, object: &Value, place: String) {
        let metadata = &object["metadata"];
        match object["kind"].as_str() {
            Some("Namespace") => {
                let origin = origin("Namespace", metadata, place);
                let mut labels = metadata["labels"].clone();
                // The API server sets this label.
                labels["kubernetes.io/metadata.name"] = origin.name.clone().into();
                let namespace = AnalyzedNamespace { origin, labels };
                self.namespaces.insert(namespace.origin.name.clone(), namespace);
            }
            Some("Service") => {
                let origin = origin("Service", metadata, place);
                self.services.insert((origin.namespace, origin.name));
                self.policies.services.push(object.clone());
            }
            Some("PeerAuthentication") => {
                let origin = origin("PeerAuthentication", metadata, place);
                self.policies.objects.push((origin, object.clone()));
            }
            Some("MutatingWebhookConfiguration") => self.add_webhook(object, place),
            _ => {}
        }
    }
}

/// Kinds without a pod template that the analysis uses.
const ANALYZED: [&str; 4] =
    ["Namespace", "Service", "MutatingWebhookConfiguration", "PeerAuthentication"];
