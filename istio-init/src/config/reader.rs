//! The checks of every value.

use std::net::IpAddr;
use std::str::FromStr;

use super::{Config, Inbound, Invalid, Outbound, OwnerGroups, PASSTHROUGH_V6, Surroundings};
use crate::args::{Args, Source};
use crate::cidr::Cidr;
use crate::complaint::{Complaint, Fault};
use crate::flag::{FLAGS, Flag, Kind, Support};
use crate::owner::{Accounts, Gid, Uid};
use crate::port::Port;
use crate::variable::Variable;

/// Reads a configuration, and what the user should know although it is valid.
pub(super) fn read(
    args: &Args,
    surroundings: &Surroundings,
) -> Result<(Config, Vec<String>), Invalid> {
    let mut reader = Reader { args, complaints: Vec::new(), warnings: args.ignored.clone() };
    reader.refuse_what_is_not_built();
    reader.check_mode();
    let (proxy_uids, proxy_gids) = reader.proxy(&surroundings.accounts);
    let ipv6 = reader.ipv6(&surroundings.addresses);
    let outbound_port = reader.port(Flag::EnvoyPort);
    let inbound_port = reader.port(Flag::InboundCapturePort);
    let tunnel_port = reader.port(Flag::InboundTunnelPort);
    let loopback_v4 = reader.loopback();
    let inbound = reader.inbound();
    let outbound = reader.outbound();
    let excluded_ranges = reader.excluded_ranges();
    let outbound_ports = reader.list(Flag::OutboundPorts);
    let excluded_outbound_ports = reader.list(Flag::LocalOutboundPortsExclude);
    let excluded_interfaces = reader.list(Flag::ExcludeInterfaces);
    let owner_groups = reader.owner_groups(&surroundings.accounts);
    reader.warn_of_variables();
    let Reader { complaints, mut warnings, .. } = reader;
    let (Some(outbound_port), Some(inbound_port), Some(tunnel_port), Some(loopback_v4), []) =
        (outbound_port, inbound_port, tunnel_port, loopback_v4, &*complaints)
    else {
        return Err(Invalid(complaints));
    };
    let config = Config {
        outbound_port,
        inbound_port,
        tunnel_port,
        proxy_uids,
        proxy_gids,
        inbound,
        outbound,
        excluded_ranges,
        outbound_ports,
        excluded_outbound_ports,
        excluded_interfaces,
        owner_groups,
        loopback_v4,
        ipv6,
    };
    config.warn_of_unused_ranges(&mut warnings);
    Ok((config, warnings))
}

