//! Rules for the pod templates of kinds that Istio's command does not know, such as
//! `Rollout.argoproj.io=.spec.template`.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde_json::Value;

use crate::kubernetes::workload::Workload;

/// Path of a pod template in objects of a kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodTemplateRule {
    kind: String,
    /// The API group; `None` for any.
    group: Option<String>,
    path: Vec<PathStep>,
}

/// Step of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum PathStep {
    /// `.key`.
    Key(String),
    /// `[*]`.
    EachItem,
}

/// Text that is not a rule.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PodTemplateRuleError {
    /// The `=` is missing.
    #[error("it has no \"=\"; hint: write KIND.GROUP=.PATH, such as {EXAMPLE}")]
    NoPath,
    /// The path is missing.
    #[error("it has no path; hint: write it after the \"=\", such as {EXAMPLE}")]
    EmptyPath,
    /// The kind is not one.
    #[error("{0:?} is not a kind; hint: write it as in the object, such as {EXAMPLE}")]
    Kind(String),
    /// The group is not one.
    #[error("{0:?} is not an API group; hint: write it without version, such as {EXAMPLE}")]
    Group(String),
    /// A path without a dot at its start.
    #[error("the path {0:?} does not start with a dot; hint: write .{0}")]
    NoDot(String),
    /// A step of the path is neither a key nor `[*]`.
    #[error(
        "the path has the invalid step {0:?}; hint: write keys after dots, and [*] for each item \
         of a list, such as .spec.jobs[*].template"
    )]
    Step(String),
}

impl PodTemplateRule {
    /// Returns the rule for a path; `None` if the path cannot be written.
    pub(super) fn new(api_version: &str, kind: &str, path: Vec<PathStep>) -> Option<Self> {
        let (kind, group) = (kind.to_owned(), Some(group_of(api_version).to_owned()));
        let rule = Self { kind, group: group.filter(|group| !group.is_empty()), path };
        (rule.to_string().parse().as_ref() == Ok(&rule)).then_some(rule)
    }

    /// Returns the rules for kinds that are known without a flag.
    pub(super) fn built_in() -> &'static [Self] {
        &RULES
    }

    /// True if a pod template was found by the rule, or would be without another one.
    pub fn names(&self, template: &[String], object: &Workload) -> bool {
        let is_step = |(step, token): (&PathStep, &String)| match step {
            PathStep::Key(key) => key == token,
            PathStep::EachItem => token.parse::<usize>().is_ok(),
        };
        self.applies(Some(&object.api_version), &object.kind)
            && self.path.len() == template.len()
            && self.path.iter().zip(template).all(is_step)
    }

    /// True if the rule is about objects of this kind; without an `apiVersion`, of any group.
    pub(super) fn applies(&self, api_version: Option<&str>, kind: &str) -> bool {
        let group = self.group.as_deref().zip(api_version);
        self.kind == kind && group.is_none_or(|(group, version)| group == group_of(version))
    }

    /// Returns the places of the pod templates that an object has.
    pub(super) fn find(&self, object: &Value) -> Vec<Vec<String>> {
        let mut found = vec![(Vec::new(), object)];
        for step in &self.path {
            found = found.into_iter().flat_map(|(place, value)| step.take(&place, value)).collect();
        }
        let templates = found.into_iter().filter(|(_, value)| !value.is_null());
        templates.map(|(place, _)| place).collect()
    }
}

impl PathStep {
    /// Returns the inner values to which the step leads, and their places.
    fn take<'v>(&self, place: &[String], value: &'v Value) -> Vec<(Vec<String>, &'v Value)> {
        let inner = |token: String, value| ([place, &[token]].concat(), value);
        match self {
            Self::Key(key) => {
                let value = value.as_object().and_then(|object| object.get(key));
                value.map(|value| inner(key.clone(), value)).into_iter().collect()
            }
            Self::EachItem => {
                let items = value.as_array().into_iter().flatten().enumerate();
                items.map(|(index, value)| inner(index.to_string(), value)).collect()
            }
        }
    }
}

