//! Validation of every value.

use std::net::IpAddr;

use super::host_evidence::HostEvidence;
use super::reader::Reader;
use super::{
    Config, ExcludedUsers, Inbound, Interception, InvalidConfig, NameServers, Outbound,
    OwnerGroups, PodEnvironment, families, host_evidence, ineffective, list, name_servers, users,
};
use crate::args::env::Variable;
use crate::args::flags::Flag;
use crate::args::{Args, Source};
use crate::types::cidr::Cidr;
use crate::types::input_error::{Escaped, ValueError};
use crate::types::interface::InterfaceName;
use crate::types::owner::{Accounts, Gid, Uid};

/// Validates a configuration. Also returns warnings.
pub(super) fn read(
    args: &Args,
    pod: &PodEnvironment,
) -> Result<(Config, Vec<String>), InvalidConfig> {
    let mut reader = Reader { args, errors: Vec::new(), warnings: args.ignored.clone() };
    let interception = reader.interception();
    let (proxy_uids, proxy_gids) = reader.proxy(&pod.accounts);
    let (ipv4, ipv6) = reader.families(&pod.addresses);
    let outbound_port = reader.number(Flag::EnvoyPort, "");
    let inbound_port = reader.number(Flag::InboundCapturePort, "");
    let tunnel_port = reader.number(Flag::InboundTunnelPort, "-e meant nothing in the 2017 script");
    let loopback_v4 = reader.loopback();
    let inbound = reader.inbound();
    let outbound = reader.outbound();
    let excluded_ranges = reader.excluded_ranges();
    let outbound_ports = reader.list(Flag::OutboundPorts);
    let excluded_outbound_ports = reader.list(Flag::LocalOutboundPortsExclude);
    let excluded_interfaces = reader.list(Flag::ExcludeInterfaces);
    let virtual_interfaces = reader.list(Flag::KubeVirtInterfaces);
    let named = [&*excluded_interfaces, &*virtual_interfaces].concat();
    reader.reject_node(pod.host.as_ref(), &named);
    let excluded_users = reader.excluded_users(&pod.accounts);
    let owner_groups = reader.owner_groups(&pod.accounts);
    let dns = reader.dns(pod.resolv_conf.as_deref());
    reader.warnings.extend(ineffective::warnings(args));
    let Reader { errors, mut warnings, .. } = reader;
    let (Some(outbound_port), Some(inbound_port), Some(tunnel_port), Some(loopback_v4), []) =
        (outbound_port, inbound_port, tunnel_port, loopback_v4, &*errors)
    else {
        return Err(InvalidConfig(errors));
    };
    let config = Config {
        outbound_port,
        inbound_port,
        tunnel_port,
        proxy_uids,
        proxy_gids,
        inbound,
        interception,
        outbound,
        excluded_ranges,
        outbound_ports,
        excluded_outbound_ports,
        excluded_interfaces,
        virtual_interfaces,
        excluded_users,
        owner_groups,
        dns,
        drop_invalid: args.is_on(Flag::DropInvalid),
        loopback_v4,
        ipv4,
        ipv6,
    };
    config.warn_of_one_listener(&mut warnings);
    config.warn_of_unused_ranges(&mut warnings);
    Ok((config, warnings))
}

