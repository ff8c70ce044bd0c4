//! Documents that no YAML parser accepts, of kinds that hold no pod.

use documents::yaml::{self, YamlError};
use reason::{Reason, words};

use super::LeftAlone;
use super::pod_template;
use super::pod_template_rule::PodTemplateRule;
use crate::kubernetes::workload::Workload;

/// Returns the object of a document that is not YAML, judged by its lines, with a warning. `None`
/// if the document may hold a pod, or can be read with its quoted strings indented. The error has
/// its line in the file.
pub(super) fn left_unread(
    text: &str,
    error: &YamlError,
    rules: &[PodTemplateRule],
) -> Option<LeftAlone> {
    let kind = only_line(text, "kind")?;
    let api_version = only_line(text, "apiVersion")?;
    let may_hold_pods = pod_template::is_known(Some(api_version), kind, rules)
        || pod_template::meant(kind).is_some();
    if may_hold_pods || yaml::indented(text).is_some() {
        return None;
    }
    let message =
        format!("it is not YAML ({error}), and stays as it is, because a {kind} has no pod");
    let lines = text.lines().take_while(|line| !line.starts_with("apiVersion:"));
    let kind_line = text.lines().take_while(|line| !line.starts_with("kind:")).count();
    Some(LeftAlone {
        object: Workload {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: String::new(),
            namespace: String::new(),
        },
        line: lines.count().min(kind_line) + 1,
        surprise: Some(Reason::new(words::NOT_READ, message)),
        rule: None,
    })
}

/// Returns the word after a key at the start of a line. `None` if several lines have the key, or
/// the value is not a word.
fn only_line<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix(':');
    let mut values = text.lines().filter_map(value);
    let value = values.next().filter(|_| values.next().is_none())?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    let value = value.trim_matches(['"', '\'']);
    let is_word = |c: char| c.is_ascii_alphanumeric() || "./-".contains(c);
    (!value.is_empty() && value.chars().all(is_word)).then_some(value)
}

#[cfg(test)]
mod tests {
    use crate::manifest::{Document, Manifest};

    fn words(text: &str) -> Option<Vec<(String, usize, Option<&'static str>)>> {
        let documents = Document::split(text);
        let manifest = Manifest::read(&documents[0]).ok()?;
        let left = manifest.left_alone().into_iter().map(|alone| {
            (alone.object.kind, alone.line, alone.surprise.map(|reason| reason.word()))
        });
        Some(left.collect())
    }

    #[test]
    fn only_documents_that_may_hold_pods_must_be_yaml() {
        let broken = "a: [\n";
        let unread = |kind: &str, line| Some(vec![(kind.to_owned(), line, Some("not_read"))]);
        for (head, expected) in [
            ("apiVersion: v1\nkind: ConfigMap\n", unread("ConfigMap", 1)),
            ("# c\n\"a\": 1\nkind: \"Widget\" # c\napiVersion: a.b/v1\n", unread("Widget", 3)),
            ("apiVersion: v1\nkind: Pod\n", None),
            ("apiVersion: v1\nkind: pod\n", None),
            ("apiVersion: v1\nkind: List\n", None),
            ("apiVersion: argoproj.io/v1\nkind: Rollout\n", None),
            ("apiVersion: v1\n", None),
            ("apiVersion: v1\nkind: {{ .kind }}\n", None),
            ("apiVersion: v1\nkind: ConfigMap\nkind: Pod\n", None),
        ] {
            assert_eq!(words(&format!("{head}{broken}")), expected, "{head}");
        }
        assert_eq!(words("apiVersion: v1\nkind: ConfigMap\na: 'x\ny'\n"), None);
    }
}
