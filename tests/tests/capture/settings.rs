//! Flags and variables of one run, for this program and for Istio's rules.

use std::collections::BTreeMap;

/// Settings of one run: short flags, variables, switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    flags: BTreeMap<char, String>,
    variables: BTreeMap<&'static str, String>,
    switches: Vec<String>,
    name_servers: Option<Vec<&'static str>>,
    pub(crate) dual_stack: bool,
    dry_run: bool,
    iptables: Option<&'static str>,
}

impl Settings {
    /// Default flags that the injector passes to the init container.
    pub(crate) fn injected() -> Self {
        Self::default()
            .with('p', "15001")
            .with('z', "15006")
            .with('u', "1337")
            .with('m', "REDIRECT")
            .with('i', "*")
            .with('x', "")
            .with('b', "*")
            .with('d', "15090,15021,15020")
    }

    /// Default flags with dual stack.
    pub(crate) fn injected_dual() -> Self {
        Self { dual_stack: true, ..Self::injected() }
    }

    pub(crate) fn with(mut self, flag: char, value: &str) -> Self {
        self.flags.insert(flag, value.to_owned());
        self
    }

    pub(crate) fn with_variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.insert(name, value.to_owned());
        self
    }

    /// Adds a long flag, with `=VALUE` if it has one.
    pub(crate) fn with_switch(mut self, switch: &str) -> Self {
        self.switches.push(switch.to_owned());
        self
    }

    pub(crate) fn has_switch(&self, switch: &str) -> bool {
        self.switches.iter().any(|other| other == switch)
    }

    /// Sets the name servers in the pod's resolv.conf.
    pub(crate) fn with_name_servers(mut self, servers: &[&'static str]) -> Self {
        self.name_servers = Some(servers.to_vec());
        self
    }

    pub(crate) fn name_servers(&self) -> Option<&[&'static str]> {
        self.name_servers.as_deref()
    }

    pub(crate) fn dry_run(self) -> Self {
        Self { dry_run: true, ..self }
    }

    /// Selects this variant of iptables, which must exist, instead of nftables.
    pub(crate) fn by_iptables(self, variant: &'static str) -> Self {
        Self { iptables: Some(variant), ..self }.with_variable("PATH", SEARCH_PATH)
    }

    /// Returns the value of a flag, or Istio's default.
    pub(crate) fn flag(&self, flag: char) -> &str {
        let value = self.flags.get(&flag).map_or("", String::as_str);
        match flag {
            'p' if value.is_empty() => "15001",
            'z' if value.is_empty() => "15006",
            'e' if value.is_empty() => "15008",
            'u' | 't' if value.is_empty() => "1337",
            'g' if value.is_empty() => self.flag('u'),
            'r' if value.is_empty() => "133",
            _ => value,
        }
    }

    pub(crate) fn list(&self, flag: char) -> Vec<&str> {
        self.flag(flag).split(',').filter(|element| !element.is_empty()).collect()
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(crate) fn command_line(&self) -> Vec<String> {
        let mut words = vec!["istio-iptables".to_owned()];
        words.push(match self.iptables {
            Some(variant) => format!("--force-iptables-binary={variant}"),
            None => "--backend=nftables".to_owned(),
        });
        for (flag, value) in &self.flags {
            words.extend([format!("-{flag}"), value.clone()]);
        }
        words.extend(self.switches.iter().cloned());
        if self.dual_stack {
            words.push("--dual-stack".to_owned());
        }
        if self.dry_run {
            words.push("--dry-run".to_owned());
        }
        words
    }

    pub(crate) fn environment(&self) -> &BTreeMap<&'static str, String> {
        &self.variables
    }
}

pub(crate) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
