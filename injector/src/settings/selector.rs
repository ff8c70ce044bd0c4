//! Kubernetes label selectors.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A label selector: every label and every expression must hold
/// (`k8s.io/apimachinery` `LabelSelector`).
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// Whether the labels (an object, or null for none) are selected. An empty selector selects
    /// nothing, as Istio's injector reads it.
    pub fn selects(&self, labels: &Value) -> bool {
        let empty = self.match_labels.is_empty() && self.match_expressions.is_empty();
        !empty
            && self.match_labels.iter().all(|(key, value)| labels[key] == value.as_str())
            && self.match_expressions.iter().all(|requirement| requirement.holds(labels))
    }
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<String>,
}

impl Requirement {
    fn holds(&self, labels: &Value) -> bool {
        let value = labels.get(&self.key).and_then(Value::as_str);
        let listed = value.is_some_and(|value| self.values.iter().any(|one| one == value));
        match self.operator {
            Operator::In => listed,
            Operator::NotIn => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operators_are_kubernetes() {
        let holds = |selector: Value, labels: Value| {
            serde_json::from_value::<LabelSelector>(selector).unwrap().selects(&labels)
        };
        let expression = |operator: &str| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": ["web"]}]});
        assert!(holds(expression("In"), json!({"app": "web"})));
        assert!(!holds(expression("In"), json!({})));
        assert!(holds(expression("NotIn"), json!({})));
        assert!(holds(expression("NotIn"), Value::Null));
        assert!(!holds(expression("NotIn"), json!({"app": "web"})));
        assert!(holds(expression("Exists"), json!({"app": ""})));
        assert!(holds(expression("DoesNotExist"), json!({"other": "web"})));
        assert!(!holds(json!({}), json!({"app": "web"})));
        assert!(!holds(
            json!({"matchLabels": {"app": "web", "tier": "back"}}),
            json!({"app": "web"})
        ));
    }
}