impl Reader<'_> {
    /// Reports a node's network namespace; in a dry run as a warning.
    fn reject_node(&mut self, host: Result<&HostEvidence, &String>, named: &[InterfaceName]) {
        let error = host_evidence::node_error(host, named);
        match error.filter(|_| !self.args.is_on(Flag::AllowHostNetwork)) {
            Some(error) if self.args.is_on(Flag::DryRun) => {
                self.warnings.push(format!("a run would be rejected: {error}"));
            }
            Some(error) => self.errors.insert(0, error),
            None => {}
        }
    }

    fn interception(&mut self) -> Interception {
        let typed = self.args.flag(Flag::InboundInterceptionMode);
        let mark =
            self.number(Flag::InboundTproxyMark, "-t made the 2018 script load its functions only");
        let table = self.number(Flag::InboundTproxyRouteTable, "");
        match typed.text.as_str() {
            "" | "REDIRECT" => return Interception::Redirect,
            "NONE" => {
                let source = typed.source;
                self.warnings.push(format!(
                    "{source}: NONE captures as REDIRECT does; to capture nothing, do not run \
                     istio-init"
                ));
                return Interception::Redirect;
            }
            "TPROXY" => {}
            _ => {
                let error = ValueError::new("is not an interception mode");
                let error = error.hint("use REDIRECT or TPROXY, in capitals");
                self.reject(typed.source, &typed.text, error);
            }
        }
        match (mark, table) {
            (Some(mark), Some(table)) => Interception::Tproxy { mark, table },
            // The error about the other flag is reported already.
            _ => Interception::Redirect,
        }
    }

    fn families(&mut self, addresses: &[IpAddr]) -> (bool, bool) {
        let typed = self.args.flag(Flag::IpFamilies);
        let families = families::read(self.args, addresses).unwrap_or_else(|error| {
            self.errors.push(error);
            (true, false)
        });
        let chosen = !matches!(typed.text.as_str(), "" | "auto");
        if chosen && self.args.is_on(Flag::DualStack) && families != (true, true) {
            self.warnings.push(format!(
                "{}: has no effect together with {} {}",
                self.args.flag(Flag::DualStack).source,
                typed.source,
                typed.text
            ));
        }
        families
    }

    fn excluded_users(&mut self, accounts: &Accounts) -> Vec<ExcludedUsers> {
        let typed = self.args.flag(Flag::ExcludeOutboundForUids);
        let elements = typed.text.split(';').filter(|element| !element.trim().is_empty());
        let read = |element: &str| users::read(element.trim(), accounts);
        self.elements(typed.source, &typed.text, elements, read)
    }

    fn dns(&mut self, resolv_conf: Result<&str, &String>) -> Option<NameServers> {
        let all = self.args.flag(Flag::CaptureAllDns);
        let captures_all = self.args.is_on(Flag::CaptureAllDns);
        if !self.args.is_on(Flag::RedirectDns) {
            if captures_all {
                let warning =
                    format!("{}: has no effect without {}", all.source, Flag::RedirectDns);
                self.warnings.push(warning);
            }
            return None;
        }
        if captures_all {
            return Some(NameServers::All);
        }
        let typed = self.args.flag(Flag::RedirectDns);
        match resolv_conf.map(name_servers::read) {
            Err(reason) => {
                let error = ValueError::new(format!("needs {RESOLV_CONF}: {reason}"));
                let error = error.hint(format!("or capture all with {}", Flag::CaptureAllDns));
                self.reject(typed.source, &typed.text, error);
                None
            }
            Ok(servers) if servers.is_empty() => {
                let source = typed.source;
                self.warnings
                    .push(format!("{source}: captures no DNS: {RESOLV_CONF} names no server"));
                None
            }
            Ok(servers) => Some(NameServers::Only(servers)),
        }
    }

    fn proxy(&mut self, accounts: &Accounts) -> (Vec<Uid>, Vec<Gid>) {
        let typed = self.args.flag(Flag::ProxyUid);
        let uids = if typed.text.is_empty() {
            vec![self.envoy_user(accounts)]
        } else {
            self.each(typed.source, &typed.text, |text| accounts.user(text.trim()))
        };
        let gids = self.args.flag(Flag::ProxyGid);
        let gids = if gids.text.is_empty() {
            // As in Istio, user numbers are used as group numbers.
            uids.iter().filter_map(|uid| uid.to_string().parse().ok()).collect()
        } else {
            self.each(gids.source, &gids.text, |text| accounts.group(text.trim()))
        };
        for flag in [Flag::ProxyUid, Flag::ProxyGid] {
            let typed = self.args.flag(flag);
            if !typed.text.is_empty() && list::split(&typed.text).next().is_none() {
                let error = ValueError::new("names no user or group");
                let error = error.hint(
                    "without an owner, the proxy's own traffic would be \
                captured",
                );
                self.reject(typed.source, &typed.text, error);
            }
        }
        (uids, gids)
    }

    /// As in Istio, a user unknown to the image stands for 1337. If the user was named explicitly,
    /// warns.
    fn envoy_user(&mut self, accounts: &Accounts) -> Uid {
        let variable = Variable::EnvoyUser;
        accounts.named_user(self.variable(variable)).unwrap_or_else(|| {
            if let Some(name) = self.args.variable(variable) {
                self.warnings.push(format!(
                    "{variable}: `{}` is not a user of this image's /etc/passwd; the proxy is \
                     assumed to run as user {}; set its user with {}",
                    Escaped(name),
                    Uid::PROXY,
                    Flag::ProxyUid
                ));
            }
            Uid::PROXY
        })
    }

    fn loopback(&mut self) -> Option<Cidr> {
        let text = self.variable(Variable::LoopbackCidr);
        let read =
            text.parse::<Cidr>().and_then(|cidr| match cidr.address() {
                IpAddr::V4(v4) if v4.is_loopback() && cidr.length() >= 8 => Ok(cidr),
                IpAddr::V4(v4) if v4.is_loopback() => {
                    Err(ValueError::new("is larger than the loopback range")
                        .hint("use a prefix length from 8"))
                }
                _ => Err(ValueError::new("is not an IPv4 loopback range")
                    .hint("use a part of 127.0.0.0/8")),
            });
        let source = Source::Variable(Variable::LoopbackCidr.name());
        read.map_err(|error| self.reject(source, text, error)).ok()
    }

    fn inbound(&mut self) -> Inbound {
        let typed = self.args.flag(Flag::InboundPorts);
        let excluded = self.list(Flag::LocalExcludePorts);
        if typed.text == "*" {
            return Inbound::AllBut(excluded);
        }
        if !excluded.is_empty() {
            let source = self.args.flag(Flag::LocalExcludePorts).source;
            self.warnings.push(format!(
                "{source}: has no effect: {} captures single ports or none, not `*`",
                Flag::InboundPorts
            ));
        }
        match self.each(typed.source, &typed.text, str::parse) {
            ports if ports.is_empty() => Inbound::None,
            ports => Inbound::Only(ports),
        }
    }

    fn outbound(&mut self) -> Outbound {
        let typed = self.args.flag(Flag::ServiceCidr);
        if typed.text == "*" {
            return Outbound::All;
        }
        match self.each(typed.source, &typed.text, str::parse) {
            ranges if ranges.is_empty() => Outbound::None,
            ranges => Outbound::Only(ranges),
        }
    }

    fn excluded_ranges(&mut self) -> Vec<Cidr> {
        let typed = self.args.flag(Flag::ServiceExcludeCidr);
        if typed.text != "*" {
            return self.each(typed.source, &typed.text, str::parse);
        }
        let error = ValueError::new("would exclude all destinations");
        let error =
            error.hint(format!("to capture nothing outbound, leave {} empty", Flag::ServiceCidr));
        self.reject(typed.source, &typed.text, error);
        Vec::new()
    }

    fn owner_groups(&mut self, accounts: &Accounts) -> OwnerGroups {
        let included = self.variable(Variable::OwnerGroups);
        let excluded = self.variable(Variable::OwnerGroupsExclude);
        let read = |reader: &mut Self, variable: Variable, text: &str| {
            let source = Source::Variable(variable.name());
            reader.each(source, text, |name| accounts.group(name.trim()))
        };
        if included == "*" {
            return OwnerGroups::AllBut(read(self, Variable::OwnerGroupsExclude, excluded));
        }
        if !excluded.is_empty() {
            self.warnings.push(format!(
                "{}: has no effect together with {}",
                Variable::OwnerGroupsExclude,
                Variable::OwnerGroups
            ));
        }
        let groups = read(self, Variable::OwnerGroups, included);
        if list::split(included).next().is_none() {
            self.warnings.push(format!(
                "{}: names no group, so nothing outbound is captured",
                Variable::OwnerGroups
            ));
        }
        if groups.len() > MAX_OWNER_GROUPS {
            let error = ValueError::new(format!("names {} groups", groups.len()));
            let error = error.hint(format!("use at most {MAX_OWNER_GROUPS}"));
            self.reject(Source::Variable(Variable::OwnerGroups.name()), included, error);
        }
        OwnerGroups::Only(groups)
    }
}

/// Istio's limit, given by the matches of one iptables rule.
const MAX_OWNER_GROUPS: usize = 64;
const RESOLV_CONF: &str = "/etc/resolv.conf";
