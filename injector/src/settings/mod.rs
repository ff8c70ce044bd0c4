//! Settings of injection, parsed once.

pub(crate) mod annotation_json;
pub mod annotation_kind;
mod annotation_lists;
pub mod annotations;
pub mod inject_config;
pub(crate) mod known_keys;
pub mod outrigger;
pub mod proxy_configs;
pub mod scalars;
pub mod template_names;
mod value_images;
pub mod values;

use std::borrow::Cow;

use documents::notice::{Notice, Oddity};
use documents::yaml;
use inject_config::InjectConfig;
use mesh::mesh_config::MeshConfig;
use mesh::proxy_config::ProxyConfig;
use values::Values;

use crate::template::Templates;

/// All settings of injection.
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
    /// Flags and environment of the process.
    pub process: Process,
    /// Warnings about the documents, for the caller to report.
    pub notices: Vec<Notice>,
}

/// The documents that settings are parsed from; `None` means the embedded default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Documents<'a> {
    /// The `config` document of the ConfigMap `istio-sidecar-injector`.
    pub inject_config: Option<Document<'a>>,
    /// The `values` document of the same ConfigMap, JSON or YAML.
    pub values: Option<Document<'a>>,
    /// The `mesh` document of the ConfigMap `istio`.
    pub mesh_config: Option<Document<'a>>,
}

/// A document and its source.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// The source for messages: a file's path, or `ConfigMap ns/name, key`.
    pub source: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// Flags and environment of the process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The control plane's revision; empty for the default one.
    pub revision: String,
    /// Default for pods that do not choose: true if the proxy becomes a native sidecar.
    pub native_sidecars: bool,
    /// `COMPLIANCE_POLICY` of the process, passed to the proxy; empty for none.
    pub compliance_policy: String,
    /// True if pods run under `OpenShift`'s user ID rules (`PLATFORM=openshift`).
    pub openshift: bool,
}

impl Process {
    /// Returns the revision's name; the default revision is called `default`.
    pub fn revision_name(&self) -> &str {
        if self.revision.is_empty() { "default" } else { &self.revision }
    }
}

impl Settings {
    /// Returns the settings with the status port of a workload's own proxy configuration. As in
    /// Istio's handling of files, that port applies to the workload's probes and metrics too.
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

    /// Parses the documents. An error names the document's source, the key, the value and the
    /// allowed values.
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
        let hold = mesh.default_config.hold_application_until_proxy_starts();
        let odd = values.oddities(&inject.templates).into_iter().chain(values.canceled_hold(hold));
        let notices = notices.chain(values_document.notices(odd.collect()));
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

    /// Puts the line of the value before the problem, which begins with the value's path. A document
    /// of one line needs no line number.
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

/// An unusable document.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct SettingsError {
    /// The document's source.
    pub origin: String,
    /// The problem.
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
    use documents::nulls::without_nulls;
    use documents::unknown_keys::{Shape, message_of};
    use serde_json::{Value, json};

    use super::{Document, Documents, Process, Settings, Values, known_keys};
    use crate::inject::{InjectionOutcome, Target, inject};

    /// Documents of a shape each of which has one key alone, and that is null.
    fn nulls(shape: Shape) -> Vec<Value> {
        let within: Vec<Value> = match shape {
            Shape::Any => Vec::new(),
            Shape::Keys(plain, shaped) => {
                let plain = plain.split_whitespace().map(|key| (key, Shape::Any));
                let parts = plain.chain(shaped.iter().copied()).flat_map(|(key, shape)| {
                    nulls(shape).into_iter().map(move |part| serde_json::json!({ key: part }))
                });
                parts.collect()
            }
            Shape::List(shape) => nulls(*shape).into_iter().map(|null| vec![null].into()).collect(),
            Shape::Message(of) => {
                let parts = of.fields().flat_map(|field| {
                    let nulls = message_of(field.kind)
                        .map_or_else(|| vec![Value::Null], |of| nulls(Shape::Message(of)));
                    nulls.into_iter().map(|part| serde_json::json!({ field.json: part }))
                });
                parts.collect()
            }
        };
        within.into_iter().chain([Value::Null]).collect()
    }

    /// Returns a pod injected with the built-in documents, except that `document` replaces `name`.
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
            Ok(InjectionOutcome::Injected(injection)) => injection.pod,
            other => panic!("{document}: {other:?}"),
        }
    }

    /// Replaces each null by the zero value of its default's type: `""`, `false` or `[]`. Null
    /// mappings and nulls without a default stay null.
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
    fn null_key_counts_as_absent() {
        for (name, shape) in
            [("mesh", Shape::Message(go_types::MESH_CONFIG)), ("config", known_keys::INJECT_CONFIG)]
        {
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
            // A null key that has a default is empty, as in Go without the chart's defaults.
            let empty = emptied(&null, &defaults);
            assert_eq!(injected("values", &null), injected("values", &empty), "{null}");
        }
    }

    #[test]
    fn null_within_a_key_counts_as_absent() {
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
