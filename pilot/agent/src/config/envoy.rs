//! Settings of Envoy: process, bootstrap, draining.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh::proxy_config::ProxyConfig;
use serde_json::{Map, Value};

use super::bootstrap_options::{BootstrapOptions, RemoteService, RuntimeValue};
use super::error::ConfigError;
use super::inputs::Inputs;
use super::metadata;
use super::options::{DrainOptions, EnvoyOptions, Pod};
use super::{services, statistics};
use crate::arguments::MOST_THREADS;
use crate::environment::Environment;
use crate::environment::variables::{
    BYPASS_OVERLOAD_MANAGER_FOR_STATIC_LISTENERS, CONTAINER_NAME, ENVOY_PROMETHEUS_PORT,
    ENVOY_STATUS_PORT, EXIT_ON_ZERO_ACTIVE_CONNECTIONS, HOST_IP, ISTIO_BOOTSTRAP_OVERRIDE,
    ISTIO_CPU_LIMIT, MINIMUM_DRAIN_DURATION, OUTRIGGER_EXIT_ON_BOOTSTRAP_CHANGE,
    OUTRIGGER_HOT_RESTART, POD_UID,
};

/// Resolves the settings of Envoy's process.
pub(super) fn envoy(
    inputs: &Inputs,
    pod: &Pod,
    config: &ProxyConfig,
) -> Result<EnvoyOptions, ConfigError> {
    let Inputs { arguments, environment, .. } = inputs;
    let drain_time = config.duration_at("drainDuration").unwrap_or(Duration::from_secs(45));
    let parent_shutdown_time = arguments.classic.parent_shutdown_duration;
    let parent_shutdown_time = parent_shutdown_time.unwrap_or(drain_time + PARENT_MARGIN);
    if parent_shutdown_time <= drain_time {
        return Err(ConfigError::Layer {
            layer: "--parentShutdownDuration".to_owned(),
            problem: format!(
                "{parent_shutdown_time:?} is not above the drain duration {drain_time:?}"
            ),
        });
    }
    if drain_time > LONGEST_DRAIN || parent_shutdown_time > LONGEST_DRAIN + PARENT_MARGIN {
        let problem = format!("{parent_shutdown_time:?} is above Envoy's limit {LONGEST_DRAIN:?}");
        return Err(match arguments.classic.parent_shutdown_duration {
            Some(_) => ConfigError::layer("--parentShutdownDuration", &problem),
            None => ConfigError::field(
                "drainDuration",
                format!("{drain_time:?} is above Envoy's limit {LONGEST_DRAIN:?}"),
            ),
        });
    }
    let admin_port = config.number_at("proxyAdminPort").and_then(|port| u16::try_from(port).ok());
    let admin_port = admin_port.unwrap_or(15000);
    let switch =
        |flag: Option<bool>, variable| flag.map_or_else(|| environment.switch(variable), Ok);
    Ok(EnvoyOptions {
        binary: config.text_at("binaryPath").into(),
        base_id: base_id(environment, pod, admin_port),
        admin_port,
        readiness_port: environment.port(ENVOY_STATUS_PORT)?,
        prometheus_port: environment.port(ENVOY_PROMETHEUS_PORT)?,
        log_level: arguments.proxy_log_level.clone(),
        component_log_level: Some(arguments.proxy_component_log_level.clone())
            .filter(|levels| !levels.is_empty()),
        concurrency: concurrency(inputs, config)?.filter(|threads| *threads != 0),
        drain_time,
        parent_shutdown_time,
        bootstrap_override: environment.get(ISTIO_BOOTSTRAP_OVERRIDE).map(Into::into),
        hot_restart: switch(arguments.hot_restart, OUTRIGGER_HOT_RESTART)?,
        exit_on_changed_bootstrap: switch(
            arguments.exit_on_bootstrap_change,
            OUTRIGGER_EXIT_ON_BOOTSTRAP_CHANGE,
        )?,
    })
}

/// Resolves the settings in the bootstrap.
pub(super) fn bootstrap(
    inputs: &Inputs,
    pod: &Pod,
    config: &ProxyConfig,
    metadata: &Map<String, Value>,
) -> Result<BootstrapOptions, ConfigError> {
    let Inputs { arguments, environment, files, .. } = inputs;
    let runtime = runtime(config);
    let file_flush_interval =
        config.duration_at("fileFlushInterval").unwrap_or(Duration::from_secs(1));
    if file_flush_interval > LONGEST_FLUSH {
        let problem = format!("{file_flush_interval:?} is above Envoy's limit {LONGEST_FLUSH:?}");
        return Err(ConfigError::field("fileFlushInterval", problem));
    }
    Ok(BootstrapOptions {
        connect_timeout: arguments.classic.connect_timeout.unwrap_or(Duration::from_secs(1)),
        json_log: inputs.json_log,
        statistics: statistics::statistics(config, &files.annotations, &pod.addresses)?,
        tracer: services::tracer(config, environment.text(HOST_IP))?,
        access_log_service: services::remote_service(config, "envoyAccessLogService")?,
        metrics_service: metrics_service(config)?,
        downstream_connections: downstream_connections(config, metadata, &runtime)?,
        runtime,
        bypass_overload: environment.switch(BYPASS_OVERLOAD_MANAGER_FOR_STATIC_LISTENERS)?,
        outlier_log_path: arguments.outlier_log_path.clone().filter(|path| !path.is_empty()),
        file_flush_interval,
        file_flush_size_kb: config
            .number_at("fileFlushMinSizeKb")
            .and_then(|size| u32::try_from(size).ok()),
    })
}

