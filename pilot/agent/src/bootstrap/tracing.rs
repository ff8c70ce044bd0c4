//! Tracer of listeners that name none.

use serde_json::{Value, json};

use super::{DATADOG_CLUSTER, ZIPKIN_CLUSTER};
use crate::config::Tracer;

/// Returns the tracer's configuration.
pub(super) fn tracing(tracer: &Tracer) -> Value {
    let http = match tracer {
        Tracer::Zipkin(_) => json!({
            "name": "envoy.tracers.zipkin",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.config.trace.v3.ZipkinConfig",
                "collector_cluster": ZIPKIN_CLUSTER,
                "collector_endpoint": "/api/v2/spans",
                "collector_endpoint_version": "HTTP_JSON",
                "trace_id_128bit": true,
                "shared_span_context": false,
            },
        }),
        Tracer::Datadog(_) => json!({
            "name": "envoy.tracers.datadog",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.config.trace.v3.DatadogConfig",
                "collector_cluster": DATADOG_CLUSTER,
                "service_name": "istio-proxy",
            },
        }),
    };
    json!({ "http": http })
}
