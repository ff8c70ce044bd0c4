//! The `AdmissionReview` envelope of `admission.k8s.io/v1` and of `v1beta1`, which has the same
//! fields.
//!
//! The pod stays a JSON value, so that no field unknown to this build is lost.

use std::marker::PhantomData;
use std::{fmt, io};

use base64_simd::STANDARD;
use documents::excerpt;
use documents::nulls::or_default;
use reason::Reason;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::ser::Formatter;

use crate::json::patch::Patch;

/// Parses a review. Anything after the document is an error, as is an unknown version.
pub fn parse(body: &[u8]) -> Result<Review, ReviewError> {
    // The whole text, because the parser does not check skipped unknown fields.
    let text = std::str::from_utf8(body).map_err(ReviewError::Text)?;
    let Object(review): Object<Review> = serde_json::from_str(text).map_err(ReviewError::Json)?;
    let version = API_VERSIONS.into_iter().find(|version| review.api_version == *version);
    if let Some(version) = version.filter(|_| review.kind == KIND) {
        return Ok(Review { version, ..review });
    }
    let [api_version, kind] =
        [&review.api_version, &review.kind].map(|text| excerpt::shorten(text).into_owned());
    Err(ReviewError::Version { api_version, kind })
}

/// The `AdmissionReview` that the API server sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    #[serde(default, deserialize_with = "or_default")]
    api_version: String,
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    /// API version of the request, in which the response is expected.
    #[serde(skip)]
    pub version: &'static str,
    /// Admission request; a review without one is denied.
    #[serde(default, deserialize_with = "object")]
    pub request: Option<Request>,
}

/// Admission request for one object.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Request {
    /// Identifier of the request; the response repeats it.
    #[serde(deserialize_with = "or_default")]
    pub uid: String,
    /// Type of the object.
    #[serde(deserialize_with = "or_default")]
    pub kind: ObjectKind,
    /// Subresource, for example `status`; empty for the object itself.
    #[serde(deserialize_with = "or_default")]
    pub sub_resource: String,
    /// Namespace of the request.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Operation: `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    #[serde(deserialize_with = "or_default")]
    pub operation: String,
    /// True if nothing is to be persisted.
    #[serde(deserialize_with = "or_default")]
    pub dry_run: bool,
    /// Object as sent.
    pub object: Value,
}

/// Type of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObjectKind {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// Kind, for example `Pod`.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
}

/// Response to a [`Request`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    #[serde(skip)]
    version: &'static str,
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Response {
    /// Returns a response that allows the object as it is.
    pub fn allow(uid: String) -> Self {
        Self {
            version: API_VERSIONS[0],
            uid,
            allowed: true,
            status: None,
            patch: None,
            patch_type: None,
            warnings: Vec::new(),
        }
    }

    /// Returns a response that denies the object. The API server shows the message to the user and
    /// answers with the code.
    pub fn deny(uid: String, code: u16, message: String) -> Self {
        Self { allowed: false, status: Some(Status { code, message }), ..Self::allow(uid) }
    }

    /// Adds a JSON patch. An empty patch is left out together with its type, because the API server
    /// rejects one without the other. A patch of more than 3 MiB is an error: API servers accept no
    /// object of that size from a client, and etcd stores none.
    pub fn with_patch(mut self, patch: &Patch<'_>) -> Result<Self, serde_json::Error> {
        if !patch.is_empty() {
            let mut json = Bounded(Vec::with_capacity(PATCH_BYTES));
            serde_json::to_writer(&mut json, patch)?;
            self.patch = Some(Bytes(json.0));
            self.patch_type = Some("JSONPatch");
        }
        Ok(self)
    }

    /// Adds warnings, which `kubectl` shows to the user.
    #[must_use]
    pub fn with_warnings(mut self, reasons: &[Reason]) -> Self {
        // A warning travels in an HTTP header, where control characters would void it.
        let line = |reason: &Reason| reason.to_string().replace(char::is_control, " ");
        let room = WARNINGS.saturating_sub(self.warnings.len());
        self.warnings.extend(reasons.iter().take(room).map(line));
        if let Some(more @ 1..) = reasons.len().checked_sub(room) {
            self.warnings.push(format!("{more} more warnings are omitted"));
        }
        self
    }

    /// Sets the API version of the response, that of the [`Review`].
    #[must_use]
    pub fn in_version(self, version: &'static str) -> Self {
        Self { version, ..self }
    }

    /// Encodes the whole review with this response.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Envelope<'a> {
            api_version: &'static str,
            kind: &'static str,
            response: &'a Response,
        }
        let patch =
            self.patch.as_ref().map_or(0, |Bytes(patch)| STANDARD.encoded_length(patch.len()));
        let mut json = Vec::with_capacity(patch + ENVELOPE_BYTES);
        let envelope = Envelope { api_version: self.version, kind: KIND, response: self };
        envelope.serialize(&mut serde_json::Serializer::with_formatter(&mut json, Base64))?;
        Ok(json)
    }
}

/// Body that is no valid review.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The body is not UTF-8 text, as JSON must be (RFC 8259, section 8.1).
    #[error("the body is not an AdmissionReview: {0}")]
    Text(#[source] std::str::Utf8Error),
    /// The body is not one JSON document with the form of a review.
    #[error("the body is not an AdmissionReview: {0}")]
    Json(#[source] serde_json::Error),
    /// The document has another type or version.
    #[error("apiVersion {api_version:?}, kind {kind:?}: want {} {KIND}", API_VERSIONS[0])]
    Version {
        /// API version in the body.
        api_version: String,
        /// Kind in the body.
        kind: String,
    },
}

#[derive(Debug, Serialize)]
struct Status {
    code: u16,
    message: String,
}

/// Value deserialized from a JSON object only; serde would also accept a list of the fields.
struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members)).map(Object)
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Request>, D::Error> {
    Ok(Option::<Object<Request>>::deserialize(deserializer)?.map(|Object(request)| request))
}