/// Reads value after value and remembers what is wrong.
struct Reader<'a> {
    args: &'a Args,
    complaints: Vec<Complaint>,
    warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    fn refuse_what_is_not_built(&mut self) {
        for spec in FLAGS.iter().filter(|spec| spec.support == Support::NotYet) {
            let typed = self.args.flag(spec.flag);
            let is_default = match spec.kind {
                Kind::Bool => !self.args.is_on(spec.flag),
                _ => typed.text == spec.default,
            };
            if is_default {
                continue;
            }
            if spec.flag == Flag::CaptureAllDns && !self.args.is_on(Flag::RedirectDns) {
                let warning = format!("{}: has no effect without --redirect-dns", typed.source);
                self.warnings.push(warning);
                continue;
            }
            let fault = match (spec.flag, typed.text.as_str()) {
                (Flag::ForceIptablesBinary, text) if !["legacy", "nft"].contains(&text) => {
                    Fault::new("is not the name of an iptables").hint("use legacy or nft")
                }
                _ => not_built(match spec.default {
                    "" | "false" => "leave it out".to_owned(),
                    default => format!("leave it out, or use Istio's default {default}"),
                }),
            };
            self.complain(typed.source, &typed.text, fault);
        }
    }

    fn check_mode(&mut self) {
        let typed = self.args.flag(Flag::InboundInterceptionMode);
        let fault = match typed.text.as_str() {
            "" | "REDIRECT" => return,
            "NONE" => {
                let source = typed.source;
                self.warnings.push(format!(
                    "{source}: NONE captures as REDIRECT does; to capture nothing, do not run istio-init"
                ));
                return;
            }
            "TPROXY" => not_built("use REDIRECT".to_owned()),
            _ => Fault::new("is not an interception mode").hint("use REDIRECT, in capitals"),
        };
        self.complain(typed.source, &typed.text, fault);
    }

    fn proxy(&mut self, accounts: &Accounts) -> (Vec<Uid>, Vec<Gid>) {
        let typed = self.args.flag(Flag::ProxyUid);
        let uids = if typed.text.is_empty() {
            let name = self.variable(Variable::EnvoyUser);
            vec![accounts.named_user(name).unwrap_or(Uid::PROXY)]
        } else {
            self.each(typed.source, &typed.text, |text| accounts.user(text.trim()))
        };
        let gids = self.args.flag(Flag::ProxyGid);
        let gids = if gids.text.is_empty() {
            // Numbers of users stand for groups here, as they do in Istio.
            uids.iter().filter_map(|uid| uid.to_string().parse().ok()).collect()
        } else {
            self.each(gids.source, &gids.text, |text| accounts.group(text.trim()))
        };
        for flag in [Flag::ProxyUid, Flag::ProxyGid] {
            let typed = self.args.flag(flag);
            if !typed.text.is_empty() && split(&typed.text).next().is_none() {
                let fault = Fault::new("names nobody");
                let fault = fault.hint("without an owner the proxy would capture its own traffic");
                self.complain(typed.source, &typed.text, fault);
            }
        }
        (uids, gids)
    }

    /// Whether IPv6 is captured: the first usable address decides, or any with dual stack.
    fn ipv6(&mut self, addresses: &[IpAddr]) -> bool {
        let mut usable = addresses.iter().copied().filter(|address| is_usable(*address));
        match usable.next() {
            Some(IpAddr::V4(_)) => self.args.is_on(Flag::DualStack) && usable.any(|a| a.is_ipv6()),
            Some(IpAddr::V6(_)) => true,
            None => {
                let fault = Fault::new("are none that the pod could be reached at");
                let fault = fault.hint("run istio-init after the pod's network is set up");
                let listed: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
                self.complaints.push(Complaint {
                    source: "addresses of this network namespace".to_owned(),
                    value: listed.join(","),
                    fault,
                });
                false
            }
        }
    }

    fn port(&mut self, flag: Flag) -> Option<Port> {
        let typed = self.args.flag(flag);
        typed.text.parse().map_err(|fault| self.complain(typed.source, &typed.text, fault)).ok()
    }

    fn loopback(&mut self) -> Option<Cidr> {
        let text = self.variable(Variable::LoopbackCidr);
        let read = text.parse::<Cidr>().and_then(|cidr| match cidr.address() {
            IpAddr::V4(v4) if v4.is_loopback() && cidr.length() >= 8 => Ok(cidr),
            IpAddr::V4(v4) if v4.is_loopback() => {
                Err(Fault::new("is larger than the loopback range")
                    .hint("the prefix length is at least 8"))
            }
            _ => Err(Fault::new("is not an IPv4 loopback range").hint("use a part of 127.0.0.0/8")),
        });
        let source = Source::Variable(Variable::LoopbackCidr.name());
        read.map_err(|fault| self.complain(source, text, fault)).ok()
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
        let fault = Fault::new("would leave everything alone");
        let fault =
            fault.hint(format!("to capture nothing outbound, leave {} empty", Flag::ServiceCidr));
        self.complain(typed.source, &typed.text, fault);
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
                "{}: has no effect beside {}",
                Variable::OwnerGroupsExclude,
                Variable::OwnerGroups
            ));
        }
        let groups = read(self, Variable::OwnerGroups, included);
        if split(included).next().is_none() {
            self.warnings.push(format!(
                "{}: names no group, so nothing outbound is captured",
                Variable::OwnerGroups
            ));
        }
        if groups.len() > MOST_OWNER_GROUPS {
            let fault = Fault::new(format!("names {} groups", groups.len()));
            let fault = fault.hint(format!("at most {MOST_OWNER_GROUPS} can be captured"));
            self.complain(Source::Variable(Variable::OwnerGroups.name()), included, fault);
        }
        OwnerGroups::Only(groups)
    }

    fn warn_of_variables(&mut self) {
        if let Some(port) = self.args.variable(Variable::EnvoyPort)
            && port != self.args.flag(Flag::EnvoyPort).text
        {
            let warning =
                format!("{}: `{port}` has no effect; use {}", Variable::EnvoyPort, Flag::EnvoyPort);
            self.warnings.push(warning);
        }
        if self.args.is_on(Flag::DryRun)
            && self.args.variable(Variable::DryRunFilePath).is_some_and(|path| !path.is_empty())
        {
            let variable = Variable::DryRunFilePath;
            self.warnings.push(format!("{variable}: has no effect; the dry run prints on stdout"));
        }
    }

    /// The list that a flag names, `*` not among its elements.
    fn list<T: FromStr<Err = Fault> + PartialEq>(&mut self, flag: Flag) -> Vec<T> {
        let typed = self.args.flag(flag);
        self.each(typed.source, &typed.text, str::parse)
    }

    /// The elements of a list, each once, in the order of their first appearance.
    fn each<T: PartialEq>(
        &mut self,
        source: Source,
        text: &str,
        read: impl Fn(&str) -> Result<T, Fault>,
    ) -> Vec<T> {
        let mut values = Vec::new();
        for element in split(text) {
            match read(element) {
                Ok(value) if values.contains(&value) => {}
                Ok(value) => values.push(value),
                Err(fault) => self.complain(source, element, fault),
            }
        }
        values
    }

    fn variable(&self, variable: Variable) -> &'a str {
        self.args.variable(variable).unwrap_or(variable.default())
    }

    fn complain(&mut self, source: Source, value: &str, fault: Fault) {
        let complaint = Complaint { source: source.to_string(), value: value.to_owned(), fault };
        self.complaints.push(complaint);
    }
}

/// Splits a list as Istio does: at commas, without empty elements.
fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|element| !element.is_empty())
}

fn not_built(hint: String) -> Fault {
    Fault::new("is known from Istio, but not built yet in this istio-init").hint(hint)
}

/// Whether the pod could be reached at the address, as Istio judges it.
fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let is_link_local_multicast = v4.octets()[..3] == [224, 0, 0];
            !(v4.is_loopback() || v4.is_link_local() || is_link_local_multicast)
        }
        // The last one is ours, from an earlier run.
        IpAddr::V6(v6) => {
            let is_link_local_multicast = v6.segments()[0] & 0xff0f == 0xff02;
            !(v6.is_loopback()
                || v6.is_unicast_link_local()
                || is_link_local_multicast
                || v6 == PASSTHROUGH_V6)
        }
    }
}

/// Istio's limit, from the number of matches that one iptables rule can have.
const MOST_OWNER_GROUPS: usize = 64;
