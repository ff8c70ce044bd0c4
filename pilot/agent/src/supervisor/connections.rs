//! Number of active connections in Envoy's statistics.

use std::time::Duration;

use super::machine::Connections;
use crate::admin::Admin;
use crate::config::EnvoyOptions;

/// Asks Envoy for its active connections.
pub(super) async fn count(admin: Admin, envoy: &EnvoyOptions) -> Connections {
    match admin.with_timeout(TIMEOUT).get(PATH).await {
        Ok(stats) => active_connections(&stats, envoy),
        Err(error) => {
            tracing::warn!("counting connections: {error}");
            Connections::Failed
        }
    }
}

/// Counts active connections, except those of Envoy's own listeners. Without any listener's line,
/// the statistics of the bootstrap omit the number.
fn active_connections(stats: &str, envoy: &EnvoyOptions) -> Connections {
    let own = [
        "listener.admin.".to_owned(),
        format!("_{}.", envoy.readiness_port),
        format!("_{}.", envoy.prometheus_port),
    ];
    let mut sum = None;
    for line in stats.lines().filter(|line| line.starts_with("listener.")) {
        let Some((name, value)) = line.split_once(": ") else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        let is_counted = !name.contains("worker_")
            && !name.starts_with("listener.envoy_internal_")
            && !own.iter().any(|part| name.contains(part.as_str()));
        *sum.get_or_insert(0) += if is_counted { value } else { 0 };
    }
    sum.map_or(Connections::Unknown, Connections::Active)
}

/// Path of the admin interface with the statistics.
const PATH: &str = "/stats?usedonly&filter=downstream_cx_active$";
/// Envoy may be busy, and the drain has a deadline.
const TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn count(stats: &str) -> Connections {
        let envoy = EnvoyOptions {
            binary: "envoy".into(),
            admin_port: 15000,
            base_id: 0,
            readiness_port: 15021,
            prometheus_port: 15090,
            log_level: String::new(),
            component_log_level: None,
            concurrency: None,
            drain_time: Duration::ZERO,
            parent_shutdown_time: Duration::ZERO,
            bootstrap_override: None,
            hot_restart: true,
            exit_on_changed_bootstrap: false,
        };
        active_connections(stats, &envoy)
    }

    #[test]
    fn connections_of_own_listeners_do_not_count() {
        let stats = "listener.0.0.0.0_15006.downstream_cx_active: 2\n\
                     listener.0.0.0.0_15006.worker_0.downstream_cx_active: 2\n\
                     listener.[__]_8443.downstream_cx_active: 1\n\
                     listener.0.0.0.0_15021.downstream_cx_active: 4\n\
                     listener.0.0.0.0_15090.downstream_cx_active: 4\n\
                     listener.envoy_internal_connect.downstream_cx_active: 4\n\
                     listener.admin.downstream_cx_active: 1\n\
                     http.inbound.downstream_cx_active: 9\n";
        assert_eq!(count(stats), Connections::Active(3));
    }

    #[test]
    fn own_listeners_alone_mean_no_connection() {
        let stats = "listener.admin.downstream_cx_active: 1\n";
        assert_eq!(count(stats), Connections::Active(0));
    }

    #[test]
    fn omitted_statistics_mean_unknown() {
        assert_eq!(count("http.inbound.downstream_cx_active: 9\n"), Connections::Unknown);
        assert_eq!(count(""), Connections::Unknown);
    }
}
