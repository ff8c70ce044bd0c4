//! The application's probes, which injection has pointed at the proxy.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One HTTP probe: the path that the kubelet asks for, and where it goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AppProbe {
    pub(crate) path: String,
    pub(crate) port: u64,
    pub(crate) app_path: String,
}

/// Reads `ISTIO_KUBE_APP_PROBERS`: a map from the path to the original action.
///
/// The stand-in passes HTTP on; a TCP or gRPC probe is an error rather than a
/// probe that always fails.
pub(crate) fn app_probes(text: &str) -> Result<Vec<AppProbe>> {
    let map: Value = serde_json::from_str(text).context("ISTIO_KUBE_APP_PROBERS is not JSON")?;
    let map = map.as_object().context("ISTIO_KUBE_APP_PROBERS is not a map")?;
    map.iter().map(|(path, probe)| app_probe(path, &probe["httpGet"])).collect()
}

fn app_probe(path: &str, action: &Value) -> Result<AppProbe> {
    let Some(port) = action["port"].as_u64() else {
        bail!(
            "ISTIO_KUBE_APP_PROBERS: {path} is no httpGet with a port, and nothing else is known"
        );
    };
    let app_path = action["path"].as_str().filter(|path| !path.is_empty()).unwrap_or("/");
    Ok(AppProbe { path: path.to_owned(), port, app_path: app_path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_probe_keeps_its_port_and_path() {
        let text = r#"{"/app-health/web/readyz":{"httpGet":{"path":"/up","port":8080}}}"#;
        let expected = AppProbe {
            path: "/app-health/web/readyz".to_owned(),
            port: 8080,
            app_path: "/up".to_owned(),
        };
        assert_eq!(app_probes(text).unwrap(), [expected]);
    }

    #[test]
    fn a_tcp_probe_is_refused_by_its_path() {
        let text = r#"{"/app-health/web/livez":{"tcpSocket":{"port":8080}}}"#;
        let error = app_probes(text).unwrap_err().to_string();
        assert!(error.contains("/app-health/web/livez"), "{error}");
    }
}