/// Bytes that serde serializes as bytes, not as a sequence.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

/// Writer that fails when a patch exceeds the largest size.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.0.len() + bytes.len() > MOST_PATCH_BYTES {
            let problem = format!("the patch has more than {MOST_PATCH_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON formatter that writes bytes in base64, as Go does. Base64 needs no escaping, so it is
/// written unchecked.
struct Base64;

impl Formatter for Base64 {
    fn write_byte_array<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.begin_string(writer)?;
        writer.write_all(STANDARD.encode_to_string(bytes).as_bytes())?;
        self.end_string(writer)
    }
}

/// Supported API versions. An API server sends the first one of the webhook configuration's list
/// that it supports.
const API_VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
const KIND: &str = "AdmissionReview";

/// Largest patch in bytes: the size of an object that an API server accepts
/// (`MaxRequestBodyBytes`). No pod that can be stored gets a longer patch.
const MOST_PATCH_BYTES: usize = 3 << 20;
/// Largest number of warnings in one response. API servers pass on 4 KiB of them.
const WARNINGS: usize = 50;
/// Initial capacity of a patch in bytes, enough for most pods.
const PATCH_BYTES: usize = 16 << 10;
/// Capacity in bytes of a response without its patch.
const ENVELOPE_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::json::change::Draft;
    use crate::json::patch;

    #[test]
    fn unknown_pod_fields_are_kept() {
        let pod = json!({"metadata": {"creationTimestamp": null}, "spec": {"newIn2040": [1.5]}});
        let body = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "other": 1,
            "request": {"uid": "u1", "namespace": "n", "dryRun": true, "options": {}, "object": pod,
                "kind": {"group": "", "version": "v1", "kind": "Pod"}, "oldObject": null},
        });
        let request = parse(body.to_string().as_bytes()).unwrap().request.unwrap();
        assert_eq!(request.object, pod);
        assert_eq!((request.uid.as_str(), request.namespace.as_str()), ("u1", "n"));
        assert!(request.dry_run);
        assert_eq!(request.kind.kind, "Pod");
    }

    #[test]
    fn null_request_fields_count_as_absent() {
        let body = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u", "kind": null, "subResource": null, "namespace": null,
                "operation": null, "dryRun": null, "object": null},
        });
        let request = parse(body.to_string().as_bytes()).unwrap().request.unwrap();
        assert_eq!((request.uid.as_str(), request.dry_run), ("u", false));
        assert_eq!(request.object, Value::Null);
    }

    #[test]
    fn other_documents_are_rejected() {
        let review = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#;
        assert!(parse(review.as_bytes()).unwrap().request.is_none());
        let table = [
            (review.replace("v1", "v1alpha1"), "want admission.k8s.io/v1"),
            (review.replace("Review", "Revue"), "want admission.k8s.io/v1"),
            (format!("{review} {{}}"), "trailing characters"),
            ("{}".to_owned(), "want admission.k8s.io/v1"),
            ("apiVersion: v1".to_owned(), "not an AdmissionReview"),
            (r#"["admission.k8s.io/v1","AdmissionReview",{}]"#.to_owned(), "expected an object"),
            (review.replace('}', r#","request":["u"]}"#), "expected an object"),
            (format!("{{\"request\":{}", "[".repeat(200)), "invalid type"),
            (format!("{{\"request\":{{\"object\":{}", "[".repeat(100_000)), "recursion limit"),
        ];
        for (body, message) in table {
            let error = parse(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        for key in ["uid", "unknown"] {
            let before = review.replace('}', &format!(r#","request":{{"{key}":""#));
            let no_text = [before.as_bytes(), b"\xff", br#""}}"#].concat();
            let error = parse(&no_text).unwrap_err().to_string();
            assert!(error.contains("not an AdmissionReview: invalid utf-8"), "{error}");
        }
    }

    #[test]
    fn responses_parse_as_admission_reviews() {
        let reason = Reason::new(reason::words::WINDOWS, "the pod runs\non Windows");
        let skip = Response::allow("u".to_owned()).with_warnings(&[reason]);
        let deny = Response::deny("u".to_owned(), 400, "no".to_owned());
        let respond = |draft: Draft| {
            let (pod, change) = draft.finish();
            Response::allow("u".to_owned()).with_patch(&patch::write(&pod, &change)).unwrap()
        };
        let mut draft = Draft::new(json!({"a": 1}));
        let empty = respond(draft.clone());
        draft.remove(&[], "a");
        let inject = respond(draft);
        let lines: Vec<_> = [skip, deny, inject, empty]
            .iter()
            .map(|r| String::from_utf8(r.to_json().unwrap()).unwrap())
            .collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    proptest! {
        #[test]
        fn any_body_gets_an_answer(body in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = parse(&body);
        }

        #[test]
        fn damaged_reviews_get_an_answer(at in 0..300_usize, byte in any::<u8>()) {
            let mut body = json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "request": {"uid": "u1", "namespace": "n", "operation": "CREATE", "dryRun": false,
                    "kind": {"group": "", "kind": "Pod"},
                    "object": {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}},
            }).to_string().into_bytes();
            let at = at % body.len();
            body[at] = byte;
            let _ = parse(&body);
        }
    }
}
