//! Changes of the configuration while the agent runs.
//!
//! A changed bootstrap is applied by a hot restart of Envoy, and some settings of the agent at once.
//! The agent's parts have read the others at their start.

use std::collections::BTreeSet;
use std::fmt::Debug;

use super::layers::NEVER_USED;
use super::options::{
    CertificateOptions, Config, DiscoveryOptions, DnsOptions, EnvoyOptions, Paths, Pod,
    StatusOptions,
};
use crate::environment::Environment;
use crate::environment::variables::ISTIO_META;

/// Returns the settings that differ and need a new container, by their name in `ProxyConfig` or in
/// the mesh file.
pub fn needing_new_container(
    before: &Config,
    after: &Config,
    environment: &Environment,
) -> Vec<String> {
    let fixed = fixed(before).into_iter().zip(fixed(after)).filter(|(old, new)| old != new);
    let mut names: Vec<_> = fixed.map(|((name, _), _)| name.to_owned()).collect();
    let variables = ineffective_variables(before, after, environment);
    names.extend(variables.into_iter().map(|name| format!("proxyMetadata.{name}")));
    names
}

/// Returns the changed fields of `ProxyConfig` without effect on a running pod, with the reason.
pub fn without_effect(before: &Config, after: &Config) -> Vec<(&'static str, &'static str)> {
    let value = |config: &Config, field: &str| config.proxy_config.fields().get(field).cloned();
    let differs = |(field, _): &&(&str, _)| value(before, field) != value(after, field);
    NEVER_USED.iter().chain(FOR_NEW_PODS).filter(differs).copied().collect()
}

/// Returns the settings that the agent reads once. Every other field of the options is applied while
/// the agent runs, or comes from flags, environment and network, which do not change.
fn fixed(config: &Config) -> Vec<(&'static str, String)> {
    let Config {
        paths,
        pod,
        discovery,
        certificates,
        envoy,
        status,
        dns,
        // Applied with the bootstrap.
        labels: _,
        annotations: _,
        proxy_config: _,
        metadata: _,
        bootstrap: _,
        // Applied to the next drain.
        drain: _,
        // Flags and environment.
        role: _,
        grpc_bootstrap: _,
    } = config;
    let Paths {
        configuration,
        // Environment and constants.
        token: _,
        pod_info: _,
        mesh_root: _,
        crl: _,
        workload_socket_folder: _,
        workload_credentials: _,
        credential_socket: _,
    } = paths;
    let Pod {
        trust_domain,
        // Applied to the next connection, and with the bootstrap.
        cluster_id: _,
        // Flags, environment and network.
        name: _,
        namespace: _,
        service_account: _,
        addresses: _,
        domain: _,
        node_id: _,
    } = pod;
    let DiscoveryOptions {
        // Applied to the next connection.
        address: _,
        plaintext: _,
        // Environment.
        server_name: _,
        root: _,
        send_token: _,
        delta: _,
        additional_roots: _,
        headers: _,
    } = discovery;
    let CertificateOptions {
        // Applied to the next connection.
        ca_address: _,
        // Environment.
        ca_root: _,
        server_name: _,
        headers: _,
        lifetime: _,
        grace_ratio: _,
        grace_jitter: _,
        key: _,
        pkcs8: _,
        file_mounted: _,
        provisioned: _,
        output: _,
        socket_file: _,
        file_debounce: _,
    } = certificates;
    let envoy = envoy.as_ref().map(|envoy| {
        let EnvoyOptions {
            binary,
            admin_port,
            // Applied with the bootstrap.
            concurrency: _,
            drain_time: _,
            parent_shutdown_time: _,
            // Flags and environment; the base id depends on the admin port.
            base_id: _,
            readiness_port: _,
            prometheus_port: _,
            log_level: _,
            component_log_level: _,
            bootstrap_override: _,
            hot_restart: _,
            exit_on_changed_bootstrap: _,
        } = envoy;
        (binary, admin_port)
    });
    let status_port = status.as_ref().map(|status| {
        let StatusOptions {
            port,
            // Applied to the next scrape.
            scrape_targets: _,
            // Environment.
            app_probers: _,
            prometheus_annotations: _,
            probe_localhost: _,
            metrics_on_loopback_only: _,
        } = status;
        port
    });
    let has_dns = dns.as_ref().map(|dns| {
        // Environment and network.
        let DnsOptions {
            listen: _,
            resolv_conf: _,
            forward_parallel: _,
            forward_timeout: _,
            forwards_before_table: _,
        } = dns;
    });
    let text = |value: &dyn Debug| format!("{value:?}");
    vec![
        ("binaryPath", text(&envoy.map(|(binary, _)| binary))),
        ("configPath", text(configuration)),
        ("proxyAdminPort", text(&envoy.map(|(_, port)| port))),
        ("proxyMetadata.ISTIO_META_DNS_CAPTURE", text(&has_dns)),
        ("statusPort", text(&status_port)),
        ("trustDomain", text(trust_domain)),
    ]
}

/// Returns the changed entries of `proxyMetadata` that do not take effect. The injector has made
/// them variables of the container, which precede the entries and do not change. Other entries with
/// the prefix `ISTIO_META_` are metadata of the node.
fn ineffective_variables<'a>(
    before: &'a Config,
    after: &'a Config,
    environment: &Environment,
) -> BTreeSet<&'a str> {
    let (old, new) = (&before.proxy_config, &after.proxy_config);
    let names = old.all_metadata().chain(new.all_metadata()).map(|(name, _)| name);
    let differs = |name: &&str| old.metadata(name) != new.metadata(name);
    let has_effect = |name: &str| {
        let current = match name.strip_prefix(ISTIO_META.prefix) {
            Some(key) => after.metadata.get(key).and_then(serde_json::Value::as_str),
            None => environment.named(name),
        };
        current == new.metadata(name)
    };
    names.filter(differs).filter(|name| !has_effect(name)).collect()
}

/// Fields of `ProxyConfig` without effect on a running pod.
const FOR_NEW_PODS: &[(&str, &str)] = &[
    ("holdApplicationUntilProxyStarts", NEW_PODS),
    ("image", NEW_PODS),
    ("interceptionMode", NEW_PODS),
    ("readinessProbe", NEW_PODS),
];
const NEW_PODS: &str = "it applies to new pods";

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
