//! Removal of the sidecar from a document, with the messages about it.

use anyhow::anyhow;
use injector::inject::reinject::status::STATUS;
use injector::manifest::{self, Edit, Manifest, PodTemplateRule};
use injector::uninject::uninject_template;
use reason::words;

use super::tally::Tally;
use crate::finding::Title;

/// A document without its injections.
pub(super) struct Uninjected {
    /// The new text, or the errors.
    pub(super) text: Result<String, Vec<anyhow::Error>>,
    pub(super) warnings: Vec<String>,
    /// The workloads that change.
    pub(super) changes: Vec<String>,
    pub(super) tally: Tally,
}

impl Uninjected {
    /// Removes the sidecars of a document.
    pub(super) fn new(document: &manifest::Document<'_>, rules: &[PodTemplateRule]) -> Self {
        let (text, tally) = (Ok(String::new()), Tally::default());
        let mut this = Self { text, warnings: Vec::new(), changes: Vec::new(), tally };
        match Manifest::read_by_rules(document, rules) {
            Ok(manifest) => {
                this.look_at_others(document, &manifest);
                this.text = this.uninject(document, &manifest);
            }
            Err(error) => this.text = Err(vec![error.into()]),
        }
        this
    }

    /// Counts objects without a known pod template. Warns about one that holds an injected pod.
    fn look_at_others(&mut self, document: &manifest::Document<'_>, manifest: &Manifest<'_>) {
        let is_injected = document.text.contains(STATUS);
        for other in manifest.left_alone() {
            self.tally.others += 1;
            let unknown = other.surprise.filter(|_| is_injected);
            let unknown = unknown.filter(|it| it.word() == words::UNKNOWN_KIND.as_str());
            self.warnings.extend(unknown.map(|reason| {
                let line = document.line + other.line - 1;
                let title = Title(&other.object);
                format!("line {line}: {title}: {}; {HINT}", reason.message())
            }));
        }
    }

    fn uninject(
        &mut self,
        document: &manifest::Document<'_>,
        manifest: &Manifest<'_>,
    ) -> Result<String, Vec<anyhow::Error>> {
        let (mut parts, mut errors) = (Vec::new(), Vec::new());
        for template in manifest.pods() {
            let title = format!("line {}: {}", template.line, Title(&template.workload));
            match uninject_template(manifest, template) {
                Ok(Some((place, uninjection))) => {
                    let warning = |doubt| format!("{title}: {doubt}");
                    self.warnings.extend(uninjection.doubts.iter().map(warning));
                    self.changes.push(format!("{title} would be uninjected"));
                    self.tally.uninjected += 1;
                    let patch = uninjection.patch().owned();
                    parts.push((place, uninjection, patch));
                }
                Ok(None) => self.tally.not_injected += 1,
                Err(error) => errors.push(anyhow!(error).context(title)),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let edits = parts.iter();
        let edits = edits.map(|(template, uninjection, patch)| Edit {
            template,
            patch,
            pod: &uninjection.pod,
        });
        let text = manifest.edit(&edits.collect::<Vec<_>>());
        text.map_err(|error| vec![anyhow!(error).context(format!("line {}", document.line))])
    }
}

const HINT: &str = "hint: name the pod template with --pod-template";
