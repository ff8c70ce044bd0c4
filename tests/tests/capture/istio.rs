//! Istio's rules, written independently of the plan from the reference of its iptables backend:
//! input for `iptables-restore` and `ip6tables-restore`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::settings::Settings;

/// Rules of one family.
pub(crate) fn restore_text(settings: &Settings, ipv6: bool) -> String {
    let mut rules = Rules { settings, ipv6, tables: BTreeMap::new() };
    rules.write();
    let mut text = Vec::new();
    for (table, lines) in &rules.tables {
        text.push(format!("* {table}"));
        for chain in CHAINS {
            if lines.iter().any(|line| line.split(' ').any(|word| word == *chain)) {
                text.push(format!("-N {chain}"));
            }
        }
        text.extend(lines.iter().cloned());
        text.push("COMMIT\n".to_owned());
    }
    text.join("\n")
}

/// Rules of one family, in Istio's order.
struct Rules<'a> {
    settings: &'a Settings,
    ipv6: bool,
    tables: BTreeMap<&'static str, Vec<String>>,
}

impl<'a> Rules<'a> {
    fn write(&mut self) {
        let settings = self.settings;
        let tproxy = settings.flag('m') == "TPROXY";
        for nic in settings.list('c') {
            for table in if tproxy { &["nat", "mangle"][..] } else { &["nat"] } {
                self.add(table, format!("PREROUTING -i {nic} -j RETURN"));
                self.add(table, format!("OUTPUT -o {nic} -j RETURN"));
            }
        }
        for nic in settings.list('k') {
            self.insert("nat", format!("PREROUTING 1 -i {nic} -j RETURN"));
        }
        if settings.has_switch("--drop-invalid") {
            let invalid = "PREROUTING -m conntrack --ctstate INVALID -j ISTIO_DROP";
            self.add("mangle", invalid);
            self.add("mangle", "ISTIO_DROP -j DROP");
        }
        let (outbound, inbound) = (settings.flag('p'), settings.flag('z'));
        self.nat(format!("ISTIO_INBOUND -p tcp --dport {} -j RETURN", settings.flag('e')));
        self.nat(format!("ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports {outbound}"));
        self.nat(format!("ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports {inbound}"));
        if !settings.flag('b').is_empty() {
            if tproxy { self.inbound_by_tproxy() } else { self.inbound() }
        }
        self.outbound();
        if tproxy {
            self.tproxy_marks();
        }
    }

    fn inbound(&mut self) {
        self.nat("PREROUTING -p tcp -j ISTIO_INBOUND".to_owned());
        if self.settings.flag('b') == "*" {
            for port in self.settings.list('d') {
                self.nat(format!("ISTIO_INBOUND -p tcp --dport {port} -j RETURN"));
            }
            self.nat("ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT".to_owned());
        } else {
            for port in self.settings.list('b') {
                self.nat(format!("ISTIO_INBOUND -p tcp --dport {port} -j ISTIO_IN_REDIRECT"));
            }
        }
    }

    fn inbound_by_tproxy(&mut self) {
        let (mark, port) = (self.settings.flag('t'), self.settings.flag('z'));
        let loopback = self.loopback();
        let mut add = |rule: String| self.add("mangle", rule);
        add(format!("ISTIO_DIVERT -j MARK --set-mark {mark}"));
        add("ISTIO_DIVERT -j ACCEPT".to_owned());
        add(format!(
            "ISTIO_TPROXY ! -d {loopback} -p tcp -j TPROXY --tproxy-mark {mark}/0xffffffff \
             --on-port {port}"
        ));
        add("PREROUTING -p tcp -j ISTIO_INBOUND".to_owned());
        let captured = if self.settings.flag('b') == "*" {
            for port in self.settings.list('d') {
                self.add("mangle", format!("ISTIO_INBOUND -p tcp --dport {port} -j RETURN"));
            }
            vec![String::new()]
        } else {
            let ports = self.settings.list('b').into_iter();
            ports.map(|port| format!(" --dport {port}")).collect()
        };
        for to in captured {
            let begun = "-m conntrack --ctstate RELATED,ESTABLISHED -j ISTIO_DIVERT";
            self.add("mangle", format!("ISTIO_INBOUND -p tcp{to} {begun}"));
            self.add("mangle", format!("ISTIO_INBOUND -p tcp{to} -j ISTIO_TPROXY"));
        }
    }

