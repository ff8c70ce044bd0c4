//! Fields of `ProxyConfig`.

use go_types::{self, PROXY_CONFIG};
use serde_json::Value;

use crate::proto_json;

/// One field of `ProxyConfig`.
pub(crate) struct Field {
    /// Its name in protobuf's JSON.
    pub(crate) name: &'static str,
    initial: Initial,
}

/// Returns the field with this name. Protobuf's original names (`status_port`) are accepted too.
pub(crate) fn field(name: &str) -> Option<&'static Field> {
    let typed = PROXY_CONFIG.field(name)?;
    FIELDS.iter().find(|field| field.name == typed.json)
}

impl Field {
    /// Returns a value in canonical protobuf JSON. The error uses the user's spelling of the field.
    pub(crate) fn canonical(&self, called: &str, value: &Value) -> Result<Value, String> {
        self.typed()
            .map_or(Ok(Value::Null), |field| proto_json::canonical(field.kind, called, value))
    }

    /// True if protobuf's JSON omits the value.
    pub(crate) fn is_zero(&self, value: &Value) -> bool {
        self.typed().is_some_and(|field| proto_json::is_omitted(field, value))
    }

    /// True if `other` must be unset when this field is set.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        let one_of = |field: &Self| field.typed().is_some_and(go_types::Field::is_one_of);
        self.name != other.name && one_of(self) && one_of(other)
    }

    /// True if a layer adds its members to those below instead of replacing them all.
    pub(crate) fn unites(&self) -> bool {
        ["proxyHeaders", "proxyMetadata"].contains(&self.name)
    }

    /// Returns the default value.
    pub(crate) fn initial(&self) -> Option<Value> {
        match self.initial {
            Initial::Unset => None,
            Initial::Text(text) => Some(text.into()),
            Initial::Number(number) => Some(number.into()),
        }
    }

    fn typed(&self) -> Option<&'static go_types::Field> {
        PROXY_CONFIG.field(self.name)
    }
}

/// Default value of a field.
enum Initial {
    Unset,
    Text(&'static str),
    Number(i32),
}

const fn unset(name: &'static str) -> Field {
    Field { name, initial: Initial::Unset }
}

const fn text(name: &'static str, initial: &'static str) -> Field {
    Field { name, initial: Initial::Text(initial) }
}

const fn number(name: &'static str, initial: i32) -> Field {
    Field { name, initial: Initial::Number(initial) }
}

/// The fields of `mesh.v1alpha1.ProxyConfig` in the order of their field numbers.
pub(crate) const FIELDS: &[Field] = &[
    text("configPath", "./etc/istio/proxy"),
    text("binaryPath", "/usr/local/bin/envoy"),
    text("serviceCluster", "istio-proxy"),
    text("drainDuration", "45s"),
    text("discoveryAddress", "istiod.istio-system.svc:15012"),
    unset("discoveryRefreshDelay"),
    unset("zipkinAddress"),
    unset("statsdUdpAddress"),
    number("proxyAdminPort", 15000),
    unset("availabilityZone"),
    text("controlPlaneAuthPolicy", "MUTUAL_TLS"),
    unset("customConfigFile"),
    number("statNameLength", 189),
    unset("concurrency"),
    unset("proxyBootstrapTemplatePath"),
    unset("interceptionMode"),
    unset("tracing"),
    unset("envoyMetricsServiceAddress"),
    unset("sds"),
    unset("envoyAccessLogService"),
    unset("envoyMetricsService"),
    unset("proxyMetadata"),
    number("statusPort", 15020),
    unset("extraStatTags"),
    unset("gatewayTopology"),
    text("terminationDrainDuration", "5s"),
    unset("meshId"),
    unset("readinessProbe"),
    unset("proxyStatsMatcher"),
    unset("holdApplicationUntilProxyStarts"),
    unset("caCertificatesPem"),
    unset("tracingServiceName"),
    unset("image"),
    unset("privateKeyProvider"),
    unset("runtimeValues"),
    unset("proxyHeaders"),
    unset("fileFlushInterval"),
    unset("fileFlushMinSizeKb"),
    unset("statsCompression"),
    unset("connectionSettings"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_fields_exist_in_the_message() {
        let mut named: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
        let mut typed: Vec<_> = PROXY_CONFIG.fields().map(|field| field.json).collect();
        named.sort_unstable();
        typed.sort_unstable();
        assert_eq!(named, typed);
    }
}
