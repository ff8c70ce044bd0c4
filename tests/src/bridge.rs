//! The bridge between the node's pods and the machine.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::run_folder::RunFolder;
use crate::tool::run;

/// The bridge of the node. Its address is also the node's and the API server's.
#[derive(Debug)]
pub(crate) struct Bridge {
    network: [u8; 2],
}

impl Bridge {
    /// Creates the bridge with a private range that no route of the machine uses.
    pub(crate) fn create(folder: &RunFolder) -> Result<Self> {
        let routes = run("ip", ["-4", "route", "show", "table", "all"])?;
        let bridge = free_range(&routes)?;
        run("ip", ["link", "add", NAME, "type", "bridge"])?;
        let address = format!("{}/24", bridge.address());
        run("ip", ["address", "add", &address, "dev", NAME])?;
        run("ip", ["link", "set", NAME, "up"])?;
        if !Path::new(FILTERED).exists() {
            run("modprobe", ["br_netfilter"]).context("bridged packets must be filtered")?;
        }
        switch_on(folder, &[FORWARDING, FILTERED])?;
        Ok(bridge)
    }

    /// Returns the machine's address on the bridge.
    pub(crate) fn address(&self) -> Ipv4Addr {
        let [first, second] = self.network;
        Ipv4Addr::new(first, second, 0, 1)
    }

    /// Returns the pods' address range.
    pub(crate) fn range(&self) -> String {
        let [first, second] = self.network;
        format!("{first}.{second}.0.0/24")
    }

    /// Returns the network configuration for containerd: each pod gets an interface on this bridge.
    pub(crate) fn network_configuration(&self, state: &Path) -> serde_json::Value {
        serde_json::json!({
            "cniVersion": "1.0.0",
            "name": NAME,
            "plugins": [{
                "type": "bridge",
                "bridge": NAME,
                "isGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": state,
                    "ranges": [[{ "subnet": self.range() }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            }, { "type": "loopback" }],
        })
    }
}

/// Removes the bridge, and restores the kernel settings that it needed.
pub(crate) fn remove(node: &Path) -> Result<()> {
    if Path::new("/sys/class/net").join(NAME).exists() {
        run("ip", ["link", "delete", NAME])?;
    }
    let remembered = fs::read_to_string(node.join(REMEMBERED)).unwrap_or_default();
    for (setting, value) in remembered.lines().filter_map(|line| line.split_once(' ')) {
        fs::write(setting, value).with_context(|| format!("writing {setting}"))?;
    }
    Ok(())
}

fn free_range(routes: &str) -> Result<Bridge> {
    let taken = |second: u8| {
        routes
            .split_whitespace()
            .any(|word| word.starts_with(&format!("10.{second}.")) || word == "10.0.0.0/8")
    };
    match (200..=249).find(|second| !taken(*second)) {
        Some(second) => Ok(Bridge { network: [10, second] }),
        None => bail!("no free private range for the pods between 10.200.0.0 and 10.249.0.0"),
    }
}

fn switch_on(folder: &RunFolder, settings: &[&str]) -> Result<()> {
    let mut remembered = String::new();
    for setting in settings {
        let before = fs::read_to_string(setting).with_context(|| format!("reading {setting}"))?;
        remembered += &[setting, " ", before.trim(), "\n"].concat();
    }
    folder.write(REMEMBERED, remembered)?;
    for setting in settings {
        fs::write(setting, "1").with_context(|| format!("writing {setting}"))?;
    }
    Ok(())
}

const NAME: &str = "outrigger-e2e";
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// Without this setting, a pod's answer to another pod takes the direct path over the bridge and
/// bypasses the translation of the Service's address.
const FILTERED: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
const REMEMBERED: &str = "kernel-settings";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_with_a_route_is_not_used() {
        let routes = "default via 192.0.2.1 dev eth0\n10.200.0.0/24 dev other\n";
        assert_eq!(free_range(routes).unwrap().range(), "10.201.0.0/24");
    }

    #[test]
    fn route_to_all_of_10_leaves_no_range() {
        assert!(free_range("10.0.0.0/8 dev eth0").is_err());
    }
}