/// Resolves draining at shutdown.
pub(super) fn drain(
    environment: &Environment,
    config: &ProxyConfig,
    metadata: &Map<String, Value>,
) -> Result<DrainOptions, ConfigError> {
    let duration = config.duration_at("terminationDrainDuration");
    Ok(DrainOptions {
        duration: duration.unwrap_or(Duration::from_secs(5)),
        minimum: environment.duration(MINIMUM_DRAIN_DURATION)?,
        exit_on_zero_connections: environment.switch(EXIT_ON_ZERO_ACTIVE_CONNECTIONS)?
            || metadata::switch(metadata, "EXIT_ON_ZERO_ACTIVE_CONNECTIONS")?,
    })
}

/// Returns the number of worker threads: of a layer, else of the CPU limit, else of the flag. 0 is
/// one per CPU.
fn concurrency(inputs: &Inputs, config: &ProxyConfig) -> Result<Option<u32>, ConfigError> {
    let expected = "a number of CPUs, at most 65535";
    let limit = inputs.environment.parse(ISTIO_CPU_LIMIT, expected)?;
    if limit.is_some_and(|limit| limit > MOST_THREADS) {
        return Err(inputs.environment.wrong(ISTIO_CPU_LIMIT, expected).into());
    }
    let Some(threads) = config.number_at("concurrency") else {
        return Ok(limit.or(inputs.arguments.concurrency));
    };
    let valid = u32::try_from(threads).ok().filter(|threads| *threads <= MOST_THREADS);
    valid.map(Some).ok_or_else(|| {
        let problem = format!("{threads} is not a number from 0 to {MOST_THREADS}");
        ConfigError::field("concurrency", problem)
    })
}

/// Returns `runtimeValues`: `true` and `false` become switches.
fn runtime(config: &ProxyConfig) -> BTreeMap<String, RuntimeValue> {
    let values = config.message_at("runtimeValues").into_iter().flatten();
    let typed = |text: &str| match text {
        "true" => RuntimeValue::Switch(true),
        "false" => RuntimeValue::Switch(false),
        other => RuntimeValue::Text(other.to_owned()),
    };
    values.map(|(key, value)| (key.clone(), typed(value.as_str().unwrap_or_default()))).collect()
}

/// Returns the limit of downstream connections: of `connectionSettings`, else of the metadata, else
/// of the runtime value, else Istio's.
fn downstream_connections(
    config: &ProxyConfig,
    metadata: &Map<String, Value>,
    runtime: &BTreeMap<String, RuntimeValue>,
) -> Result<u64, ConfigError> {
    const KEY: &str = "GLOBAL_DOWNSTREAM_MAX_CONNECTIONS";
    let of_config = config.number_at("connectionSettings.globalDownstreamConnectionLimit");
    if let Some(limit) = of_config.and_then(|limit| u64::try_from(limit).ok()) {
        return Ok(limit);
    }
    let parse =
        |text: &str| text.parse().ok().filter(|limit| (1..=MOST_CONNECTIONS).contains(limit));
    if let Some(text) = metadata.get(KEY).and_then(Value::as_str).filter(|text| !text.is_empty()) {
        return parse(text)
            .ok_or_else(|| metadata::wrong(metadata, KEY, "a number from 1 to 2147483647"));
    }
    match runtime.get(CONNECTIONS_RUNTIME) {
        Some(RuntimeValue::Text(text)) => parse(text).ok_or_else(|| {
            let field = format!("runtimeValues.{CONNECTIONS_RUNTIME}");
            ConfigError::field(field, format!("{text:?} is not a number from 1 to 2147483647"))
        }),
        _ => Ok(MOST_CONNECTIONS),
    }
}

/// Returns the sink of statistics: `envoyMetricsService`, or the older field.
fn metrics_service(config: &ProxyConfig) -> Result<Option<RemoteService>, ConfigError> {
    if let Some(service) = services::remote_service(config, "envoyMetricsService")? {
        return Ok(Some(service));
    }
    match config.text_at("envoyMetricsServiceAddress") {
        "" => Ok(None),
        text => {
            let address = services::address("envoyMetricsServiceAddress", text)?;
            Ok(Some(RemoteService { address, tls: None, keepalive: None }))
        }
    }
}

/// Returns the base id of Envoy's shared memory: FNV-1a of pod, container and admin port. Two
/// agents in one network namespace have different admin ports.
fn base_id(environment: &Environment, pod: &Pod, admin_port: u16) -> u32 {
    let parts = [
        environment.text(POD_UID),
        &pod.namespace,
        &pod.name,
        environment.text(CONTAINER_NAME),
        &admin_port.to_string(),
    ];
    let hash = parts
        .join("/")
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    // Envoy multiplies the base id by 10.
    hash % (u32::MAX / 10)
}

/// Runtime key with the limit of downstream connections.
pub(crate) const CONNECTIONS_RUNTIME: &str = "overload.global_downstream_max_connections";
const MOST_CONNECTIONS: u64 = 2_147_483_647;
/// The old Envoy lives this much longer than it drains.
const PARENT_MARGIN: Duration = Duration::from_secs(5);
/// Envoy's flags have 32 bits: seconds for the life of the parent, milliseconds for the interval.
const LONGEST_DRAIN: Duration = Duration::from_secs(u32::MAX as u64 - PARENT_MARGIN.as_secs());
const LONGEST_FLUSH: Duration = Duration::from_millis(u32::MAX as u64);
