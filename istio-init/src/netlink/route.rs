//! Policy rules and routes that deliver marked packets to this pod's sockets, over rtnetlink
//! (kernel `include/uapi/linux/fib_rules.h` and `rtnetlink.h`).

use rustix::io::Errno;

use super::dump::dump;
use super::error::KernelError;
use super::message::{
    ACK, CREATE, EXCLUSIVE, Header, Messages, attribute, family_from_number, family_number,
};
use super::socket::Socket;
use crate::plan::TproxyRouting;
use crate::types::family::Family;

/// Policy rule of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PolicyRule {
    family: Family,
    mark: u32,
    table: u32,
}

/// Policy rules and routes added by this run, in order.
#[derive(Default)]
pub(crate) struct Added(Vec<(Part, PolicyRule)>);

impl Added {
    /// Adds missing policy rules and routes; keeps existing ones.
    pub(crate) fn add(&mut self, delivery: &TproxyRouting) -> Result<(), KernelError> {
        let socket = Socket::route()?;
        let installed = policy_rules(&socket)?;
        for rule in planned(Some(delivery)) {
            // The rule is added first and removed last, so a later run finds what a killed one
            // left. While its table is empty, packets continue with the next rule.
            if !installed.contains(&rule) {
                self.add_part(&socket, Part::Rule, NEW_RULE, rule)?;
            }
            self.add_part(&socket, Part::Route, NEW_ROUTE, rule)?;
        }
        Ok(())
    }

    fn add_part(
        &mut self,
        socket: &Socket,
        part: Part,
        kind: u16,
        rule: PolicyRule,
    ) -> Result<(), KernelError> {
        if request(socket, part, kind, CREATE | EXCLUSIVE, rule)? {
            self.0.push((part, rule));
        }
        Ok(())
    }

    /// Removes them in reverse order.
    pub(crate) fn remove(self) -> Result<(), KernelError> {
        let socket = Socket::route()?;
        for (part, rule) in self.0.into_iter().rev() {
            let kind = match part {
                Part::Rule => DELETE_RULE,
                Part::Route => DELETE_ROUTE,
            };
            request(&socket, part, kind, 0, rule)?;
        }
        Ok(())
    }
}

/// Removes policy rules and routes of earlier runs that this routing does not need.
pub(crate) fn remove_all_but(delivery: Option<&TproxyRouting>) -> Result<(), KernelError> {
    let socket = Socket::route()?;
    let installed = policy_rules(&socket)?;
    let planned = planned(delivery);
    for rule in installed {
        if planned.contains(&rule) {
            continue;
        }
        let is_shared =
            |other: &PolicyRule| (other.family, other.table) == (rule.family, rule.table);
        if !planned.iter().any(is_shared) {
            request(&socket, Part::Route, DELETE_ROUTE, 0, rule)?;
        }
        request(&socket, Part::Rule, DELETE_RULE, 0, rule)?;
    }
    Ok(())
}

/// Returns the ip(8) commands that removing everything is equivalent to.
pub(crate) fn removal_commands() -> Result<Vec<String>, KernelError> {
    let socket = Socket::route()?;
    let rules = policy_rules(&socket)?;
    let commands = |rule| [Part::Rule, Part::Route].map(|part: Part| part.command("delete", rule));
    let mut all: Vec<String> = Vec::new();
    for command in rules.into_iter().flat_map(commands) {
        // Two marks may share a route.
        if !all.contains(&command) {
            all.push(command);
        }
    }
    Ok(all)
}

/// Returns mark and table of each own policy rule: those with a route, and those without.
pub(crate) fn tproxy_routings() -> Result<[Vec<TproxyRouting>; 2], KernelError> {
    let socket = Socket::route()?;
    let rules = policy_rules(&socket)?;
    let routes = routes(&socket)
        .map_err(|errno| KernelError::List { objects: "policy rules", cause: errno.into() })?;
    let (whole, routeless): (Vec<_>, Vec<_>) =
        rules.into_iter().partition(|rule| routes.contains(&(rule.family, rule.table)));
    Ok([whole, routeless].map(|rules| deliveries(&rules)))
}

fn deliveries(rules: &[PolicyRule]) -> Vec<TproxyRouting> {
    let mut deliveries: Vec<TproxyRouting> = Vec::new();
    for PolicyRule { family, mark, table } in rules {
        let (Ok(mark), Ok(table)) = (mark.to_string().parse(), table.to_string().parse()) else {
            continue;
        };
        match deliveries.iter_mut().find(|found| (found.mark, found.table) == (mark, table)) {
            Some(found) => found.families.push(*family),
            None => deliveries.push(TproxyRouting { mark, table, families: vec![*family] }),
        }
    }
    deliveries
}

/// Returns family and table of this program's routes.
fn routes(socket: &Socket) -> Result<Vec<(Family, u32)>, Errno> {
    let listed = dump(socket, GET_ROUTE, &[0; FIXED_LENGTH], &|_| {})?;
    Ok(listed.iter().filter_map(|payload| local_route(payload)).collect())
}

/// Parses an own route: family and table.
pub(crate) fn local_route(payload: &[u8]) -> Option<(Family, u32)> {
    let family = family_from_number(*payload.first()?)?;
    let table = attribute(payload.get(FIXED_LENGTH..)?, ROUTE_TABLE)?;
    let is_ours =
        payload.get(5) == Some(&TproxyRouting::PROTOCOL) && payload.get(7) == Some(&LOCAL);
    is_ours.then_some((family, u32::from_ne_bytes(table.try_into().ok()?)))
}

