//! The `config` document of the ConfigMap `istio-sidecar-injector`.

use std::collections::BTreeMap;

use documents::notice::{self, Oddity};
use documents::nulls::without_nulls;
use documents::typed::typed;
use documents::unknown_keys::unknown_keys;
use documents::{kubernetes_object, suggest};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::annotations::{Annotations, key};
use super::known_keys;
use crate::kubernetes::label_selector::LabelSelector;
use crate::settings::template_names;

/// Injection policy, selectors and custom templates.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct InjectConfig {
    /// Default decision for pods without an `inject` label or annotation.
    pub policy: Policy,
    /// Templates of a pod that names none.
    pub default_templates: Vec<String>,
    /// Go templates by name. A name that is absent here means the built-in overlay of that name.
    pub templates: BTreeMap<String, String>,
    /// Names that stand for several templates. Aliases within an alias are not expanded.
    pub aliases: BTreeMap<String, Vec<String>>,
    /// Pods that are not injected unless they request it.
    pub never_inject_selector: Vec<LabelSelector>,
    /// Pods that are injected even under policy `disabled`.
    pub always_inject_selector: Vec<LabelSelector>,
    /// Annotations that every injected pod gets. They replace the pod's own values.
    pub injected_annotations: BTreeMap<String, String>,
    /// Suspicious parts of the document: the path of a key, and the problem.
    #[serde(skip)]
    pub oddities: Vec<(String, String)>,
}

impl InjectConfig {
    /// Parses the document as Istio does. A mapping with any of the document's keys is a
    /// configuration; any other text is the template `sidecar`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = notice::read(text);
        if let Ok((document, _)) = &read {
            kubernetes_object::refuse(document, "config")?;
        }
        match read {
            Ok((Value::Object(document), repeated))
                if KEYS.iter().any(|key| document.contains_key(*key)) =>
            {
                let document = Value::Object(document);
                let unknown = unknown_keys(&document, known_keys::INJECT_CONFIG);
                let config: Self = typed(without_nulls(document))?;
                let mut oddities: Vec<_> = unknown.into_iter().map(notice::unknown).collect();
                oddities.extend(config.without_effect());
                oddities.extend(repeated);
                Ok(Self { oddities, ..config })
            }
            // A template without actions renders to its own text.
            Err(error) if looks_like_configuration(text) || !text.contains(ACTION) => {
                Err(error.to_string())
            }
            Ok((document, _)) if !looks_like_template(&document, text) => Err(format!(
                "it has none of the keys of a configuration ({}), and as a template it has neither \
                 metadata nor spec",
                KEYS.join(", ")
            )),
            Ok(_) | Err(_) => Ok(Self {
                templates: BTreeMap::from([(SIDECAR.to_owned(), text.to_owned())]),
                ..Self::default()
            }),
        }
    }

    /// Drops everything except the templates, as Istio's `kube-inject` does. Returns the keys that
    /// would have had an effect.
    pub fn keep_templates_alone(&mut self) -> Vec<&'static str> {
        let whole = std::mem::take(self);
        self.templates.clone_from(&whole.templates);
        self.oddities.clone_from(&whole.oddities);
        let differs = [
            ("policy", whole.policy != self.policy),
            ("defaultTemplates", whole.default_templates() != self.default_templates()),
            ("aliases", whole.aliases != self.aliases),
            ("neverInjectSelector", whole.never_inject_selector != self.never_inject_selector),
            ("alwaysInjectSelector", whole.always_inject_selector != self.always_inject_selector),
            ("injectedAnnotations", whole.injected_annotations != self.injected_annotations),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// Returns the values that have no effect.
    fn without_effect(&self) -> Vec<Oddity> {
        let mut oddities = Vec::new();
        if let Policy::Unknown(word) = &self.policy {
            let hint = suggest::did_you_mean(word, &["enabled", "disabled"]);
            let problem =
                format!("{word:?} is not enabled or disabled, so no pod is injected{hint}");
            oddities.push(("policy".to_owned(), problem));
        }
        for (key, selectors) in [
            ("neverInjectSelector", &self.never_inject_selector),
            ("alwaysInjectSelector", &self.always_inject_selector),
        ] {
            for (index, selector) in selectors.iter().enumerate() {
                if let Some(problem) = selector.problem() {
                    let problem = format!("{problem}, so it selects no pod");
                    oddities.push((format!("{key}[{index}]"), problem));
                }
            }
        }
        for (index, name) in self.default_templates.iter().enumerate() {
            if !self.aliases.contains_key(name) && !template_names::exists(name, &self.templates) {
                let effect = "every pod without a template annotation is denied";
                oddities.push((format!("defaultTemplates[{index}]"), self.missing(name, effect)));
            }
        }
        for (alias, names) in &self.aliases {
            if names.is_empty() {
                let problem = "resolves to no template, so nothing is injected";
                oddities.push((format!("aliases.{alias}"), problem.to_owned()));
            }
            for (index, name) in names.iter().enumerate() {
                if !template_names::exists(name, &self.templates) {
                    let effect = "every pod that requests the alias is denied";
                    oddities
                        .push((format!("aliases.{alias}[{index}]"), self.missing(name, effect)));
                }
            }
        }
        oddities
    }

    /// Returns the message about a name for which no template exists.
    fn missing(&self, name: &str, effect: &str) -> String {
        let have = template_names::names(&self.templates);
        let hint = suggest::did_you_mean(name, &have);
        format!("{name:?} is not a template, so {effect}; have {}{hint}", have.join(", "))
    }

    /// Returns the templates of a pod that names none.
    pub fn default_templates(&self) -> &[String] {
        static FALLBACK: std::sync::LazyLock<[String; 1]> =
            std::sync::LazyLock::new(|| [SIDECAR.to_owned()]);
        if self.default_templates.is_empty() { &*FALLBACK } else { &self.default_templates }
    }
}

