//! Types of annotation values, and their validation.

use documents::{excerpt, suggest, yaml};
use mesh::proxy_config::ProxyConfig;
use mesh::proxy_config_rules;
use serde_json::Value;

use super::annotation_json::{self as json, InputError};
use super::annotation_lists::{all_or, cidr, decimal, dense, interface, list, port, port_range};
use crate::kubernetes::quantity;

/// The type of an annotation's value. An empty value is valid where Istio allows it: in lists of
/// addresses, ports and interfaces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AnnotationKind {
    /// Address ranges.
    Cidrs,
    /// Address ranges or `*`.
    CidrsOrAll,
    /// The name of a `ConfigMap`.
    ConfigMap,
    /// A JSON object of environment variables.
    Environment,
    /// A container image.
    Image,
    /// Names of network interfaces.
    Interfaces,
    /// `REDIRECT`, `TPROXY` or `NONE`.
    InterceptionMode,
    /// A JSON object of containers and init containers.
    Overrides,
    /// One port, 0 included.
    Port,
    /// Ports, 0 included.
    Ports,
    /// Ports or `*`.
    PortsOrAll,
    /// A `ProxyConfig` as YAML or JSON.
    ProxyConfig,
    /// A Kubernetes quantity.
    Quantity,
    /// Ports and port ranges, 0 included. The list may have empty items: Istio passes the list to
    /// `istio-init`, which accepts ranges and skips empty items.
    PortRanges,
    /// Port ranges or `*`.
    PortRangesOrAll,
    /// A non-negative number of seconds or of attempts, as in the fields of a Kubernetes probe.
    Seconds,
    /// A boolean in the syntax of Go's `strconv.ParseBool`.
    Switch,
    /// The suffix of an image tag.
    Tag,
    /// Names of templates.
    Templates,
    /// Any text.
    Text,
    /// A JSON list of mounts, or an object of them by the name of their volume.
    VolumeMounts,
    /// A JSON list of volumes, or an object of them by name.
    Volumes,
}

impl AnnotationKind {
    /// Returns the allowed values in words, for messages and the reference page.
    pub fn allowed(self) -> &'static str {
        match self {
            Self::Cidrs => "a list of address ranges such as 10.1.0.0/16,fd00::/8",
            Self::CidrsOrAll => "* or a list of address ranges such as 10.1.0.0/16,fd00::/8",
            Self::ConfigMap => "the name of a ConfigMap",
            Self::Image => "a container image",
            Self::InterceptionMode => "REDIRECT, TPROXY or NONE",
            Self::Interfaces => "a list of interface names such as eth1,net1",
            Self::Environment => "a JSON object of environment variables",
            Self::Overrides => "a JSON object of containers and initContainers",
            Self::Port => "a port from 0 to 65535",
            Self::Ports => "a list of ports such as 80,8080",
            Self::PortRanges => "a list of ports and ranges such as 80,8000-8010",
            Self::PortRangesOrAll => "* or a list of ports and ranges such as 80,8000-8010",
            Self::PortsOrAll => "* or a list of ports such as 80,8080",
            Self::ProxyConfig => "a ProxyConfig as YAML or JSON",
            Self::Quantity => "a quantity such as 100m, 2 or 128Mi",
            Self::Seconds => "a whole number from 0 to 2147483647",
            Self::Switch => "true or false",
            Self::Tag => proxy_config_rules::IMAGE_TYPE,
            Self::Templates => "a list of at most 32 templates such as sidecar,mine",
            Self::Text => "text",
            Self::VolumeMounts => {
                "a JSON list of mounts such as [{\"name\":\"v\",\"mountPath\":\"/v\"}], or an \
                 object of volumes and their mounts"
            }
            Self::Volumes => {
                "a JSON list of volumes such as [{\"name\":\"v\",\"emptyDir\":{}}], or an object \
                 of names and volumes"
            }
        }
    }

    /// Returns the type that applies to the Helm value with the same meaning. A Helm value may hold
    /// port ranges, because only `istio-init` parses it.
    pub(super) fn in_values(self) -> Self {
        match self {
            Self::Ports => Self::PortRanges,
            Self::PortsOrAll => Self::PortRangesOrAll,
            other => other,
        }
    }

    /// True if the type is a list that Istio passes on unchecked when it comes from a Helm value.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Cidrs | Self::CidrsOrAll | Self::PortRanges | Self::PortRangesOrAll)
    }

    /// Returns the allowed words of an enumeration; empty for every other type.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::InterceptionMode => &["REDIRECT", "TPROXY", "NONE"],
            Self::Switch => &["true", "false"],
            _ => &[],
        }
    }

    /// Validates a value. The error completes a sentence that begins with the value.
    pub fn check(self, value: &str) -> Result<(), String> {
        let fault = match self {
            Self::Cidrs => list(value, cidr),
            Self::CidrsOrAll => all_or(value, |value| list(value, cidr)),
            Self::ConfigMap => fault(!value.is_empty()),
            // A value without a slash has no effect.
            Self::Image => fault(
                !value.contains('/') || !value.chars().any(|c| c.is_whitespace() || c.is_control()),
            ),
            Self::InterceptionMode => fault(self.words().contains(&value)),
            Self::Interfaces => list(value, |name| interface(name.trim())),
            Self::Environment => fault(json::environment(value)),
            Self::Overrides => json::overrides(value),
            Self::Port => fault(port(value.trim())),
            Self::Ports => list(value.trim(), |item| port(item.trim())),
            Self::PortsOrAll => all_or(value, |value| list(value.trim(), |item| port(item.trim()))),
            Self::ProxyConfig => return proxy_config(value),
            Self::Quantity => fault(quantity::may_be_asked_for(value)),
            Self::PortRanges => list(&dense(value), port_range),
            Self::PortRangesOrAll => all_or(value, |value| list(&dense(value), port_range)),
            Self::Seconds => fault(seconds(value)),
            Self::Switch => fault(switch(value).is_some()),
            Self::Tag => fault(proxy_config_rules::is_image_type(value)),
            // Each template is rendered, and only the size of a pod's annotations limits the list.
            Self::Templates => fault(value.split(',').count() <= 32),
            Self::Text => return Ok(()),
            Self::VolumeMounts => json::mounts(value),
            Self::Volumes => json::volumes(value),
        };
        match fault {
            None => Ok(()),
            Some(InputError::Whole) => {
                let hint = suggest::did_you_mean(value, self.words());
                Err(format!("is not {}{hint}", self.allowed()))
            }
            Some(InputError::Because(problem)) => {
                Err(format!("is not {}: {problem}", self.allowed()))
            }
            Some(InputError::Item(item)) if item.is_empty() => {
                Err(format!("is not {}: an item is empty", self.allowed()))
            }
            Some(InputError::Item(item)) => {
                let item = excerpt::shorten(&item);
                Err(format!("is not {}: the item {item:?} is invalid", self.allowed()))
            }
        }
    }
}