fn planned(delivery: Option<&TproxyRouting>) -> Vec<PolicyRule> {
    let rules = |delivery: &TproxyRouting| {
        let (mark, table) = (delivery.mark.get(), delivery.table.get());
        let rule = |family: &Family| PolicyRule { family: *family, mark, table };
        delivery.families.iter().map(rule).collect::<Vec<_>>()
    };
    delivery.map(rules).unwrap_or_default()
}

/// Returns this program's policy rules of both families.
fn policy_rules(socket: &Socket) -> Result<Vec<PolicyRule>, KernelError> {
    let listed = dump(socket, GET_RULE, &[0; FIXED_LENGTH], &|_| {})
        .map_err(|errno| KernelError::List { objects: "policy rules", cause: errno.into() })?;
    Ok(listed.iter().filter_map(|payload| policy_rule(payload)).collect())
}

/// Parses an own policy rule.
pub(crate) fn policy_rule(payload: &[u8]) -> Option<PolicyRule> {
    let values = payload.get(FIXED_LENGTH..)?;
    let number = |kind| {
        let bytes = attribute(values, kind)?;
        bytes.try_into().ok().map(u32::from_ne_bytes)
    };
    let is_ours = number(PRIORITY) == Some(TproxyRouting::PRIORITY)
        && attribute(values, PROTOCOL) == Some(&[TproxyRouting::PROTOCOL]);
    let family = family_from_number(*payload.first()?)?;
    is_ours.then_some(PolicyRule { family, mark: number(MARK)?, table: number(TABLE)? })
}

/// Object of a change, for error messages.
#[derive(Clone, Copy)]
enum Part {
    Rule,
    Route,
}

impl Part {
    /// Returns the ip(8) command.
    fn command(self, verb: &str, rule: PolicyRule) -> String {
        let PolicyRule { family, mark, table } = rule;
        let version = match family {
            Family::V4 => "-4",
            Family::V6 => "-6",
        };
        let protocol = TproxyRouting::PROTOCOL;
        match self {
            Self::Rule => format!(
                "ip {version} rule {verb} fwmark {mark} lookup {table} priority {} \
                 protocol {protocol}",
                TproxyRouting::PRIORITY
            ),
            Self::Route => format!(
                "ip {version} route {verb} local default dev lo table {table} protocol {protocol}"
            ),
        }
    }
}

/// Requests one change. Returns false if the object to add exists already, or the object to remove
/// does not.
fn request(
    socket: &Socket,
    part: Part,
    kind: u16,
    flags: u16,
    rule: PolicyRule,
) -> Result<bool, KernelError> {
    let PolicyRule { family, mark, table } = rule;
    let mut fixed = [0; FIXED_LENGTH];
    fixed[0] = family_number(family);
    // A large table number does not fit here and has its own attribute.
    fixed[4] = u8::try_from(table).unwrap_or(TABLE_ELSEWHERE);
    let mut messages = Messages::default();
    let header = Header { kind, flags: flags | ACK, sequence: 1 };
    match part {
        Part::Rule => {
            fixed[7] = TO_TABLE;
            messages.push(header, &fixed, |a| {
                a.bytes(PRIORITY, &TproxyRouting::PRIORITY.to_ne_bytes());
                a.bytes(MARK, &mark.to_ne_bytes());
                a.bytes(MARK_MASK, &u32::MAX.to_ne_bytes());
                a.bytes(TABLE, &table.to_ne_bytes());
                a.bytes(PROTOCOL, &[TproxyRouting::PROTOCOL]);
            });
        }
        Part::Route => {
            fixed[5] = TproxyRouting::PROTOCOL;
            fixed[6] = SCOPE_HOST;
            fixed[7] = LOCAL;
            messages.push(header, &fixed, |a| {
                a.bytes(ROUTE_TABLE, &table.to_ne_bytes());
                a.bytes(ROUTE_INTERFACE, &LOOPBACK_INDEX.to_ne_bytes());
            });
        }
    }
    match socket.change(messages.as_bytes()) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST | Errno::NOENT | Errno::SRCH) => Ok(false),
        Err(errno) => {
            let verb = if matches!(kind, NEW_RULE | NEW_ROUTE) { "add" } else { "delete" };
            let step = part.command(verb, rule);
            Err(KernelError::Routing { step, cause: errno.into() })
        }
    }
}

// RTM_….
/// `RTM_GETROUTE`.
const GET_ROUTE: u16 = 26;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;
const GET_RULE: u16 = 34;

/// `struct fib_rule_hdr` and `struct rtmsg`, which begin alike: family, two lengths, type of
/// service, table. A rule continues with two unused bytes and the action, a route with protocol,
/// scope and type. Both end with flags.
const FIXED_LENGTH: usize = 12;
/// `RT_TABLE_COMPAT`.
const TABLE_ELSEWHERE: u8 = 252;
/// `FR_ACT_TO_TBL`.
const TO_TABLE: u8 = 1;
/// `RT_SCOPE_HOST`.
const SCOPE_HOST: u8 = 254;
/// `RTN_LOCAL`.
const LOCAL: u8 = 2;
/// The loopback interface is the first of every network namespace.
const LOOPBACK_INDEX: u32 = 1;

// FRA_….
const PRIORITY: u16 = 6;
const MARK: u16 = 10;
const TABLE: u16 = 15;
const MARK_MASK: u16 = 16;
const PROTOCOL: u16 = 21;

// RTA_….
const ROUTE_INTERFACE: u16 = 4;
const ROUTE_TABLE: u16 = 15;