    fn outbound(&mut self) {
        let settings = self.settings;
        let loopback = self.loopback();
        self.nat("OUTPUT -j ISTIO_OUTPUT".to_owned());
        for port in settings.list('o') {
            self.nat(format!("ISTIO_OUTPUT -p tcp --dport {port} -j RETURN"));
            self.nat(format!("ISTIO_OUTPUT -p udp --dport {port} -j RETURN"));
        }
        self.nat(format!("ISTIO_OUTPUT -o lo -s {} -j RETURN", self.passthrough()));
        self.owners();
        match settings.variable("ISTIO_OUTBOUND_OWNER_GROUPS").unwrap_or("*") {
            "*" => {
                let excluded = settings.variable("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE");
                for group in split(excluded.unwrap_or_default()) {
                    self.nat(format!("ISTIO_OUTPUT -m owner --gid-owner {group} -j RETURN"));
                }
            }
            included => {
                let groups = split(included).map(|id| format!(" -m owner ! --gid-owner {id}"));
                self.nat(format!("ISTIO_OUTPUT{} -j RETURN", groups.collect::<String>()));
            }
        }
        if captures_dns(settings) {
            self.dns();
        }
        self.nat(format!("ISTIO_OUTPUT -d {loopback} -j RETURN"));
        let ipv6 = self.ipv6;
        let of_this_family = |range: &&str| range.contains(':') == ipv6;
        for range in settings.list('x').into_iter().filter(of_this_family) {
            self.nat(format!("ISTIO_OUTPUT -d {range} -j RETURN"));
        }
        for port in settings.list('q') {
            self.nat(format!("ISTIO_OUTPUT -p tcp --dport {port} -j ISTIO_REDIRECT"));
        }
        if settings.flag('i') == "*" {
            self.nat("ISTIO_OUTPUT -j ISTIO_REDIRECT".to_owned());
            for nic in settings.list('k') {
                self.insert("nat", format!("PREROUTING 1 -i {nic} -j ISTIO_REDIRECT"));
            }
        } else {
            for range in settings.list('i').into_iter().filter(of_this_family) {
                for nic in settings.list('k') {
                    let rule = format!("PREROUTING 1 -i {nic} -d {range} -j ISTIO_REDIRECT");
                    self.insert("nat", rule);
                }
                self.nat(format!("ISTIO_OUTPUT -d {range} -j ISTIO_REDIRECT"));
            }
        }
    }

    fn owners(&mut self) {
        let settings = self.settings;
        let (loopback, tunnel) = (self.loopback(), settings.flag('e'));
        let dns = captures_dns(settings);
        for (flag, owner) in [('u', "--uid-owner"), ('g', "--gid-owner")] {
            for id in settings.list(flag) {
                let ports = if dns && flag == 'u' {
                    format!("-m multiport ! --dports 53,{tunnel}")
                } else {
                    format!("! --dport {tunnel}")
                };
                self.nat(format!(
                    "ISTIO_OUTPUT -o lo ! -d {loopback} -p tcp {ports} -m owner {owner} {id} \
                     -j ISTIO_IN_REDIRECT"
                ));
                let but_dns = if dns { " -p tcp ! --dport 53" } else { "" };
                if !captures_loopback(settings) {
                    let rule = format!("-o lo{but_dns} -m owner ! {owner} {id} -j RETURN");
                    self.nat(format!("ISTIO_OUTPUT {rule}"));
                }
                self.nat(format!("ISTIO_OUTPUT -m owner {owner} {id} -j RETURN"));
            }
        }
    }

