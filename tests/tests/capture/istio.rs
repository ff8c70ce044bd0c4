//! Istio's own rules, written down independently of our plan from the reference of what its
//! iptables backend generates: the text for `iptables-restore` or `ip6tables-restore`.

use std::net::IpAddr;

use crate::settings::Settings;

/// The rules of one family.
pub(crate) fn restore_text(settings: &Settings, ipv6: bool) -> String {
    let chains = ["ISTIO_INBOUND", "ISTIO_REDIRECT", "ISTIO_IN_REDIRECT", "ISTIO_OUTPUT"];
    let mut lines = vec!["* nat".to_owned()];
    lines.extend(chains.map(|chain| format!("-N {chain}")));
    lines.extend(rules(settings, ipv6));
    lines.push("COMMIT\n".to_owned());
    lines.join("\n")
}

fn rules(settings: &Settings, ipv6: bool) -> Vec<String> {
    let mut rules = Vec::new();
    let mut add = |rule: String| rules.push(format!("-A {rule}"));
    let loopback = match settings.variable("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR") {
        _ if ipv6 => "::1/128",
        Some(range) => range,
        None => "127.0.0.1/32",
    };
    let passthrough = if ipv6 { "::6/128" } else { "127.0.0.6/32" };
    let tunnel = settings.flag('e');

    for nic in settings.list('c') {
        add(format!("PREROUTING -i {nic} -j RETURN"));
        add(format!("OUTPUT -o {nic} -j RETURN"));
    }
    add(format!("ISTIO_INBOUND -p tcp --dport {tunnel} -j RETURN"));
    add(format!("ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports {}", settings.flag('p')));
    add(format!("ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports {}", settings.flag('z')));
    if !settings.flag('b').is_empty() {
        add("PREROUTING -p tcp -j ISTIO_INBOUND".to_owned());
        if settings.flag('b') == "*" {
            for port in settings.list('d') {
                add(format!("ISTIO_INBOUND -p tcp --dport {port} -j RETURN"));
            }
            add("ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT".to_owned());
        } else {
            for port in settings.list('b') {
                add(format!("ISTIO_INBOUND -p tcp --dport {port} -j ISTIO_IN_REDIRECT"));
            }
        }
    }
    add("OUTPUT -j ISTIO_OUTPUT".to_owned());
    for port in settings.list('o') {
        add(format!("ISTIO_OUTPUT -p tcp --dport {port} -j RETURN"));
        add(format!("ISTIO_OUTPUT -p udp --dport {port} -j RETURN"));
    }
    add(format!("ISTIO_OUTPUT -o lo -s {passthrough} -j RETURN"));
    for (flag, owner) in [('u', "--uid-owner"), ('g', "--gid-owner")] {
        for id in settings.list(flag) {
            add(format!(
                "ISTIO_OUTPUT -o lo ! -d {loopback} -p tcp ! --dport {tunnel} \
                 -m owner {owner} {id} -j ISTIO_IN_REDIRECT"
            ));
            if !captures_loopback(settings) {
                add(format!("ISTIO_OUTPUT -o lo -m owner ! {owner} {id} -j RETURN"));
            }
            add(format!("ISTIO_OUTPUT -m owner {owner} {id} -j RETURN"));
        }
    }
    match settings.variable("ISTIO_OUTBOUND_OWNER_GROUPS").unwrap_or("*") {
        "*" => {
            let excluded = settings.variable("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE");
            for group in split(excluded.unwrap_or_default()) {
                add(format!("ISTIO_OUTPUT -m owner --gid-owner {group} -j RETURN"));
            }
        }
        included => {
            let matches = split(included).map(|group| format!(" -m owner ! --gid-owner {group}"));
            add(format!("ISTIO_OUTPUT{} -j RETURN", matches.collect::<String>()));
        }
    }
    add(format!("ISTIO_OUTPUT -d {loopback} -j RETURN"));
    let of_this_family = |range: &&str| range.contains(':') == ipv6;
    for range in settings.list('x').into_iter().filter(of_this_family) {
        add(format!("ISTIO_OUTPUT -d {range} -j RETURN"));
    }
    for port in settings.list('q') {
        add(format!("ISTIO_OUTPUT -p tcp --dport {port} -j ISTIO_REDIRECT"));
    }
    if settings.flag('i') == "*" {
        add("ISTIO_OUTPUT -j ISTIO_REDIRECT".to_owned());
    } else {
        for range in settings.list('i').into_iter().filter(of_this_family) {
            add(format!("ISTIO_OUTPUT -d {range} -j ISTIO_REDIRECT"));
        }
    }
    rules
}

/// Whether an included range begins with a loopback address: then Istio drops the rules that
/// leave loopback traffic alone.
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
