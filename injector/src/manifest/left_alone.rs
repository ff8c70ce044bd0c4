//! Objects of a document that injection skips because of their kind.

use reason::{Reason, words};
use serde_json::Value;

use super::Manifest;
use super::document::Role;
use super::pod_template::{self, LIST};
use super::pod_template_rule::{PathStep, PodTemplateRule};
use super::tree::{Node, NodeKind};
use crate::kubernetes::workload::Workload;

/// An object without a pod template to inject.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeftAlone {
    /// The object's identity, as far as it has one.
    pub object: Workload,
    /// The line of the document at which the object starts, from 1.
    pub line: usize,
    /// A warning if the author may have expected an injection.
    pub surprise: Option<Reason>,
    /// Rule by which the object of an unknown kind would have a pod template.
    pub rule: Option<PodTemplateRule>,
}

/// Warning about an object, and the rule by which it would have a pod template.
type Surprise = (Reason, Option<PodTemplateRule>);

impl Manifest<'_> {
    /// Returns the objects of the document that are not workloads of a known kind.
    pub fn left_alone(&self) -> Vec<LeftAlone> {
        let Some(root) = &self.root else { return self.unread.iter().cloned().collect() };
        let mut found = Vec::new();
        let view = if self.value.is_null() { View::Text(root) } else { View::Value(&self.value) };
        let mut place = Vec::new();
        match self.role {
            Role::Item(_) if view.is_list() => self.look_at_items(view, &mut place, &mut found),
            _ => self.look_at(view, &mut place, &mut found),
        }
        found
    }

    fn look_at_items(&self, items: View<'_>, place: &mut Vec<String>, found: &mut Vec<LeftAlone>) {
        for (key, item) in items.members() {
            place.push(key);
            self.look_at(item, place, found);
            place.pop();
        }
    }

    fn look_at(&self, object: View<'_>, place: &mut Vec<String>, found: &mut Vec<LeftAlone>) {
        let text = |key: &str| object.get(key).and_then(View::text).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let items = object.get("items").filter(|_| (api_version, kind) == ("v1", LIST));
        if let Some(items) = items.filter(|items| items.is_list()) {
            place.push("items".to_owned());
            self.look_at_items(items, place, found);
            place.pop();
            return;
        }
        if self.pods.iter().any(|pod| pod.place[..pod.outer] == **place) {
            return;
        }
        let metadata = object.get("metadata");
        let name = |key: &str| metadata.and_then(|it| it.get(key)).and_then(View::text);
        let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let (surprise, rule) = surprise(object, api_version, kind, self.rules).unzip();
        found.push(LeftAlone {
            object: Workload {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: owned(name("name")),
                namespace: owned(name("namespace")),
            },
            line: self.line_of_object(place),
            surprise,
            rule: rule.flatten(),
        });
    }

    fn line_of_object(&self, place: &[String]) -> usize {
        self.root.as_ref().map_or(1, |root| self.source.place(super::start_of(root, place)).0)
    }
}

fn surprise(
    object: View<'_>,
    api_version: &str,
    kind: &str,
    rules: &[PodTemplateRule],
) -> Option<Surprise> {
    let alone = |reason| Some((reason, None));
    if !object.is_map() {
        let message = "it is a list or a scalar, not a Kubernetes object";
        return alone(Reason::new(words::NO_OBJECT, message));
    }
    if (api_version, kind) == ("v1", LIST) {
        let given = object.get("items").is_some_and(|items| !items.is_null());
        return given.then(|| (Reason::new(words::NO_LIST, "its items are not a list"), None));
    }
    if kind.is_empty() {
        let message = "it has no kind, so it is not a Kubernetes object";
        return alone(Reason::new(words::NO_KIND, message));
    }
    let meant = pod_template::meant(kind);
    if let Some((known, _)) = meant.as_ref().filter(|(known, _)| *known != kind) {
        let kind = kind.escape_debug();
        let message = format!("the kind {kind} is unknown, so it is not injected");
        return alone(
            Reason::new(words::KIND_CASE, message).with_hint(format!("write kind: {known}")),
        );
    }
    if let Some((_, versions)) = meant.as_ref().filter(|_| api_version.is_empty()) {
        let message = "it has no apiVersion, so it is not injected";
        let hint = format!("write apiVersion: {}", versions.join(" or "));
        return alone(Reason::new(words::NO_API_VERSION, message).with_hint(hint));
    }
    let path = pod_template_in(object)?;
    let template = match &*path {
        [] => "it".to_owned(),
        path => path.iter().map(|(token, _)| token.as_str()).collect::<Vec<_>>().join("."),
    };
    if pod_template::is_of_knative(api_version) {
        return alone(pod_template::of_knative(&template));
    }
    let (shown, version) = (kind.escape_debug(), api_version.escape_debug());
    let problem = if pod_template::has_rule(api_version, kind, rules) {
        format!("the rule for the kind {shown} of {version} has another path")
    } else {
        format!("the kind {shown} of {version} is unknown")
    };
    let template = template.escape_debug();
    let message = format!("{template} is a pod template, but {problem}");
    let reason = Reason::new(words::UNKNOWN_KIND, message);
    if let Some((_, versions)) = meant {
        return alone(reason.with_hint(format!("use apiVersion: {}", versions.join(" or "))));
    }
    let steps = path.into_iter().map(|(_, step)| step).collect();
    let webhook = "let the webhook inject the pods created from it";
    let rule = PodTemplateRule::new(api_version, kind, steps);
    let reason = reason.with_hint(match &rule {
        Some(rule) => format!("add --pod-template '{rule}', or {webhook}"),
        None => webhook.to_owned(),
    });
    Some((reason, rule))
}