    fn dns(&mut self) {
        let settings = self.settings;
        let all = settings.has_switch("--capture-all-dns");
        let ipv6 = self.ipv6;
        let servers: Vec<&str> = settings.name_servers().unwrap_or_default().to_vec();
        let servers = servers.into_iter().filter(|server| server.contains(':') == ipv6);
        let servers: Vec<&str> = if all { vec![""] } else { servers.collect() };
        let side = |flag: &str, server: &str| match server {
            "" => String::new(),
            server => format!(" {flag} {server}"),
        };
        self.add("raw", "OUTPUT -j ISTIO_OUTPUT_DNS");
        if !servers.is_empty() {
            self.nat("ISTIO_OUTPUT -j ISTIO_OUTPUT_DNS".to_owned());
        }
        for protocol in ["tcp", "udp"] {
            for server in &servers {
                self.nat(format!(
                    "ISTIO_OUTPUT_DNS -p {protocol} --dport 53{} -j REDIRECT --to-ports 15053",
                    side("-d", server)
                ));
            }
        }
        let chain = "ISTIO_OUTPUT_DNS -p udp";
        for (flag, owner) in [('u', "--uid-owner"), ('g', "--gid-owner")] {
            for id in settings.list(flag) {
                let owner = format!("-m owner {owner} {id}");
                self.add("raw", format!("{chain} --dport 53 {owner} -j CT --zone 1"));
                self.add("raw", format!("{chain} --sport 15053 {owner} -j CT --zone 2"));
            }
        }
        if !servers.is_empty() {
            self.add("raw", "PREROUTING -j ISTIO_INBOUND");
        }
        for server in &servers {
            let to = side("-d", server);
            self.add("raw", format!("{chain} --dport 53{to} -j CT --zone 2"));
            let from = side("-s", server);
            self.add("raw", format!("ISTIO_INBOUND -p udp --sport 53{from} -j CT --zone 1"));
        }
    }

    fn tproxy_marks(&mut self) {
        let settings = self.settings;
        let (mark, loopback) = (settings.flag('t'), self.loopback());
        let mut rules = vec![
            format!("PREROUTING -p tcp -m mark --mark {mark} -j CONNMARK --save-mark"),
            format!("OUTPUT -p tcp -o lo -m mark --mark {mark} -j RETURN"),
        ];
        for (flag, owner) in [('u', "--uid-owner"), ('g', "--gid-owner")] {
            rules.extend(settings.list(flag).iter().map(|id| {
                format!("OUTPUT ! -d {loopback} -p tcp -o lo -m owner {owner} {id} -j MARK --set-mark 1338")
            }));
        }
        rules.push(format!("OUTPUT -p tcp -m connmark --mark {mark} -j CONNMARK --restore-mark"));
        for rule in rules {
            self.add("mangle", rule);
        }
        let passthrough = self.passthrough();
        for (place, rule) in [
            (1, format!("-m mark --mark {mark} -j RETURN")),
            (2, format!("-s {passthrough} -i lo -j RETURN")),
            (3, "-i lo -m mark ! --mark 1338 -j RETURN".to_owned()),
        ] {
            self.insert("mangle", format!("ISTIO_INBOUND {place} -p tcp {rule}"));
        }
    }

    fn loopback(&self) -> &'a str {
        match self.settings.variable("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR") {
            _ if self.ipv6 => "::1/128",
            Some(range) => range,
            None => "127.0.0.1/32",
        }
    }

    fn passthrough(&self) -> &'static str {
        if self.ipv6 { "::6/128" } else { "127.0.0.6/32" }
    }

    fn nat(&mut self, rule: String) {
        self.add("nat", rule);
    }

    fn add(&mut self, table: &'static str, rule: impl AsRef<str>) {
        self.tables.entry(table).or_default().push(["-A ", rule.as_ref()].concat());
    }

    fn insert(&mut self, table: &'static str, rule: impl AsRef<str>) {
        self.tables.entry(table).or_default().push(["-I ", rule.as_ref()].concat());
    }
}

/// Without a name server, Istio captures no DNS.
fn captures_dns(settings: &Settings) -> bool {
    let has_servers = settings.name_servers().is_some_and(|servers| !servers.is_empty());
    settings.has_switch("--redirect-dns")
        && (settings.has_switch("--capture-all-dns") || has_servers)
}

/// True if an included range begins with a loopback address. Then Istio omits the rules that
/// exclude loopback traffic.
pub(crate) fn captures_loopback(settings: &Settings) -> bool {
    settings.list('i').iter().filter_map(|range| range.split('/').next()).any(|address| {
        match address.parse() {
            Ok(IpAddr::V4(v4)) => v4.is_loopback(),
            Ok(IpAddr::V6(v6)) => v6.is_loopback(),
            Err(_) => false,
        }
    })
}

fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|element| !element.is_empty())
}

const CHAINS: &[&str] = &[
    "ISTIO_INBOUND",
    "ISTIO_REDIRECT",
    "ISTIO_IN_REDIRECT",
    "ISTIO_OUTPUT",
    "ISTIO_OUTPUT_DNS",
    "ISTIO_DIVERT",
    "ISTIO_TPROXY",
    "ISTIO_DROP",
];