fn fault(good: bool) -> Option<InputError> {
    (!good).then_some(InputError::Whole)
}

/// Parses a boolean in the syntax of Go's `strconv.ParseBool`.
pub fn switch(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// True if the text is a non-negative `int32`. A leading zero is invalid: in the YAML of a template
/// it would mean an octal number.
fn seconds(text: &str) -> bool {
    let whole = text == "0" || !text.starts_with('0');
    whole && decimal(text).is_some_and(|number| i32::try_from(number).is_ok())
}

fn proxy_config(value: &str) -> Result<(), String> {
    let layer = match yaml::parse_first(value) {
        Ok((Value::Null, _)) => return Ok(()),
        Ok((layer, _)) => layer,
        Err(error) => {
            return Err(format!("is not {}: {error}", AnnotationKind::ProxyConfig.allowed()));
        }
    };
    let mut config = ProxyConfig::default();
    let problems = match config.apply(&layer) {
        Ok(()) => proxy_config_rules::problems(&config),
        Err(problem) => vec![problem],
    };
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("is not {}: {}", AnnotationKind::ProxyConfig.allowed(), problems.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_accepts_what_istio_accepts() {
        for (kind, good, bad) in [
            (
                AnnotationKind::Cidrs,
                &["", "10.1.2.3/8", "fd00::/8,10.0.0.0/8"][..],
                &[
                    "*",
                    "10.1.2.3",
                    "10.0.0.0/33",
                    " 10.0.0.0/8",
                    "10.0.0.0/08",
                    "a/8",
                    "10.0.0.0/8,",
                    "fe80::%eth0/64",
                ][..],
            ),
            (AnnotationKind::CidrsOrAll, &["*", ""], &["*,10.0.0.0/8"]),
            (
                AnnotationKind::Ports,
                &["", " ", "80", "80, 90", " 080 ", "0"],
                &["*", "70000", "http", "-1", "+1", "80-90", "80,", "80,,90", ","],
            ),
            (
                AnnotationKind::PortRanges,
                &["", "80,,90", "80, 90,", ",", "8000-8010", "8000:8010,80"],
                &["*", "80,http", "90-80", "80-", "-80", "80-70000", "80-90-100"],
            ),
            (AnnotationKind::PortRangesOrAll, &["*", "", "80,8000-8010"], &["*,80"]),
            (AnnotationKind::PortsOrAll, &["*", "80"], &["*,80"]),
            (AnnotationKind::Port, &["0", " 15020 "], &["", "x", "65536"]),
            (
                AnnotationKind::Quantity,
                &[
                    "100m", "2", "128Mi", "1.5", "1e3", ".5", "+1", "0", "1E-18", ".", "Mi", "+",
                    "-0",
                ],
                &["", "100 m", "1.2.3", "5x", "1\n", "-1", "-100m", "1e1000", &"9".repeat(31)],
            ),
            (AnnotationKind::Seconds, &["0", "2147483647"], &["", "2147483648", "-1", "1s", "010"]),
            (
                AnnotationKind::Interfaces,
                &["", "eth0", "net1,eth-0.5"],
                &["0eth", "a b", "abcdefghijklmnop"],
            ),
            (AnnotationKind::InterceptionMode, &["NONE"], &["redirect", ""]),
            (
                AnnotationKind::Environment,
                &["{}", r#"{"A":"x","B c":1}"#],
                &["[]", "", "{", r#"{"":"x"}"#, r#"{"A=B":"x"}"#],
            ),
            (
                AnnotationKind::Volumes,
                &[
                    "{}",
                    "[]",
                    "null",
                    r#"{"v":{"emptyDir":{}}}"#,
                    r#"{"v":{"name":"w","emptyDir":{}}}"#,
                    r#"[{"name":"v","emptyDir":{}}]"#,
                    r#"[{"emptyDir":{}}]"#,
                    r#"[{"name":"v","configMap":{"name":"c","ofALaterVersion":1}}]"#,
                ],
                &[
                    "",
                    "5",
                    r#""v""#,
                    "[{}]",
                    "[null]",
                    "[[]]",
                    r#"["v"]"#,
                    r#"[{"name":"V_","emptyDir":{}}]"#,
                    r#"{"v":5}"#,
                    r#"{"v":null}"#,
                    r#"{"v":{}}"#,
                    r#"{"V_":{"emptyDir":{}}}"#,
                    r#"{"":{"emptyDir":{}}}"#,
                    r#"{"v-":{"emptyDir":{}}}"#,
                    r#"{"v":{"name":"W_","emptyDir":{}}}"#,
                    r#"{"v":{"name":null,"emptyDir":{}}}"#,
                    r#"{"v":{"$patch":"delete"}}"#,
                    r#"[{"name":"v","emptyDir":{},"HostPath":{"path":"/"}}]"#,
                    // Kubernetes turns a volume without a source into an emptyDir.
                    r#"[{"name":"v"}]"#,
                    r#"{"v":{"emptyDir":null}}"#,
                    r#"{"v":{"comfigMap":{"name":"c"}}}"#,
                    r#"{"v":{"emptyDir":{},"mountPath":"/v"}}"#,
                    r#"{"v":{"configMap":{"nmae":"c"}}}"#,
                    r#"{"v":{"configMap":{"items":[{"key":"k","paht":"p"}]}}}"#,
                ],
            ),
            (
                AnnotationKind::VolumeMounts,
                &[
                    "{}",
                    "[]",
                    "null",
                    r#"{"v":{"mountPath":"/v","readOnly":true}}"#,
                    r#"[{"name":"certs","mountPath":"/etc/certs","readonly":true}]"#,
                    r#"[{"NAME":"v","mountpath":"/v"}]"#,
                ],
                &[
                    r#"{"v":{}}"#,
                    r#"{"v":{"mountPath":""}}"#,
                    r#"{"v":{"mountPath":5}}"#,
                    r#"[{"name":"v"}]"#,
                    r#"[{"name":"v","mountPath":"/v","readonly":"true"}]"#,
                    r#"[{"name":"v","mountPath":"/v","redOnly":true}]"#,
                    r#"[{"name":"v","mountPath":"/v","other":true}]"#,
                ],
            ),
            (AnnotationKind::Tag, &["", "debug", "a_b.c-d"], &["a b", "a:b", "a/b", "debug ", "ü"]),
            (AnnotationKind::ConfigMap, &["c", "any thing"], &[""]),
            (AnnotationKind::Templates, &["", "a", "a, b"], &[&",".repeat(32)]),
            (
                AnnotationKind::Overrides,
                &["{}", "null", r#"{"containers":null}"#, r#"{"containers":[{"name":"c"}]}"#],
                &["[]", r#"{"containers":5}"#, r#"{"initContainers":["c"]}"#],
            ),
            (AnnotationKind::Switch, &["true", "FALSE", "1", "f"], &["", "yes", "tRUE", "on"]),
            (
                AnnotationKind::ProxyConfig,
                &["concurrency: 2", "concurrency: 2\nconcurrency: 3", "{}\n---\n{}", "{}", ""],
                &["concurrency: x", "[", "text"],
            ),
            (AnnotationKind::Image, &["a/b:c", " ", "a b"], &["a/b c", "a/b\n"]),
        ] {
            for value in good {
                assert_eq!(kind.check(value), Ok(()), "{kind:?} {value:?}");
            }
            for value in bad {
                assert!(kind.check(value).is_err(), "{kind:?} {value:?}");
            }
        }
    }

    #[test]
    fn invalid_word_gets_a_suggestion() {
        assert_eq!(
            AnnotationKind::InterceptionMode.check("tproxy").unwrap_err(),
            "is not REDIRECT, TPROXY or NONE; did you mean TPROXY?"
        );
        assert_eq!(
            AnnotationKind::Switch.check("ture").unwrap_err(),
            "is not true or false; did you mean true?"
        );
        assert_eq!(AnnotationKind::Switch.check("maybe").unwrap_err(), "is not true or false");
    }

    #[test]
    fn invalid_list_item_is_named() {
        assert_eq!(
            AnnotationKind::Ports.check("80,,81").unwrap_err(),
            "is not a list of ports such as 80,8080: an item is empty"
        );
        assert_eq!(
            AnnotationKind::Ports.check("80,http").unwrap_err(),
            "is not a list of ports such as 80,8080: the item \"http\" is invalid"
        );
    }
}
