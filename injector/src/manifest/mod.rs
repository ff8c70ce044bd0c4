//! YAML and JSON files of Kubernetes objects: finds the pod templates and edits them in place.
//!
//! Unchanged parts stay byte for byte: comments, order, quoting, anchors, line breaks, unknown
//! fields, other documents. An edited text is parsed again and compared with the expected value, so
//! that an edit is right or an error, never silently wrong. Edits of whole lines in plain block
//! style skip this check, except in builds with debug assertions, which all tests are.

mod apply;
mod comments;
mod document;
mod edit;
mod left_alone;
mod list;
mod pod_template;
mod pod_template_rule;
mod render;
mod source;
mod spelling;
mod tree;
mod unread;

use json_patch::Patch;
use serde_json::Value;

pub use document::Document;
use document::Role;
use edit::Edited;
pub use left_alone::LeftAlone;
pub use pod_template::PodTemplate;
pub use pod_template_rule::{PodTemplateRule, PodTemplateRuleError};
use render::{BlockText, Style};
use source::Source;
use spelling::Spellings;
use tree::{Node, NodeKind};

use crate::kubernetes::workload::Workload;
use documents::yaml::{self, YamlError};

/// A parsed document with its pod templates.
#[derive(Debug)]
pub struct Manifest<'a> {
    source: Source<'a>,
    root: Option<Node>,
    value: Value,
    /// True if the text has no anchors, tags and the like.
    ordinary: bool,
    role: Role,
    rules: &'a [PodTemplateRule],
    pods: Vec<PodTemplate>,
    /// The object of a document that is not YAML and holds no pod.
    unread: Option<LeftAlone>,
}

/// The edit of a pod template.
#[derive(Debug)]
pub struct Edit<'a> {
    /// The pod template.
    pub template: &'a PodTemplate,
    /// The RFC 6902 patch that turns it into `pod`.
    pub patch: &'a Patch,
    /// The new value.
    pub pod: &'a Value,
}

/// A document that cannot be parsed or edited.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ManifestError {
    /// The edited text would not have the expected value.
    #[error("{0}; hint: write this part in block style, without anchors and aliases")]
    Edit(String),
    /// A workload without its pod template.
    #[error(
        "line {line}: {kind} {name:?}: {template} is not an object; a pod template is required"
    )]
    NoTemplate {
        /// The line of the file at which the workload starts.
        line: usize,
        /// The workload's kind.
        kind: String,
        /// The workload's name.
        name: String,
        /// The expected path of the pod template.
        template: String,
    },
    /// A rule of the user whose path leads to another value than a pod template.
    #[error(
        "line {line}: {kind} {name:?}: --pod-template {rule}: the value there has no list \
         spec.containers, so it is not a pod template; hint: {hint}"
    )]
    NotATemplate {
        /// The line of the file at which the object starts.
        line: usize,
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// The rule.
        rule: String,
        /// The rule to write instead.
        hint: String,
    },
    /// The text is not YAML.
    #[error(transparent)]
    Read(#[from] YamlError),
}

impl<'a> Manifest<'a> {
    /// Parses a document. A document without a workload of a known kind has no pod templates. If it
    /// is not even YAML, it is [left alone](Self::left_alone) with a warning.
    pub fn read(document: &Document<'a>) -> Result<Self, ManifestError> {
        Self::read_by_rules(document, &[])
    }

    /// Parses a document as [`Manifest::read`] does, with pod templates in further kinds.
    pub fn read_by_rules(
        document: &Document<'a>,
        rules: &'a [PodTemplateRule],
    ) -> Result<Self, ManifestError> {
        Self::read_text(document, rules).map_err(|error| match error {
            ManifestError::Read(mut error) if error.line > 0 => {
                error.line += document.line - 1;
                error.into()
            }
            error => error,
        })
    }

    /// Returns the pod templates in the order of the text.
    pub fn pods(&self) -> &[PodTemplate] {
        &self.pods
    }

    /// Returns a pod template's value.
    pub fn pod(&self, template: &PodTemplate) -> &Value {
        at(&self.value, &template.place).unwrap_or(&Value::Null)
    }

    /// Returns the object with the pod template; the pod itself for a pod.
    pub fn object(&self, template: &PodTemplate) -> &Value {
        at(&self.value, &template.place[..template.outer]).unwrap_or(&Value::Null)
    }

    /// Returns the line, from 1 in the document, of a field of a pod template, by the keys that
    /// lead to it. `None` without a key, and for a field from an alias.
    pub fn line_of(&self, template: &PodTemplate, path: &[String]) -> Option<usize> {
        let (item, _) = self.item_in_text(template, path)?;
        Some(self.source.place(item.start).0)
    }

