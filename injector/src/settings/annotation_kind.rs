//! Types of annotation values, and their validation.

use documents::{excerpt, suggest, yaml};
use mesh::proxy_config::ProxyConfig;
use mesh::{log_levels, proxy_config_rules, statistics};
use serde_json::Value;

use super::annotation_json::{self as json, InputError};
use super::annotation_lists::{all_or, cidr, decimal, dense, interface, list, port, port_range};
use crate::kubernetes::image_reference::is_image;
use crate::kubernetes::quantity;

/// The type of an annotation's value. An empty value is valid where Istio allows it: in lists of
/// addresses, ports and interfaces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AnnotationKind {
    /// A host and a port.
    Address,
    /// Log levels of the agent and the init container.
    AgentLogLevels,
    /// Address ranges.
    Cidrs,
    /// Address ranges or `*`.
    CidrsOrAll,
    /// Envoy's log levels by component.
    ComponentLogLevels,
    /// The name of a `ConfigMap`.
    ConfigMap,
    /// A JSON object of environment variables.
    Environment,
    /// A JSON object of the bounds of histograms.
    HistogramBuckets,
    /// A container image.
    Image,
    /// Names of network interfaces.
    Interfaces,
    /// `REDIRECT`, `TPROXY` or `NONE`.
    InterceptionMode,
    /// A log level of Envoy.
    LogLevel,
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
    /// Names of tags of statistics.
    StatTags,
    /// An interval of Envoy's statistics.
    StatsInterval,
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
            Self::Address => "a host and a port such as istiod.istio-system.svc:15012",
            Self::AgentLogLevels => {
                "a list such as default:info,xdsproxy:debug with the levels none, fatal, error, \
                 warn, info and debug"
            }
            Self::Cidrs => "a list of address ranges such as 10.1.0.0/16,fd00::/8",
            Self::CidrsOrAll => "* or a list of address ranges such as 10.1.0.0/16,fd00::/8",
            Self::ComponentLogLevels => {
                "a list such as misc:error,http:debug with the levels trace, debug, info, \
                 warning, warn, error, critical and off"
            }
            Self::ConfigMap => "the name of a ConfigMap",
            Self::HistogramBuckets => statistics::HISTOGRAM_BUCKETS,
            Self::Image => "a container image such as registry.example/istio/proxyv2:1.28",
            Self::InterceptionMode => "REDIRECT, TPROXY or NONE",
            Self::Interfaces => "a list of interface names such as eth1,net1",
            Self::Environment => "a JSON object of environment variables",
            Self::LogLevel => "trace, debug, info, warning, warn, error, critical or off",
            Self::Overrides => "a JSON object of containers and initContainers",
            Self::Port => "a port from 0 to 65535",
            Self::Ports => "a list of ports such as 80,8080",
            Self::PortRanges => "a list of ports and ranges such as 80,8000-8010",
            Self::PortRangesOrAll => "* or a list of ports and ranges such as 80,8000-8010",
            Self::PortsOrAll => "* or a list of ports such as 80,8080",
            Self::ProxyConfig => "a ProxyConfig as YAML or JSON",
            Self::Quantity => "a quantity such as 100m, 2 or 128Mi",
            Self::Seconds => "a whole number from 0 to 2147483647",
            Self::StatTags => "a list of names of letters, digits, `_`, `.` and `-`",
            Self::StatsInterval => statistics::INTERVAL,
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
            Self::LogLevel => &log_levels::OF_ENVOY,
            Self::Switch => &["true", "false"],
            _ => &[],
        }
    }

    /// Validates a value. The error completes a sentence that begins with the value.
    pub fn check(self, value: &str) -> Result<(), String> {
        let fault = match self {
            Self::Address => fault(proxy_config_rules::is_address(value)),
            Self::AgentLogLevels => fault(log_levels::of_scopes(value).is_some()),
            Self::Cidrs => list(value, cidr),
            Self::CidrsOrAll => all_or(value, |value| list(value, cidr)),
            Self::ConfigMap => fault(!value.is_empty()),
            Self::ComponentLogLevels => fault(log_levels::are_of_components(value)),
            Self::HistogramBuckets => fault(statistics::histogram_buckets(value).is_some()),
            Self::Image => fault(is_image(value)),
            Self::InterceptionMode | Self::LogLevel => fault(self.words().contains(&value)),
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
            Self::StatTags => {
                let tags = statistics::list(value);
                let bad = tags.into_iter().find(|tag| !statistics::is_tag(tag));
                bad.map(|tag| InputError::Item(tag.to_owned()))
            }
            Self::StatsInterval => fault(value.is_empty() || statistics::interval(value).is_some()),
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
mod tests;
