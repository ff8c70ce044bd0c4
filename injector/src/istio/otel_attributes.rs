//! OpenTelemetry resource attributes for the proxy's spans.

use serde_json::Value;

/// Returns the value of `OTEL_RESOURCE_ATTRIBUTES`; empty if no tracing provider of the mesh
/// enables the semantic conventions.
///
/// `annotation` and `label` look up those of the pod. `containers` has the names and images of the
/// user-supplied containers, including a user-supplied proxy, as in Istio.
pub(crate) fn resource_attributes<'a>(
    providers: &[Value],
    annotation: impl Fn(&str) -> Option<&'a str>,
    label: impl Fn(&str) -> Option<&'a str>,
    namespace: &str,
    containers: &[(&str, &str)],
) -> String {
    if !asks(providers) {
        return String::new();
    }
    let given = |name: &str| {
        let value = annotation(&format!("resource.opentelemetry.io/service.{name}"));
        value.filter(|value| !value.is_empty())
    };
    let mut attributes = Vec::new();
    if let Some(namespace) = given("namespace").or(Some(namespace).filter(|name| !name.is_empty()))
    {
        attributes.push(format!("service.namespace={namespace}"));
    }
    let version = given("version")
        .or_else(|| label("app.kubernetes.io/version").filter(|version| !version.is_empty()));
    let of_image = match containers {
        [(_, image)] => version_of(image),
        _ => None,
    };
    if let Some(version) = version.map(str::to_owned).or(of_image) {
        attributes.push(format!("service.version={version}"));
    }
    let instance = given("instance.id").map(str::to_owned).or_else(|| {
        let (container, _) = containers.first()?;
        Some(format!("{namespace}.$(POD_NAME).{container}"))
    });
    if let Some(instance) = instance {
        attributes.push(format!("service.instance.id={instance}"));
    }
    attributes.join(",")
}

/// True if one of the mesh's `extensionProviders` enables the attributes.
pub(crate) fn asks(providers: &[Value]) -> bool {
    providers.iter().any(|provider| {
        let enrichment = &provider["opentelemetry"]["serviceAttributeEnrichment"];
        *enrichment == "OTEL_SEMANTIC_CONVENTIONS" || *enrichment == 1
    })
}

/// Returns the tag of an image, its digest, or both.
fn version_of(image: &str) -> Option<String> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag).filter(|tag| !tag.is_empty());
    match (tag, digest) {
        (Some(tag), Some(digest)) => Some(format!("{tag}@{digest}")),
        (Some(one), None) | (None, Some(one)) => Some(one.to_owned()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attributes(annotations: &Value, labels: &Value, containers: &[(&str, &str)]) -> String {
        let providers = [
            json!({"name": "envoy", "envoyFileAccessLog": {}}),
            json!({"opentelemetry": {"serviceAttributeEnrichment": "OTEL_SEMANTIC_CONVENTIONS"}}),
        ];
        let annotation = |key: &str| annotations[key].as_str();
        resource_attributes(&providers, annotation, |key| labels[key].as_str(), "ns", containers)
    }

    #[test]
    fn no_attributes_without_a_provider_that_needs_them() {
        let none = |_: &str| None;
        assert_eq!(resource_attributes(&[], none, none, "ns", &[("a", "b:1")]), "");
        let other = [json!({"opentelemetry": {"port": 4317}})];
        assert_eq!(resource_attributes(&other, none, none, "ns", &[("a", "b:1")]), "");
    }

    #[test]
    fn annotations_precede_labels_and_labels_precede_images() {
        let digest = "sha256:0123";
        for (annotations, labels, image, version) in [
            (json!({}), json!({}), "r:5000/a".to_owned(), ""),
            (json!({}), json!({}), "r:5000/a:1".to_owned(), "service.version=1,"),
            (json!({}), json!({}), format!("a@{digest}"), "service.version=sha256:0123,"),
            (json!({}), json!({}), format!("a:1@{digest}"), "service.version=1@sha256:0123,"),
            (
                json!({}),
                json!({"app.kubernetes.io/version": "l"}),
                "a:1".to_owned(),
                "service.version=l,",
            ),
            (
                json!({"resource.opentelemetry.io/service.version": "n"}),
                json!({"app.kubernetes.io/version": "l"}),
                "a:1".to_owned(),
                "service.version=n,",
            ),
        ] {
            let expected =
                format!("service.namespace=ns,{version}service.instance.id=ns.$(POD_NAME).app");
            assert_eq!(attributes(&annotations, &labels, &[("app", &image)]), expected);
        }
        let several = attributes(&json!({}), &json!({}), &[("a", "a:1"), ("b", "b:2")]);
        assert_eq!(several, "service.namespace=ns,service.instance.id=ns.$(POD_NAME).a");
    }

    #[test]
    fn each_attribute_has_an_annotation() {
        let annotations = json!({
            "resource.opentelemetry.io/service.namespace": "n",
            "resource.opentelemetry.io/service.instance.id": "i",
        });
        let text = attributes(&annotations, &json!({}), &[("a", "a")]);
        assert_eq!(text, "service.namespace=n,service.instance.id=i");
    }
}
