//! CycloneDX document.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::component::Component;

/// Bill of materials: a subject, its components, and which one uses which.
#[derive(Debug, Clone)]
pub struct Bom {
    subject: Component,
    components: BTreeMap<String, Component>,
    dependencies: BTreeMap<String, BTreeSet<String>>,
}

impl Bom {
    /// Returns a bill without components.
    pub fn new(subject: Component) -> Self {
        let dependencies = BTreeMap::from([(subject.reference.clone(), BTreeSet::new())]);
        Self { subject, components: BTreeMap::new(), dependencies }
    }

    /// Adds the component `used`, which `user` needs.
    pub fn add_dependency(&mut self, user: &Component, used: &Component) {
        self.components.entry(used.reference.clone()).or_insert_with(|| used.clone());
        let dependencies = &mut self.dependencies;
        dependencies.entry(user.reference.clone()).or_default().insert(used.reference.clone());
        dependencies.entry(used.reference.clone()).or_default();
    }

    /// Adds a component that the subject contains.
    pub fn add(&mut self, component: &Component) {
        let subject = self.subject.clone();
        self.add_dependency(&subject, component);
    }

    /// Adds the subject of another bill with its components.
    pub fn include(&mut self, other: &Self) {
        self.add(&other.subject);
        for (reference, component) in &other.components {
            self.components.entry(reference.clone()).or_insert_with(|| component.clone());
        }
        for (user, used) in &other.dependencies {
            self.dependencies.entry(user.clone()).or_default().extend(used.iter().cloned());
        }
    }

    /// Returns the document. Equal bills give equal text: it has no serial number.
    #[expect(clippy::expect_used, reason = "the message states the invariant")]
    pub fn to_json(&self, timestamp: Option<&str>) -> String {
        let dependencies = self.dependencies.iter();
        let document = Document {
            bom_format: "CycloneDX",
            spec_version: "1.6",
            version: 1,
            metadata: Metadata { timestamp, component: &self.subject },
            components: self.components.values().collect(),
            dependencies: dependencies
                .map(|(reference, depends_on)| Dependency { reference, depends_on })
                .collect(),
        };
        serde_json::to_string_pretty(&document).expect("the document has text keys alone") + "\n"
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: Metadata<'a>,
    components: Vec<&'a Component>,
    dependencies: Vec<Dependency<'a>>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<&'a str>,
    component: &'a Component,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency<'a> {
    #[serde(rename = "ref")]
    reference: &'a str,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    depends_on: &'a BTreeSet<String>,
}
