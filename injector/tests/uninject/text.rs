//! Injection and uninjection of texts, byte for byte.

use std::fmt::Write;

use injector::inject::{InjectionOutcome, Target, inject};
use injector::manifest::{Document, Edit, Manifest};
use injector::settings::Settings;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use crate::document::restored_text;
use crate::pods::pod;
use crate::properties::{PARSED, SETTINGS};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn text_with_added_lines_alone_comes_back_exactly(
        pod in pod(),
        layout in layout(),
        native in any::<bool>(),
        settings in 0..SETTINGS.len(),
    ) {
        let text = layout.text(pod);
        let Some(injected) = injected(&text, &PARSED[settings][usize::from(native)]) else {
            return Ok(());
        };
        let (restored, doubts) = restored_text(&injected);
        let mut lines = injected.lines();
        let only_added = text.lines().all(|line| lines.any(|injected| injected == line));
        // Injection ends new last lines with a line break.
        let only_added = only_added && text.ends_with('\n') == injected.ends_with('\n');
        if only_added && doubts.is_empty() {
            prop_assert_eq!(&restored, &text);
        }
        // A container that injection replaced comes back without its comments.
        let is_replaced = injected.contains("proxy.istio.io/overrides");
        if doubts.is_empty() && !is_replaced {
            prop_assert_eq!(restored.matches(COMMENT).count(), injected.matches(COMMENT).count());
        }
        prop_assert_eq!(restored_text(&restored), (restored.clone(), Vec::new()));
    }

    #[test]
    fn text_without_injection_passes_unchanged(pod in pod(), layout in layout()) {
        let text = layout.text(pod);
        prop_assert_eq!(restored_text(&text), (text, Vec::new()));
    }
}

/// Returns the injected text; `None` if the pod cannot be injected.
fn injected(text: &str, settings: &Settings) -> Option<String> {
    let [document] = Document::split(text).try_into().unwrap();
    let manifest = Manifest::read(&document).unwrap();
    let template = &manifest.pods()[0];
    let target = Target::at_admission(manifest.pod(template).clone(), "default");
    let Ok(InjectionOutcome::Injected(injection)) = inject(settings, target) else { return None };
    let patch = injection.patch().owned();
    Some(manifest.edit(&[Edit { template, patch: &patch, pod: &injection.pod }]).unwrap())
}

/// Layout of a text.
#[derive(Clone, Debug)]
struct Layout {
    step: usize,
    dash: usize,
    eol: &'static str,
    start: &'static str,
    final_break: bool,
    /// Chooses the keys with a comment, and its place: above or beside.
    comments: Vec<(Index, bool)>,
}

fn layout() -> impl Strategy<Value = Layout> {
    let eol = prop::sample::select(vec!["\n", "\r\n"]);
    let start = prop::sample::select(vec!["", "---\n", "\u{feff}", "# first\n"]);
    let comments = prop::collection::vec(any::<(Index, bool)>(), 0..4);
    (1..4_usize, 0..3_usize, eol, start, any::<bool>(), comments).prop_map(
        |(step, dash, eol, start, final_break, comments)| Layout {
            step,
            dash,
            eol,
            start,
            final_break,
            comments,
        },
    )
}

impl Layout {
    fn text(&self, pod: Value) -> String {
        let mut lines = vec!["apiVersion: v1".to_owned(), "kind: Pod".to_owned()];
        self.write(&without_assumed(pod), 0, &mut lines);
        for (comment, beside) in &self.comments {
            let line = comment.index(lines.len());
            if *beside {
                lines[line].push_str(COMMENT);
                continue;
            }
            let indent = lines[line].len() - lines[line].trim_start().len();
            lines.insert(line, " ".repeat(indent) + COMMENT.trim_start());
        }
        let mut text = self.start.replace('\n', self.eol) + &lines.join(self.eol);
        if self.final_break {
            text.push_str(self.eol);
        }
        text
    }

    fn write(&self, value: &Value, indent: usize, lines: &mut Vec<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let mut line = " ".repeat(indent);
            write!(line, "{}:", Value::from(key.as_str())).unwrap();
            match value {
                Value::Array(items) if !items.is_empty() => {
                    lines.push(line);
                    let dash = indent + self.dash;
                    for item in items {
                        let start = lines.len();
                        self.write(item, dash + 2, lines);
                        let first = &mut lines[start];
                        first.replace_range(dash..=dash, "-");
                    }
                }
                Value::Object(members) if !members.is_empty() => {
                    lines.push(line);
                    self.write(value, indent + self.step, lines);
                }
                scalar => lines.push(format!("{line} {scalar}")),
            }
        }
    }
}

#[test]
fn comments_of_empty_fields_stay() {
    let beside = EMPTY.replace("annotations:\n        # none", "annotations: {} # none");
    let flow = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: web}}   # of it\n\
                spec: {\n  volumes: [],   # none\n  # the one\n  containers: [\n    \
                {name: web, image: a}, # c\n  ],   # after\n}\n";
    let flow_end = flow.replace("],   # after", "]   # after");
    let closed = "apiVersion: v1\nkind: Pod\nmetadata: {\n  name: p, labels: {app: web}, # x\n  \
                  annotations: {}}\nspec: # five\n  containers:\n  - name: \"a\" # six\n";
    // An empty value cannot stand before a comment that injection has moved to the key.
    let without_value = beside.replace(": {} #", ": #");
    for (text, expected) in [
        (EMPTY, EMPTY),
        (&EMPTY.replace('\n', "\r\n"), &EMPTY.replace('\n', "\r\n")),
        (&beside, &without_value),
        (flow, flow),
        (closed, closed),
        (&flow_end, &flow_end),
    ] {
        let injected = injected(text, &PARSED[0][0]).unwrap();
        assert_eq!(restored_text(&injected).0, *expected, "{injected}");
    }
}

/// A pod with empty fields that hold comments.
const EMPTY: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: # many
    # later: one
    # and: another
  annotations:
        # none
spec:
  volumes:
    # - name: data
  initContainers: # soon
  containers:
  - name: web
    image: a # '#'
";

const COMMENT: &str = " # of the author";

/// Leaves out labels and annotations with values that injection writes itself: they come back as
/// absent ones (docs/uninject.md).
fn without_assumed(mut pod: Value) -> Value {
    for map in ["labels", "annotations"] {
        let entries = pod["metadata"][map].as_object_mut().unwrap();
        entries.retain(|_, value| !["", "*", "REDIRECT"].contains(&value.as_str().unwrap()));
        if entries.is_empty() {
            pod["metadata"].as_object_mut().unwrap().remove(map);
        }
    }
    pod
}