/// Default decision for pods without an `inject` label or annotation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Policy {
    /// Pods are injected.
    #[default]
    Enabled,
    /// Pods are not injected.
    Disabled,
    /// An unknown word. No pod is injected, as in Istio.
    Unknown(String),
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)?.as_str() {
            "enabled" => Self::Enabled,
            "disabled" => Self::Disabled,
            other => Self::Unknown(other.to_owned()),
        })
    }
}

/// True if a line of the text begins with a key of the configuration. Such a document is reported
/// as a configuration with a syntax error; a template hardly ever has such a line.
fn looks_like_configuration(text: &str) -> bool {
    text.lines()
        .any(|line| line.split_once(':').is_some_and(|(key, _)| KEYS.contains(&key.trim_end())))
}

/// True if the text may be a bare template: it has `metadata` or `spec`, or a template action.
fn looks_like_template(document: &Value, text: &str) -> bool {
    text.contains(ACTION) || ["metadata", "spec"].iter().any(|key| document.get(*key).is_some())
}

const KEYS: [&str; 8] = [
    "policy",
    "defaultTemplates",
    "templates",
    "aliases",
    "neverInjectSelector",
    "alwaysInjectSelector",
    "injectedAnnotations",
    "template",
];

const SIDECAR: &str = "sidecar";

/// Start of an action of a Go template.
const ACTION: &str = "{{";

