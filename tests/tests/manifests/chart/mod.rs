//! The Helm chart.

mod cases;
mod images;
mod objects;
mod values;

use std::collections::BTreeMap;
use std::fs;

use e2e::helm::Helm;
use e2e::programs::Programs;
use serde_json::Value;

pub(crate) use self::objects::with_complete_images;
use crate::documents::manifests;

fn helm() -> Helm {
    Helm::new(&Programs::find().unwrap()).unwrap()
}

/// Objects of the chart by kind and name.
pub(crate) fn templated(values: &Value) -> BTreeMap<String, Value> {
    let text = helm().template(values).unwrap();
    let documents = text.split("---\n").filter(|text| text.contains("\nkind: "));
    by_name(documents.map(|text| ::documents::yaml::parse(text).unwrap()))
}

fn by_name(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    let name = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
    };
    objects.into_iter().map(|object| (name(&object), object)).collect()
}

/// Document in a `ConfigMap`.
pub(crate) fn document(object: &Value, key: &str) -> Value {
    ::documents::yaml::parse(object["data"][key].as_str().unwrap()).unwrap()
}

fn chart_file(name: &str) -> Value {
    let text = fs::read_to_string(manifests().join("chart").join(name)).unwrap();
    ::documents::yaml::parse(&text).unwrap()
}
