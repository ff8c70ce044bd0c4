//! Changes of settings while the injector runs.

use anyhow::{Context, Result, ensure};
use e2e::namespace::{Namespace, name_of};
use e2e::wait;
use serde_json::{Value, json};

use crate::fixture::Fixture;

pub(crate) fn changed_config_map_applies_to_the_next_pod(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let system = cluster.existing_namespace("istio-system");
    let injector =
        Injector { replicas: system.pods("app.kubernetes.io/part-of=outrigger")?, system };
    let shop = cluster.namespace("configuration", &["istio-injection=enabled"])?;
    let before = injector.values()?;
    ensure!(before.contains(CPU), "the installation's values have no {CPU:?}");
    let (cpu, original) = (requested_cpu(&shop)?, "100m");
    assert_eq!(cpu, original);

    injector.change_values(&before.replacen(CPU, "cpu: 123m", 1))?;
    wait::until("the next pod gets what was changed", || {
        // The API server may call either replica.
        let asked = (0..REPLICAS * 2).map(|_| requested_cpu(&shop)).collect::<Result<Vec<_>>>()?;
        ensure!(asked.iter().all(|cpu| cpu == "123m"), "pods get {asked:?}");
        Ok(())
    })?;

    injector.change_values("global: [")?;
    injector.every_replica_says(&[
        "configuration rejected",
        "ConfigMap istio-system/istio-sidecar-injector, values",
    ])?;
    for _ in 0..REPLICAS * 2 {
        assert_eq!(requested_cpu(&shop)?, "123m", "the last good settings stay");
    }

    injector.change_values(&before)?;
    wait::until("the original settings are back", || {
        let asked = (0..REPLICAS * 2).map(|_| requested_cpu(&shop)).collect::<Result<Vec<_>>>()?;
        ensure!(asked.iter().all(|cpu| cpu == original), "pods get {asked:?}");
        Ok(())
    })?;
    injector.expect_no_restart()?;
    shop.delete()
}

/// The installed injector, and its replicas at the start of the test.
struct Injector<'a> {
    system: Namespace<'a>,
    replicas: Vec<Value>,
}

impl Injector<'_> {
    fn values(&self) -> Result<String> {
        let map = self.system.get(CONFIG_MAP)?;
        let values = map["data"]["values"].as_str().context("the ConfigMap has no values")?;
        Ok(values.to_owned())
    }

    fn change_values(&self, values: &str) -> Result<()> {
        let patch = json!({ "data": { "values": values } }).to_string();
        self.system.kubectl(&["patch", CONFIG_MAP, "--type=merge", "--patch", &patch]).map(drop)
    }

    /// Waits until each replica has a log line with all of `parts`.
    fn every_replica_says(&self, parts: &[&str]) -> Result<()> {
        for replica in &self.replicas {
            let name = name_of(replica);
            wait::until(&format!("{name} says why"), || {
                let log = self.system.logs(name, "sidecar-injector")?;
                let said = log.lines().any(|line| parts.iter().all(|part| line.contains(part)));
                ensure!(said, "its log: {log}");
                Ok(())
            })?;
        }
        Ok(())
    }

    fn expect_no_restart(&self) -> Result<()> {
        for replica in &self.replicas {
            let now = self.system.get(&format!("pod/{}", name_of(replica)))?;
            assert_eq!(now["metadata"]["uid"], replica["metadata"]["uid"]);
            assert_eq!(now["status"]["containerStatuses"][0]["restartCount"], 0);
        }
        Ok(())
    }
}

/// Returns the CPU request of a new pod's proxy, by a dry run.
fn requested_cpu(shop: &Namespace<'_>) -> Result<String> {
    let proxy = "{.spec.initContainers[?(@.name=='istio-proxy')].resources.requests.cpu}";
    let output = format!("--output=jsonpath={proxy}");
    shop.kubectl(&["run", "probe", "--image=busybox:1.37", "--dry-run=server", &output])
}

const CONFIG_MAP: &str = "configmap/istio-sidecar-injector";
const CPU: &str = "cpu: 100m";
const REPLICAS: usize = 2;
