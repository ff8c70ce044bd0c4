//! Kubernetes label selectors.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use documents::nulls::or_default;

/// A label selector: every label and every expression must match (`k8s.io/apimachinery`
/// `LabelSelector`).
///
/// A selector that Kubernetes would reject has a [`problem`](Self::problem) and matches nothing.
/// The other selectors of a list stay in force.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    #[serde(deserialize_with = "or_default")]
    match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// True if the selector matches the labels (an object, or null for none). An empty selector
    /// matches nothing, as in Istio's injector.
    pub fn selects(&self, labels: &Value) -> bool {
        let empty = self.match_labels.is_empty() && self.match_expressions.is_empty();
        !empty
            && self.problem().is_none()
            && self.match_labels.iter().all(|(key, value)| labels[key] == value.as_str())
            && self.match_expressions.iter().all(|requirement| requirement.holds(labels))
    }

    /// True if the selector matches the labels as in the API server: an empty selector matches
    /// everything.
    pub fn admits(&self, labels: &Value) -> bool {
        (self.match_labels.is_empty() && self.match_expressions.is_empty()) || self.selects(labels)
    }

    /// Returns all requirements. An entry of `matchLabels` becomes `In` with one value.
    pub fn requirements(&self) -> impl Iterator<Item = Requirement> {
        let labels = self.match_labels.iter().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: "In".to_owned(),
            values: vec![value.clone()],
        });
        labels.chain(self.match_expressions.iter().cloned())
    }

    /// Returns the reason why Kubernetes would reject the selector; `None` for a valid one.
    pub fn problem(&self) -> Option<String> {
        let labels = self.match_labels.iter().find_map(|(key, value)| {
            let problem = key_problem(key).or_else(|| value_problem(value))?;
            Some(format!("matchLabels: {problem}"))
        });
        labels.or_else(|| {
            let problem = self.match_expressions.iter().find_map(Requirement::problem)?;
            Some(format!("matchExpressions: {problem}"))
        })
    }
}

/// One requirement of a selector.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`. Any other operator matches nothing.
    pub operator: String,
    /// The values to compare with; empty for `Exists` and `DoesNotExist`.
    #[serde(deserialize_with = "or_default")]
    pub values: Vec<String>,
}

impl Requirement {
    /// True if the labels meet the requirement.
    pub fn holds(&self, labels: &Value) -> bool {
        let value = labels.get(&self.key).and_then(Value::as_str);
        let listed = value.is_some_and(|value| self.values.iter().any(|one| one == value));
        match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }

    fn problem(&self) -> Option<String> {
        let Self { key, operator, values } = self;
        let shape = match (operator.as_str(), values.is_empty()) {
            ("In" | "NotIn", false) | ("Exists" | "DoesNotExist", true) => None,
            ("In" | "NotIn", true) => Some(format!("{key}: {operator} needs values")),
            ("Exists" | "DoesNotExist", false) => {
                Some(format!("{key}: {operator} takes no values"))
            }
            _ => Some(format!("{operator:?} is not In, NotIn, Exists or DoesNotExist")),
        };
        key_problem(key).or(shape).or_else(|| values.iter().find_map(|value| value_problem(value)))
    }
}

/// Displays the requirement in the syntax of `kubectl --selector`.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        match (operator.as_str(), values.as_slice()) {
            ("In", [value]) => write!(f, "{key}={value}"),
            ("NotIn", [value]) => write!(f, "{key}!={value}"),
            ("Exists", _) => f.write_str(key),
            ("DoesNotExist", _) => write!(f, "!{key}"),
            (operator, values) => {
                write!(f, "{key} {} ({})", operator.to_ascii_lowercase(), values.join(", "))
            }
        }
    }
}

/// Returns the problem of a label key: an optional DNS name with `/`, then a name of up to 63
/// characters.
fn key_problem(key: &str) -> Option<String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(a, b)| (Some(a), b));
    let domain = |prefix: &str| {
        let label = |label: &str| {
            is_name(label) && label.bytes().all(|b| !b.is_ascii_uppercase() && b != b'_')
        };
        prefix.len() <= 253 && prefix.split('.').all(label)
    };
    let good = is_name(name) && name.len() <= 63 && prefix.is_none_or(domain);
    (!good).then(|| format!("{key:?} is not a label's key"))
}

/// True if the text is a valid label value.
pub fn is_value(value: &str) -> bool {
    value.is_empty() || (is_name(value) && value.len() <= 63)
}

fn value_problem(value: &str) -> Option<String> {
    let good = is_value(value);
    (!good).then(|| format!("{value:?} is not a label's value"))
}

/// True if the text has only letters, digits, `-`, `_` and `.`, with a letter or digit at each end.
fn is_name(text: &str) -> bool {
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_operators_match_as_in_kubernetes() {
        let holds = |selector: Value, labels: Value| {
            serde_json::from_value::<LabelSelector>(selector).unwrap().selects(&labels)
        };
        let expression = |operator: &str| {
            let values: &[&str] = if operator.ends_with("In") { &["web"] } else { &[] };
            json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]})
        };
        assert!(holds(expression("In"), json!({"app": "web"})));
        assert!(!holds(expression("In"), json!({})));
        assert!(holds(expression("NotIn"), json!({})));
        assert!(holds(expression("NotIn"), Value::Null));
        assert!(!holds(expression("NotIn"), json!({"app": "web"})));
        assert!(holds(expression("Exists"), json!({"app": ""})));
        assert!(holds(expression("DoesNotExist"), json!({"other": "web"})));
        assert!(!holds(json!({}), json!({"app": "web"})));
        assert!(LabelSelector::default().admits(&json!({"app": "web"})));
        assert!(!holds(
            json!({"matchLabels": {"app": "web", "tier": "back"}}),
            json!({"app": "web"})
        ));
    }

    #[test]
    fn invalid_selector_matches_nothing() {
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, problem) in [
            (expression("app", "Is", &["web"]), "\"Is\" is not In, NotIn, Exists or DoesNotExist"),
            (expression("app", "In", &[]), "app: In needs values"),
            (expression("app", "NotIn", &[]), "app: NotIn needs values"),
            (expression("app", "Exists", &["web"]), "app: Exists takes no values"),
            (expression("a b", "Exists", &[]), "\"a b\" is not a label's key"),
            (expression("A.b/c", "Exists", &[]), "\"A.b/c\" is not a label's key"),
            (expression("app", "NotIn", &["!web"]), "\"!web\" is not a label's value"),
            (json!({"matchLabels": {"app": "-web"}}), "\"-web\" is not a label's value"),
        ] {
            let selector: LabelSelector = serde_json::from_value(selector).unwrap();
            let reported = selector.problem().unwrap_or_default();
            assert!(reported.ends_with(problem), "{reported}");
            assert!(!selector.selects(&json!({"app": "other", "a b": "", "A.b/c": ""})));
        }
        let null: LabelSelector =
            serde_json::from_value(json!({"matchLabels": null, "matchExpressions": null})).unwrap();
        assert!(!null.selects(&json!({"app": "web"})));
        let good = json!({"matchLabels": {"app.kubernetes.io/name": "web"}});
        let good: LabelSelector = serde_json::from_value(good).unwrap();
        assert_eq!(good.problem(), None);
        assert!(good.selects(&json!({"app.kubernetes.io/name": "web"})));
    }
}