/// The names of the overlays: those that the pod asks for, or else the configuration's default
/// ones, aliases resolved.
pub fn templates(config: &InjectConfig, annotations: Annotations<'_>) -> Vec<String> {
    let names: Vec<String> = match annotations.get(key::TEMPLATES) {
        Some(names) => names.split(',').map(|name| name.trim().to_owned()).collect(),
        None => config.default_templates().to_vec(),
    };
    let resolved = names.into_iter().flat_map(|name| match config.aliases.get(&name) {
        Some(names) => names.clone(),
        None => vec![name],
    });
    resolved.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_with_a_known_key_is_a_configuration() {
        let config = InjectConfig::parse("policy: disabled\ninjectedAnnotations:\n").unwrap();
        assert_eq!(config.policy, Policy::Disabled);
        assert_eq!(config.default_templates(), ["sidecar"]);
        assert!(config.templates.is_empty());
    }

    #[test]
    fn likely_mistakes_in_a_configuration_get_a_warning() {
        let config = InjectConfig::parse(
            "policy: enable\npolicies: x\nneverInjectSelectors: []\nalwaysInjectSelector:\n\
             - matchLabel: {a: b}\n- matchExpressions: [{key: a, operator: Is}]\n",
        );
        let expected = [
            ("alwaysInjectSelector[0].matchLabel", "unknown key; did you mean matchLabels?"),
            ("neverInjectSelectors", "unknown key; did you mean neverInjectSelector?"),
            ("policies", "unknown key"),
            (
                "policy",
                "\"enable\" is not enabled or disabled, so no pod is injected; did you mean \
                 enabled?",
            ),
            (
                "alwaysInjectSelector[1]",
                "matchExpressions: \"Is\" is not In, NotIn, Exists or DoesNotExist, so it selects no pod",
            ),
        ];
        let expected = expected.map(|(path, problem)| (path.to_owned(), problem.to_owned()));
        assert_eq!(config.unwrap().oddities, expected);
        let repeated = InjectConfig::parse("policy: enabled\npolicy: disabled\n").unwrap();
        assert_eq!(repeated.policy, Policy::Disabled);
        assert_eq!(
            repeated.oddities,
            [(
                "line 2".to_owned(),
                format!("duplicate mapping key: policy; {}", notice::LAST_COUNTS)
            )]
        );
        let good = InjectConfig::parse("policy: disabled\ntemplate: poison\n").unwrap();
        assert_eq!(good.oddities, []);
    }

    #[test]
    fn names_of_undefined_templates_get_a_warning() {
        let config = InjectConfig::parse(
            "defaultTemplates: [sidecr, mine, both, sidecar]\ntemplates: {mine: ''}\n\
             aliases: {both: [mine, none], empty: [], good: [sidecar, mine]}\n",
        );
        let have = "have gateway, grpc-agent, grpc-simple, mine, sidecar";
        let expected = [
            (
                "defaultTemplates[0]",
                format!(
                    "\"sidecr\" is not a template, so every pod without a template annotation is denied; \
                     {have}; did you mean sidecar?"
                ),
            ),
            (
                "aliases.both[1]",
                format!(
                    "\"none\" is not a template, so every pod that requests the alias is denied; {have}"
                ),
            ),
            ("aliases.empty", "resolves to no template, so nothing is injected".to_owned()),
        ];
        let expected = expected.map(|(path, problem)| (path.to_owned(), problem));
        assert_eq!(config.unwrap().oddities, expected);
    }

    #[test]
    fn text_without_configuration_keys_is_a_bare_template() {
        for text in ["spec:\n  containers: []\n", "{{ define `x` }}\nmetadata:\n{{ end }}"] {
            let config = InjectConfig::parse(text).unwrap();
            assert_eq!(config.templates["sidecar"], text);
        }
    }

    #[test]
    fn misspelt_configuration_is_not_a_template() {
        for text in ["polcy: enabled\n", "", "# nothing\n", "just words", "[]"] {
            let error = InjectConfig::parse(text).unwrap_err();
            assert!(error.contains("none of the keys of a configuration (policy, "), "{error}");
        }
    }

    #[test]
    fn malformed_configuration_is_not_a_template() {
        for text in ["policy: enabled\ntemplates: [\n", "{a: [}", "metadata: [\n"] {
            let error = InjectConfig::parse(text).unwrap_err();
            assert!(error.contains("line"), "{error}");
        }
        let error = InjectConfig::parse("defaultTemplates: sidecar\n").unwrap_err();
        assert!(error.contains("where a list is expected"), "{error}");
    }
}
