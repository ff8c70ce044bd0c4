//! YAML and JSON files of Kubernetes objects: finds the pod templates and edits them in place.
//!
//! What no change touches stays byte for byte: comments, order, quoting, anchors, line breaks,
//! unknown fields, other documents. An edited text is read again and compared with what it has to
//! say, unless only whole lines of plain block style came and went, so that an edit is right or an
//! error, never silently wrong. Builds with debug assertions, and so all tests, read every one.

mod apply;
mod comments;
mod document;
mod edit;
mod left_alone;
mod list;
mod pod_template;
mod render;
mod source;
mod tree;

use json_patch::Patch;
use serde_json::Value;

pub use document::Document;
use document::Role;
use edit::Edited;
pub use left_alone::{LeftAlone, Surprise};
pub use pod_template::PodTemplate;
use render::Style;
use source::Source;
use tree::{Kind, Node};

use documents::yaml::{self, YamlError};

/// A document as read, with the pod templates in it.
#[derive(Debug)]
pub struct Manifest<'a> {
    source: Source<'a>,
    root: Option<Node>,
    value: Value,
    /// Whether its text holds no anchors, tags and the like.
    ordinary: bool,
    role: Role,
    pods: Vec<PodTemplate>,
}

/// What a pod template is to become.
#[derive(Debug)]
pub struct Edit<'a> {
    /// Which one.
    pub template: &'a PodTemplate,
    /// RFC 6902: turns it into `pod`.
    pub patch: &'a Patch,
    /// What it is to be.
    pub pod: &'a Value,
}

/// A document that cannot be read or edited.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ManifestError {
    /// The edited text would not say what it has to.
    #[error("{0}; hint: write this part in block style, without anchors and aliases")]
    Edit(String),
    /// A workload without its pod template.
    #[error(
        "line {line}: {kind} {name:?}: {template} is not an object, but has to be the pod template"
    )]
    NoTemplate {
        /// The line of the file at which the workload starts.
        line: usize,
        /// The workload's kind.
        kind: String,
        /// The workload's name.
        name: String,
        /// Where the pod template had to be.
        template: String,
    },
    /// The text is not YAML.
    #[error(transparent)]
    Read(#[from] YamlError),
}

impl<'a> Manifest<'a> {
    /// Reads a document. One that holds no workload of a known kind has no pod templates, and of
    /// such a document no more is asked than that it is YAML.
    pub fn read(document: &Document<'a>) -> Result<Self, ManifestError> {
        Self::read_text(document).map_err(|error| match error {
            ManifestError::Read(mut error) if error.line > 0 => {
                error.line += document.line - 1;
                error.into()
            }
            error => error,
        })
    }

    /// The pod templates, in the order of the text.
    pub fn pods(&self) -> &[PodTemplate] {
        &self.pods
    }

    /// A pod template's value.
    pub fn pod(&self, template: &PodTemplate) -> &Value {
        at(&self.value, &template.place).unwrap_or(&Value::Null)
    }

    /// The line of the document, from 1, at which a field of a pod template stands, by the keys that
    /// lead to it; `None` for no key, and for one that an alias stands for.
    pub fn line_of(&self, template: &PodTemplate, path: &[String]) -> Option<usize> {
        let (last, path) = path.split_last()?;
        let mut path = template.place.iter().chain(path);
        let parent =
            path.try_fold(self.root.as_ref()?, |node, key| Some(&node.item(key)?.value))?;
        Some(self.source.place(parent.item(last)?.start).0)
    }

    /// The text with these edits.
    ///
    /// Where an edit cannot be made in place, the whole pod template is written anew.
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

    fn read_text(document: &Document<'a>) -> Result<Self, ManifestError> {
        let &Document { text, line, role, .. } = document;
        let source = Source::new(text);
        let (value, pods) = (Value::Null, Vec::new());
        let mut manifest = Self { source, root: None, value, ordinary: false, role, pods };
        if role == Role::BesideItems {
            return Ok(manifest);
        }
        let events = tree::events(&source)?;
        let Some(root) = Node::build(&source, &events)? else {
            return Ok(manifest);
        };
        // Behind its dash, an item is the only one of a sequence.
        let dash = matches!(role, Role::Item(_)).then(|| root.item("0")).flatten();
        if may_hold_pods(dash.map_or(&root, |item| &item.value)) {
            let ordinary = yaml::of_events(events.into_iter().map(|(event, ..)| event));
            manifest.ordinary = ordinary.is_some();
            manifest.value = ordinary.map_or_else(|| yaml::parse_file(text), Ok)?;
            manifest.pods = match dash {
                Some(_) => pod_template::find_in_items(&manifest.value),
                None => pod_template::find(&manifest.value),
            };
            // Aliases aside, they come in the order of the text: no line is counted twice.
            let (mut line, mut counted) = (line, 0);
            for pod in &mut manifest.pods {
                let start = start_of(&root, &pod.place[..pod.outer]).max(counted);
                line += text[counted..start].matches('\n').count();
                counted = start;
                pod.line = line;
                if !at(&manifest.value, &pod.place).is_some_and(Value::is_object) {
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

    /// The text after a change of its tree, if it reads as `value`.
    fn write(
        &self,
        value: &Value,
        change: impl FnOnce(&mut Node),
    ) -> Result<String, ManifestError> {
        let Some(mut root) = self.root.clone() else {
            return Err(ManifestError::Edit("the document is empty".to_owned()));
        };
        let style = match self.role {
            Role::Item(style) => style,
            Role::BesideItems | Role::Whole => Style::of(&self.source, &root),
        };
        change(&mut root);
        let problem = |error: YamlError| ManifestError::Edit(error.to_string());
        let Edited { text, certain } =
            edit::edited(&self.source, style, &root, value).map_err(problem)?;
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

/// Told from the text alone, so that a document of another kind may hold what only its own reader
/// understands.
fn may_hold_pods(root: &Node) -> bool {
    let Kind::Collection(collection) = &root.kind else {
        return false;
    };
    match root.entry("kind").map(|item| &item.value.kind) {
        Some(Kind::Scalar(kind)) => pod_template::is_known(kind),
        Some(Kind::Alias(_)) => true,
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