/// Returns the rule for the first pod template in an object.
pub(super) fn rule_for(object: &Value, api_version: &str, kind: &str) -> Option<PodTemplateRule> {
    let path = pod_template_in(View::Value(object))?;
    PodTemplateRule::new(api_version, kind, path.into_iter().map(|(_, step)| step).collect())
}

/// Returns the path of the first mapping that has a `spec` with a list `containers`: keys and
/// indexes, and the steps of a rule.
fn pod_template_in(object: View<'_>) -> Option<Vec<(String, PathStep)>> {
    fn find(object: View<'_>, path: &mut Vec<(String, PathStep)>) -> bool {
        let spec = object.get("spec");
        let containers = spec.and_then(|spec| spec.get("containers"));
        if containers.is_some_and(View::is_list) {
            return true;
        }
        object.members().into_iter().any(|(key, member)| {
            let step =
                if object.is_list() { PathStep::EachItem } else { PathStep::Key(key.clone()) };
            path.push((key, step));
            let found = find(member, path);
            if !found {
                path.pop();
            }
            found
        })
    }
    let mut path = Vec::new();
    find(object, &mut path).then_some(path)
}

/// A part of a document: as a value if the document was parsed completely, else as nodes of its
/// text.
#[derive(Clone, Copy)]
enum View<'a> {
    Text(&'a Node),
    Value(&'a Value),
}

impl<'a> View<'a> {
    fn get(self, key: &str) -> Option<Self> {
        match self {
            Self::Text(node) => Some(Self::Text(&node.entry(key)?.value)),
            Self::Value(value) => value.as_object()?.get(key).map(Self::Value),
        }
    }

    fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(Node { kind: NodeKind::Scalar(text), .. }) => Some(text),
            Self::Text(_) => None,
            Self::Value(value) => value.as_str(),
        }
    }

    fn is_null(self) -> bool {
        match self {
            Self::Text(Node { kind: NodeKind::Scalar(text), .. }) => {
                ["", "~", "null"].contains(&text.as_ref())
            }
            Self::Text(_) => false,
            Self::Value(value) => value.is_null(),
        }
    }

    fn is_map(self) -> bool {
        match self {
            Self::Text(node) => matches!(&node.kind, NodeKind::Collection(inner) if inner.map),
            Self::Value(value) => value.is_object(),
        }
    }

    fn is_list(self) -> bool {
        match self {
            Self::Text(node) => matches!(&node.kind, NodeKind::Collection(inner) if !inner.map),
            Self::Value(value) => value.is_array(),
        }
    }

    /// Returns the inner values by key or index.
    fn members(self) -> Vec<(String, Self)> {
        match self {
            Self::Text(Node { kind: NodeKind::Collection(inner), .. }) => {
                let key = |index: usize, key: &Option<String>| match key {
                    Some(key) => key.clone(),
                    None => index.to_string(),
                };
                let items = inner.items.iter().enumerate();
                items
                    .map(|(index, item)| (key(index, &item.key), Self::Text(&item.value)))
                    .collect()
            }
            Self::Value(Value::Array(items)) => {
                let items = items.iter().enumerate();
                items.map(|(index, item)| (index.to_string(), Self::Value(item))).collect()
            }
            Self::Value(Value::Object(members)) => {
                members.iter().map(|(key, member)| (key.clone(), Self::Value(member))).collect()
            }
            Self::Text(_) | Self::Value(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Document;

    fn left_alone(text: &str) -> Vec<(String, Option<(usize, &'static str)>)> {
        let documents = Document::split(text).into_iter().flat_map(Document::parts);
        let found = documents.flat_map(|part| {
            let found = Manifest::read(&part).unwrap().left_alone();
            found.into_iter().map(move |object| {
                let word = |reason: Reason| (part.line + object.line - 1, reason.word());
                (object.object.kind, object.surprise.map(word))
            })
        });
        found.collect()
    }

    #[test]
    fn list_with_anchors_has_the_findings_of_one_without() {
        let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service}\n\
                    - {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}\n- 5\n\
                    -\n  apiVersion: a/v1\n  kind: Custom\n  a: [{b: {spec: {containers: []}}}]\n";
        let expected = [
            ("Service".to_owned(), None),
            (String::new(), Some((6, "no_object"))),
            ("Custom".to_owned(), Some((8, "unknown_kind"))),
        ];
        assert_eq!(left_alone(list), expected);
        assert_eq!(left_alone(&list.replace("name: a", "name: &a a")), expected);
        let merged = "kind: Pod\n<<: {apiVersion: v1}\nspec: {}\n";
        assert_eq!(left_alone(merged), []);
    }

    #[test]
    fn comments_and_other_kinds_get_no_warning() {
        let text = "# nothing\n---\n---\nkind: ConfigMap\ndata: {spec: 'containers: []'}\n";
        assert_eq!(left_alone(text), [("ConfigMap".to_owned(), None)]);
    }
}
