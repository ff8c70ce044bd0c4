//! Provenance: an in-toto statement with the predicate of SLSA 1.

use serde::Serialize;

use crate::digest::Digest;

/// Origin of a build.
#[derive(Debug, Clone)]
pub struct Provenance {
    /// URI of the builder.
    pub builder: String,
    /// URI of the build's log, if there is one.
    pub invocation: Option<String>,
    /// Version of the packages.
    pub version: String,
    /// Platforms, as they were asked for.
    pub platforms: Vec<String>,
    /// URL of the source code.
    pub source: Option<String>,
    /// Revision of the source code, without changes beside it.
    pub revision: Option<String>,
    /// Files that the build started from, with their digests.
    pub materials: Vec<(String, Digest)>,
}

impl Provenance {
    /// Returns the statement about files.
    #[expect(clippy::expect_used, reason = "the message states the invariant")]
    pub fn statement(&self, subjects: &[(String, Digest)]) -> String {
        let revision = self.revision.as_ref().map(|revision| Resource {
            name: None,
            uri: self.source.as_ref().map(|source| format!("git+{source}")),
            digest: DigestSet { sha256: None, git_commit: Some(revision.clone()) },
        });
        let statement = Statement {
            kind: "https://in-toto.io/Statement/v1",
            subject: subjects.iter().map(Resource::from_file).collect(),
            predicate_type: "https://slsa.dev/provenance/v1",
            predicate: Predicate {
                build_definition: BuildDefinition {
                    build_type: BUILD_TYPE,
                    external_parameters: ExternalParameters {
                        source: self.source.as_deref(),
                        version: &self.version,
                        platforms: &self.platforms,
                    },
                    resolved_dependencies: revision
                        .into_iter()
                        .chain(self.materials.iter().map(Resource::from_file))
                        .collect(),
                },
                run_details: RunDetails {
                    builder: Builder { id: &self.builder },
                    metadata: self
                        .invocation
                        .as_deref()
                        .map(|invocation_id| BuildMetadata { invocation_id }),
                },
            },
        };
        serde_json::to_string_pretty(&statement).expect("the statement has text keys alone") + "\n"
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Statement<'a> {
    #[serde(rename = "_type")]
    kind: &'static str,
    subject: Vec<Resource>,
    predicate_type: &'static str,
    predicate: Predicate<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Predicate<'a> {
    build_definition: BuildDefinition<'a>,
    run_details: RunDetails<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BuildDefinition<'a> {
    build_type: &'static str,
    external_parameters: ExternalParameters<'a>,
    resolved_dependencies: Vec<Resource>,
}

#[derive(Serialize)]
struct ExternalParameters<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    version: &'a str,
    platforms: &'a [String],
}

#[derive(Serialize)]
struct RunDetails<'a> {
    builder: Builder<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<BuildMetadata<'a>>,
}

#[derive(Serialize)]
struct Builder<'a> {
    id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BuildMetadata<'a> {
    invocation_id: &'a str,
}

/// Resource descriptor of in-toto.
#[derive(Serialize)]
struct Resource {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    digest: DigestSet,
}

impl Resource {
    fn from_file((name, digest): &(String, Digest)) -> Self {
        let digest = DigestSet { sha256: Some(digest.to_string()), git_commit: None };
        Self { name: Some(name.clone()), uri: None, digest }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DigestSet {
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git_commit: Option<String>,
}

/// `make dist`, as `docs/packages.md` describes it.
const BUILD_TYPE: &str = "urn:outrigger:make-dist:v1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_names_files_revision_and_builder() {
        let provenance = Provenance {
            builder: "urn:outrigger:builder:local".to_owned(),
            invocation: None,
            version: "0.1.0".to_owned(),
            platforms: vec!["linux/amd64".to_owned()],
            source: Some("https://example.com/outrigger".to_owned()),
            revision: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
            materials: vec![("Cargo.lock".to_owned(), Digest::from_bytes(b"lock"))],
        };
        let subject = ("istio-init_0.1.0_amd64.deb".to_owned(), Digest::from_bytes(b"package"));
        insta::assert_snapshot!(provenance.statement(&[subject]));
    }
}
