//! What injection is configured by, parsed once.

pub(crate) mod annotation_json;
pub mod annotation_kind;
pub mod annotations;
pub mod excerpt;
pub mod inject_config;
mod known_keys;
mod kubernetes_object;
pub mod mesh_config;
pub mod near;
pub mod notice;
pub mod outrigger;
mod proto_json;
pub mod proxy_config;
mod proxy_config_rules;
pub mod proxy_configs;
mod proxy_field;
pub mod selector;
mod typed;
mod unknown_keys;
pub mod values;

use std::borrow::Cow;

use inject_config::InjectConfig;
use mesh_config::MeshConfig;
use notice::{Notice, Oddity};
use proxy_config::ProxyConfig;
use values::Values;

use crate::overlay::template::Templates;
use crate::yaml;

/// Everything injection is configured by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `config` document.
    pub inject: InjectConfig,
    /// Its templates, parsed.
    pub templates: Templates,
    /// The `values` document.
    pub values: Values,
    /// The mesh configuration.
    pub mesh: MeshConfig,
    /// What the process was started with.
    pub process: Process,
    /// What in the documents is hardly meant, for whoever loads them to tell.
    pub notices: Vec<Notice>,
}

/// The documents settings are read from; `None` means the embedded default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Documents<'a> {
    /// The `config` document of the ConfigMap `istio-sidecar-injector`.
    pub inject_config: Option<Document<'a>>,
    /// The `values` document of the same ConfigMap, JSON or YAML.
    pub values: Option<Document<'a>>,
    /// The `mesh` document of the ConfigMap `istio`.
    pub mesh_config: Option<Document<'a>>,
}

/// A document and where it came from, for messages: a file's path or `ConfigMap ns/name, key`.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// Where it came from.
    pub source: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What the process was started with, by flag or environment.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The control plane's revision; empty means the default one.
    pub revision: String,
    /// Whether the proxy becomes a native sidecar where a pod does not say.
    pub native_sidecars: bool,
    /// `COMPLIANCE_POLICY` of the process, handed to the proxy; empty for none.
    pub compliance_policy: String,
    /// Whether pods run under `OpenShift`'s rules for users (`PLATFORM=openshift`).
    pub openshift: bool,
}

impl Process {
    /// The revision's name; the default one is called `default`.
    pub fn revision_name(&self) -> &str {
        if self.revision.is_empty() { "default" } else { &self.revision }
    }
}

impl Settings {
    /// With the proxy configuration of a workload in a file over the mesh's, as Istio has it there:
    /// a status port of its own counts for its probes and its metrics too.
    pub fn with_proxy_config(&self, own: Option<&ProxyConfig>) -> Cow<'_, Self> {
        let mesh = &self.mesh.default_config;
        match own.filter(|own| own.status_port() != mesh.status_port()) {
            None => Cow::Borrowed(self),
            Some(own) => {
                let mut settings = self.clone();
                settings.mesh.default_config = own.clone();
                Cow::Owned(settings)
            }
        }
    }

    /// Parses the documents. An error names the document's source, the key, the value and what
    /// is allowed.
    pub fn parse(documents: &Documents<'_>, process: Process) -> Result<Self, SettingsError> {
        let inject_config = documents.inject_config.unwrap_or(INJECT_CONFIG);
        let values_document = documents.values.unwrap_or(VALUES);
        let mesh_config = documents.mesh_config.unwrap_or(MESH_CONFIG);
        let inject = inject_config.read(InjectConfig::parse)?;
        let values = values_document.read(Values::parse)?;
        let templates = Templates::parse(&inject.templates, &values.document);
        let templates = templates.map_err(|problem| SettingsError {
            origin: inject_config.source.to_owned(),
            problem: problem.to_string(),
        })?;
        let mesh = mesh_config.read(MeshConfig::parse)?;
        let notices = inject_config.notices(inject.oddities.clone());
        let notices = notices.chain(values_document.notices(values.oddities(&inject.templates)));
        let notices = notices.chain(mesh_config.notices(mesh.oddities())).collect();
        Ok(Self { inject, templates, values, mesh, process, notices })
    }
}

impl Document<'_> {
    fn read<T>(self, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, SettingsError> {
        parse(self.text).map_err(|problem| SettingsError {
            origin: self.source.to_owned(),
            problem: self.located(problem),
        })
    }

    /// The problem after its line, where the text has several: a problem begins with the path of the
    /// value.
    fn located(self, problem: String) -> String {
        let path = problem.split(": ").next().filter(|path| !path.contains(char::is_whitespace));
        let path = path.filter(|_| self.text.trim_end().contains('\n'));
        match path.and_then(|path| yaml::line_of(self.text, path)) {
            Some(line) => format!("line {line}: {problem}"),
            None => problem,
        }
    }

    fn notices(self, oddities: Vec<Oddity>) -> impl Iterator<Item = Notice> {
        oddities.into_iter().map(move |(path, problem)| Notice {
            origin: self.source.to_owned(),
            path,
            problem,
        })
    }
}

