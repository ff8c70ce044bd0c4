//! Parts of a review that are needed before it is parsed.

use serde::Deserialize;
use serde_json::value::RawValue;

use documents::nulls::or_default;

/// Namespace and node of a review's pod, read without building the pod.
///
/// Empty if the review is invalid; parsing reports that later.
#[derive(Debug, Default, Deserialize)]
pub(in crate::webhook) struct Outline<'a> {
    /// Namespace of the request.
    #[serde(default, deserialize_with = "or_default")]
    pub(in crate::webhook) namespace: String,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
}

impl<'a> Outline<'a> {
    pub(in crate::webhook) fn from_review(body: &'a [u8]) -> Self {
        #[derive(Deserialize)]
        struct Review<'a> {
            #[serde(borrow)]
            request: Outline<'a>,
        }
        let review: Result<Review<'a>, _> = serde_json::from_slice(body);
        review.map(|review| review.request).unwrap_or_default()
    }

    /// Returns the node to which the pod is already bound. A pod of a `DaemonSet` never is.
    pub(in crate::webhook) fn node(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Pod<'a> {
            #[serde(borrow)]
            spec: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Spec {
            #[serde(rename = "nodeName")]
            node: String,
        }
        let pod: Pod<'_> = serde_json::from_str(self.object?.get()).ok()?;
        serde_json::from_str::<Spec>(pod.spec.get()).ok().map(|spec| spec.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_namespace_or_node_is_empty() {
        for (review, namespace, node) in [
            (
                r#"{"request": {"object": {"namespace": "not", "spec": {"nodeName": "n1"}}, "namespace": "shop"}}"#,
                "shop",
                Some("n1"),
            ),
            (r#"{"request": {"namespace": null, "object": {"spec": []}}}"#, "", None),
            (r#"{"request": {"namespace": "shop", "object": null}}"#, "shop", None),
            (r#"{"request": {"namespace": "shop"}}"#, "shop", None),
            (r#"{"request": null}"#, "", None),
            ("{", "", None),
        ] {
            let outline = Outline::from_review(review.as_bytes());
            assert_eq!(
                (&*outline.namespace, outline.node().as_deref()),
                (namespace, node),
                "{review}"
            );
        }
    }
}