impl FromStr for PodTemplateRule {
    type Err = PodTemplateRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, path) = text.split_once('=').ok_or(PodTemplateRuleError::NoPath)?;
        let (kind, group) = match name.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (name, None),
        };
        if !kind.starts_with(|c: char| c.is_ascii_uppercase()) || !is_alphanumeric(kind, "") {
            return Err(PodTemplateRuleError::Kind(kind.to_owned()));
        }
        if let Some(group) = group
            && !group.split('.').all(|part| is_alphanumeric(part, "-"))
        {
            return Err(PodTemplateRuleError::Group(group.to_owned()));
        }
        if path.is_empty() {
            return Err(PodTemplateRuleError::EmptyPath);
        }
        let keys = path.strip_prefix('.');
        let keys = keys.ok_or_else(|| PodTemplateRuleError::NoDot(path.to_owned()))?;
        let mut steps = Vec::new();
        for part in keys.split('.').filter(|_| !keys.is_empty()) {
            let key = part.trim_end_matches(EACH_ITEM);
            if !is_alphanumeric(key, "-_") {
                return Err(PodTemplateRuleError::Step(part.to_owned()));
            }
            let lists = (part.len() - key.len()) / EACH_ITEM.len();
            steps.push(PathStep::Key(key.to_owned()));
            steps.extend(std::iter::repeat_n(PathStep::EachItem, lists));
        }
        Ok(Self { kind: kind.to_owned(), group: group.map(str::to_owned), path: steps })
    }
}

impl fmt::Display for PodTemplateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if let Some(group) = &self.group {
            write!(f, ".{group}")?;
        }
        f.write_str(if self.path.is_empty() { "=." } else { "=" })?;
        self.path.iter().try_for_each(|step| match step {
            PathStep::Key(key) => write!(f, ".{key}"),
            PathStep::EachItem => f.write_str(EACH_ITEM),
        })
    }
}

pub(super) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn is_alphanumeric(text: &str, others: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

static RULES: LazyLock<Vec<PodTemplateRule>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a test parses them")]
    let rule = |text: &&str| text.parse().expect("the built-in rules are valid");
    BUILT_IN.iter().map(rule).collect()
});

const BUILT_IN: [&str; 4] = [
    EXAMPLE,
    "Configuration.serving.knative.dev=.spec.template",
    "JobSet.jobset.x-k8s.io=.spec.replicatedJobs[*].template.spec.template",
    "Service.serving.knative.dev=.spec.template",
];
const EACH_ITEM: &str = "[*]";
const EXAMPLE: &str = "Rollout.argoproj.io=.spec.template";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_parse_as_they_are_printed() {
        let others = ["Widget=.spec.a-b[*][*].t_1", "Revision.serving.knative.dev=."];
        for text in BUILT_IN.into_iter().chain(others) {
            assert_eq!(text.parse::<PodTemplateRule>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_rules_are_explained() {
        let shown = [
            "Rollout",
            "=.spec",
            "rollout=.spec",
            "Roll out=.spec",
            "Rollout.=.spec",
            "Rollout.argoproj.io/v1alpha1=.spec",
            "Rollout=",
            "Rollout=spec.template",
            "Rollout=..spec",
            "Rollout=.spec.",
            "Rollout=.spec[0]",
            "Rollout=.[*]",
        ]
        .map(|text| format!("{text}: {}\n", text.parse::<PodTemplateRule>().unwrap_err()));
        insta::assert_snapshot!(shown.concat());
    }

    #[test]
    fn templates_are_found_in_each_item_of_a_list() {
        let rule: PodTemplateRule = "A=.spec.jobs[*].template".parse().unwrap();
        let found = |object: Value| {
            rule.find(&object).iter().map(|place| place.join("/")).collect::<Vec<_>>()
        };
        let jobs = json!([{"template": {}}, {"other": 1}, {"template": null}, 5, {"template": []}]);
        let expected = ["spec/jobs/0/template", "spec/jobs/4/template"];
        assert_eq!(found(json!({"spec": {"jobs": jobs}})), expected);
        assert_eq!(found(json!({"spec": {"jobs": {"0": {"template": {}}}}})), [""; 0]);
        assert_eq!(found(json!([])), [""; 0]);
    }

    #[test]
    fn rule_applies_to_its_group_in_any_version() {
        let applies = |rule: &str, version, kind| {
            rule.parse::<PodTemplateRule>().unwrap().applies(version, kind)
        };
        let knative = "Service.serving.knative.dev=.spec.template";
        assert!(applies(knative, Some("serving.knative.dev/v1"), "Service"));
        assert!(applies(knative, None, "Service"));
        assert!(!applies(knative, Some("v1"), "Service"));
        assert!(!applies(knative, Some("serving.knative.dev/v1"), "Route"));
        assert!(applies("Service=.spec", Some("v1"), "Service"));
    }
}