/// A document that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct SettingsError {
    /// Where the document came from.
    pub origin: String,
    /// What is wrong with it.
    pub problem: String,
}

const INJECT_CONFIG: Document<'_> = Document {
    source: "the built-in injection configuration",
    text: include_str!("defaults/inject_config.yaml"),
};

const VALUES: Document<'_> = Document { source: "the built-in values", text: "" };

const MESH_CONFIG: Document<'_> = Document {
    source: "the built-in mesh configuration",
    text: include_str!("defaults/mesh.yaml"),
};

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::unknown_keys::nulls;
    use super::{Document, Documents, Process, Settings, Values, known_keys};
    use crate::absent::without_nulls;
    use crate::inject::{Outcome, Target, inject};

    /// A pod injected by documents; the one that is called `name` is `document`.
    fn injected(name: &str, document: &Value) -> Value {
        let text = document.to_string();
        let one = |called: &str| {
            (called == name).then_some(Document { source: "the ConfigMap", text: &text })
        };
        let documents = Documents {
            inject_config: one("config"),
            values: one("values"),
            mesh_config: one("mesh"),
        };
        let settings = Settings::parse(&documents, Process::default());
        let settings = settings.unwrap_or_else(|error| panic!("{document}: {error}"));
        let annotations = json!({"inject.istio.io/templates": "sidecar"});
        let pod = json!({
            "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": annotations},
            "spec": {"containers": [{"name": "web", "image": "web:1", "ports": [{"containerPort": 80}]}]},
        });
        let target = Target::at_admission(pod, "shop");
        match inject(&settings, target) {
            Ok(Outcome::Injected(injection)) => injection.pod,
            other => panic!("{document}: {other:?}"),
        }
    }

    /// The document with what is null in it as an empty text where the default is one that is not
    /// empty, and without it where there is none; mappings stay null.
    fn emptied(document: &Value, default: &Value) -> Value {
        match (document, default) {
            (Value::Object(members), _) => members
                .iter()
                .map(|(key, value)| (key.clone(), emptied(value, &default[key])))
                .collect(),
            (_, Value::String(_) | Value::Number(_)) => json!(""),
            (_, Value::Bool(_)) => json!(false),
            (_, Value::Array(_)) => json!([]),
            _ => Value::Null,
        }
    }

    #[test]
    fn any_key_may_be_null() {
        for (name, shape) in [("mesh", known_keys::MESH), ("config", known_keys::INJECT_CONFIG)] {
            for null in nulls(shape).into_iter().filter(|null| name == "mesh" || !null.is_null()) {
                let mut absent = without_nulls(null.clone());
                if name == "config" {
                    absent["policy"] = json!("enabled");
                }
                assert_eq!(injected(name, &null), injected(name, &absent), "{name}: {null}");
            }
        }
        let defaults = Values::default().document;
        for null in nulls(known_keys::VALUES) {
            // A key that has a default is empty then, as Go has it without the chart's defaults.
            let empty = emptied(&null, &defaults);
            assert_eq!(injected("values", &null), injected("values", &empty), "{null}");
        }
    }

    #[test]
    fn nulls_within_what_a_key_holds_are_nothing() {
        for (name, with, without) in [
            ("config", json!({"aliases": {"a": null}}), json!({"aliases": {}})),
            ("config", json!({"templates": {"sidecar": null}}), json!({"templates": {}})),
            ("config", json!({"injectedAnnotations": {"a": null}}), json!({"policy": "enabled"})),
            ("config", json!({"neverInjectSelector": [null]}), json!({"policy": "enabled"})),
            (
                "config",
                json!({"neverInjectSelector": [{"matchLabels": {"app": null}}]}),
                json!({"policy": "enabled"}),
            ),
            ("config", json!({"defaultTemplates": [null]}), json!({"policy": "enabled"})),
            (
                "mesh",
                json!({"defaultConfig": {"tracing": {"zipkin": null, "sampling": 1}}}),
                json!({"defaultConfig": {"tracing": {"sampling": 1}}}),
            ),
            (
                "mesh",
                json!({"defaultConfig": {"image": {"imageType": null}}}),
                json!({"defaultConfig": {"image": {}}}),
            ),
            ("values", json!({"gateways": {"securityContext": null}}), json!({})),
            ("values", json!({"outrigger": {"revisionTags": null}}), json!({})),
        ] {
            assert_eq!(injected(name, &with), injected(name, &without), "{with}");
        }
    }
}
