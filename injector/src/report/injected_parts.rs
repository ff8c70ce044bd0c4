//! Content that an injection adds to a pod, for reports.

use reason::Reason;
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use serde_json::Value;

use crate::inject::Injection;
use crate::inject::reinject::status::InjectionStatus;
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS};

/// Templates, containers and warnings of an injection.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct InjectedParts {
    /// Names of the templates, in the order of their merge.
    pub templates: Vec<String>,
    /// Injected containers in their order in the pod, those of `initContainers` first.
    pub containers: Vec<InjectedContainer>,
    /// Warnings of the injector.
    pub warnings: Vec<InjectionWarning>,
}

/// Container that an injection adds to a pod, or changes.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct InjectedContainer {
    /// Name of the container.
    pub name: String,
    /// List of the container: `initContainers` or `containers`.
    pub list: &'static str,
    /// Image of the container.
    pub image: String,
}

/// Warning of an injection; serialized as word, message and hint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InjectionWarning(pub Reason);

impl InjectedParts {
    /// Returns the parts of an injection.
    pub fn new(injection: &Injection) -> Self {
        let status = InjectionStatus::from_pod(&injection.pod).unwrap_or_default();
        let mut containers = Vec::new();
        for list in [INIT_CONTAINERS, CONTAINERS] {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let in_pod = injection.pod["spec"][list].as_array().into_iter().flatten();
            let container = |container: &Value| InjectedContainer {
                name: text(&container["name"]),
                list,
                image: text(&container["image"]),
            };
            let of_list = in_pod.map(container);
            containers.extend(of_list.filter(|one| status.injected(list, &one.name)));
        }
        let warnings = injection.warnings.iter().cloned().map(InjectionWarning).collect();
        Self { templates: injection.templates.clone(), containers, warnings }
    }
}

impl Serialize for InjectionWarning {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("InjectionWarning", 3)?;
        object.serialize_field("word", self.0.word())?;
        object.serialize_field("message", self.0.message())?;
        object.serialize_field("hint", &self.0.hint())?;
        object.end()
    }
}