    /// Returns the text with these edits.
    ///
    /// If an edit cannot be made in place, the whole pod template is rewritten.
    pub fn edit(&self, edits: &[Edit<'_>]) -> Result<String, ManifestError> {
        let edits: Vec<_> =
            edits.iter().filter(|edit| edit.pod != self.pod(edit.template)).collect();
        if edits.is_empty() {
            return Ok(self.source.text.to_owned());
        }
        let mut value = self.value.clone();
        for edit in &edits {
            if let Some(pod) = at_mut(&mut value, &edit.template.place) {
                *pod = edit.pod.clone();
            }
        }
        let in_place = self.write(&value, |root| {
            apply::apply(root, edits.iter().map(|edit| (&*edit.template.place, edit.patch)));
        });
        in_place.or_else(|_| {
            self.write(&value, |root| {
                apply::renew(root, edits.iter().map(|edit| &*edit.template.place));
            })
        })
    }

    fn read_text(
        document: &Document<'a>,
        rules: &'a [PodTemplateRule],
    ) -> Result<Self, ManifestError> {
        let &Document { text, line, role, .. } = document;
        let source = Source::new(text);
        let mut manifest = Self {
            source,
            root: None,
            value: Value::Null,
            ordinary: false,
            role,
            rules,
            pods: Vec::new(),
            unread: None,
        };
        if role == Role::BesideItems {
            return Ok(manifest);
        }
        let events = match tree::events(&source) {
            Ok(events) => events,
            Err(error) => {
                let in_file = YamlError { line: line + error.line - 1, ..error.clone() };
                let Some(unread) = unread::left_unread(text, &in_file, rules) else {
                    return Err(error.into());
                };
                manifest.unread = Some(unread);
                return Ok(manifest);
            }
        };
        let Some(root) = Node::build(&source, &events)? else {
            return Ok(manifest);
        };
        // The text of an item is a sequence with one item, because it includes the dash.
        let dash = matches!(role, Role::Item(_)).then(|| root.item("0")).flatten();
        if may_hold_pods(dash.map_or(&root, |item| &item.value), rules) {
            let ordinary = yaml::of_events(events.into_iter().map(|(event, ..)| event));
            manifest.ordinary = ordinary.is_some();
            manifest.value = ordinary.map_or_else(|| yaml::parse_file(text), Ok)?;
            manifest.pods = match dash {
                Some(_) => pod_template::find_in_items(&manifest.value, rules),
                None => pod_template::find(&manifest.value, rules),
            };
            // Except for aliases, the pods come in the order of the text, so each line is counted
            // once.
            let (mut line, mut counted) = (line, 0);
            for pod in &mut manifest.pods {
                let start = start_of(&root, &pod.place[..pod.outer]).max(counted);
                line += text[counted..start].matches('\n').count();
                counted = start;
                pod.line = line;
                let template = at(&manifest.value, &pod.place).unwrap_or(&Value::Null);
                if let Some(rule) = &pod.rule
                    && !template["spec"]["containers"].is_array()
                {
                    let object = at(&manifest.value, &pod.place[..pod.outer]);
                    let Workload { api_version, kind, name, .. } = &pod.workload;
                    let meant =
                        object.and_then(|object| left_alone::rule_for(object, api_version, kind));
                    return Err(ManifestError::NotATemplate {
                        line: pod.line,
                        kind: kind.clone(),
                        name: name.clone(),
                        rule: rule.to_string(),
                        hint: match meant {
                            Some(meant) => format!("write --pod-template '{meant}'"),
                            None => "write the path of a value with spec.containers".to_owned(),
                        },
                    });
                }
                if !template.is_object() {
                    return Err(ManifestError::NoTemplate {
                        line: pod.line,
                        kind: pod.workload.kind.clone(),
                        name: pod.workload.name.clone(),
                        template: pod.place[pod.outer..].join("."),
                    });
                }
            }
        }
        manifest.root = Some(root);
        Ok(manifest)
    }

    /// Returns the text after a change of its tree, if it parses as `value`.
    fn write(
        &self,
        value: &Value,
        change: impl FnOnce(&mut Node),
    ) -> Result<String, ManifestError> {
        let Some(original) = &self.root else {
            return Err(ManifestError::Edit("the document is empty".to_owned()));
        };
        let mut root = original.clone();
        // Without aliases nothing is written anew that stays.
        let spellings = if self.ordinary {
            Spellings::default()
        } else {
            Spellings::collect(original, &self.value, value)
        };
        let style = match self.role {
            Role::Item(style) => style,
            Role::BesideItems | Role::Whole => Style::detect(&self.source, &root),
        };
        let block = BlockText { style, spellings: &spellings };
        change(&mut root);
        let problem = |error: YamlError| ManifestError::Edit(error.to_string());
        let Edited { text, certain } =
            edit::edited(&self.source, block, &root, value).map_err(problem)?;
        if certain && self.ordinary {
            debug_assert_eq!(
                yaml::parse_file(&text).as_ref(),
                Ok(value),
                "an edit by plain lines says what it has to: {text}"
            );
            return Ok(text);
        }
        if yaml::parse_file(&text).map_err(problem)? == *value {
            return Ok(text);
        }
        Err(ManifestError::Edit("the change cannot be made in place".to_owned()))
    }
}

/// True if the document may hold pods, judged by the text alone. A document of another kind may
/// hold content that only its own parser understands.
fn may_hold_pods(root: &Node, rules: &[PodTemplateRule]) -> bool {
    let NodeKind::Collection(collection) = &root.kind else {
        return false;
    };
    match root.entry("kind").map(|item| &item.value.kind) {
        Some(NodeKind::Scalar(kind)) => {
            let api_version = match root.entry("apiVersion").map(|item| &item.value.kind) {
                Some(NodeKind::Scalar(api_version)) => Some(&**api_version),
                _ => None,
            };
            pod_template::is_known(api_version, kind, rules)
        }
        Some(NodeKind::Alias(_)) => true,
        Some(_) => false,
        None => collection.map && root.entry("<<").is_some(),
    }
}

fn start_of(root: &Node, place: &[String]) -> usize {
    let mut node = root;
    for token in place {
        let Some(item) = node.item(token) else { break };
        node = &item.value;
    }
    node.start
}

fn at<'v>(value: &'v Value, place: &[String]) -> Option<&'v Value> {
    place.iter().try_fold(value, |value, token| match value {
        Value::Array(items) => items.get(token.parse::<usize>().ok()?),
        _ => value.get(token),
    })
}

fn at_mut<'v>(value: &'v mut Value, place: &[String]) -> Option<&'v mut Value> {
    place.iter().try_fold(value, |value, token| match value {
        Value::Array(items) => items.get_mut(token.parse::<usize>().ok()?),
        _ => value.get_mut(token),
    })
}
