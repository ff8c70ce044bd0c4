//! Subcommands about rules: `plan`, `explain`, `verify`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{
    Failure, apply, host_evidence, log_warnings, planned, pod_environment, print, probe, routes,
};
use crate::args::command::{Output, PacketQuery, Request, Subcommand};
use crate::args::flags::Flag;
use crate::backend;
use crate::backend::foreign::{ForeignChain, family_name};
use crate::backend::{BackendChoice, Installer};
use crate::config::host_evidence::HostEvidence;
use crate::explain::{Owner, Packet, explain};
use crate::json::Json;
use crate::log;
use crate::picture::picture;
use crate::plan::{Hook, Plan};
use crate::render::chain_names::ChainNames;
use crate::render::{capture_svg, explanation, iptables, json, mermaid, nft, table};
use crate::types::direction::Direction;
use crate::types::family::Family;
use crate::verify::{Comparison, Side};

/// Runs a subcommand about rules.
pub(super) fn answer(request: &Request) -> Result<(), Failure> {
    let is_json = request.output == Output::Json;
    match &request.command {
        Subcommand::Plan => {
            let (plan, names) = requested_plan(request)?;
            print(&text_of(&plan, names, request.output))
        }
        Subcommand::Explain(question) => {
            let (plan, names) = requested_plan(request)?;
            let packet = packet(question)?;
            let explanation = explain(&plan, &packet);
            let others = if request.from_kernel {
                let mut others = backend::foreign::foreign_chains(&plan)?;
                others.retain(|chain| can_pass(chain, &packet));
                others
            } else {
                Vec::new()
            };
            print(&if is_json {
                with_others(explanation::object(&plan, &packet, &explanation), &others).pretty()
            } else {
                explanation::text(&plan, &packet, &explanation, names) + &others_text(&others)
            })
        }
        Subcommand::Verify => verify(request),
        Subcommand::Probe => probe::probe(request, &requested_plan(request)?.0),
        // These subcommands are handled by the caller.
        Subcommand::Install | Subcommand::Cleanup => Ok(()),
    }
}

/// Returns the rules a command is about: the installed ones, or those of the flags. Chains have the
/// names of the installer, or of the requested backend.
fn requested_plan(request: &Request) -> Result<(Plan, ChainNames), Failure> {
    let (plan, is_by_iptables) = if request.from_kernel {
        log_warnings(&request.args.ignored);
        let (installers, _) = backend::installers()?;
        let (observed, warnings) = backend::observe()?;
        log_warnings(&warnings);
        (observed.plan()?, matches!(*installers, [Installer::Iptables(_), ..]))
    } else {
        let (plan, choice) = planned(&request.args, Ok(HostEvidence::default()))?;
        (plan, matches!(choice, BackendChoice::Iptables(_)))
    };
    Ok((plan, if is_by_iptables { ChainNames::Iptables } else { ChainNames::Nftables }))
}

fn text_of(plan: &Plan, names: ChainNames, output: Output) -> String {
    match output {
        Output::Table => table::plan(plan, names),
        Output::Nft => nft::script(plan),
        Output::Json => json::plan(plan).pretty(),
        Output::Iptables => iptables::script(plan),
        Output::Svg => capture_svg::svg(&picture(plan)),
        Output::Mermaid => mermaid::capture(&picture(plan)),
    }
}

/// Completes a packet with defaults.
fn packet(question: &PacketQuery) -> Result<Packet, Failure> {
    let PacketQuery { direction, protocol, from, to, interface, uid, gid, mark } = question;
    let interface = match interface {
        Some(name) => name.clone(),
        None if *direction == Direction::Out && is_here(to.ip())? => "lo".to_owned(),
        None => default_interface(*direction, to.ip()),
    };
    let anywhere = match to.ip() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Ok(Packet {
        direction: *direction,
        protocol: *protocol,
        source: from.unwrap_or(SocketAddr::new(anywhere, 0)),
        destination: *to,
        interface,
        owner: (*direction == Direction::Out).then_some(Owner { uid: *uid, gid: *gid }),
        mark: *mark,
    })
}

/// Returns the interface of the route for outbound packets, and eth0 for inbound ones.
fn default_interface(direction: Direction, to: IpAddr) -> String {
    let taken =
        (direction == Direction::Out).then(|| routes().interface(to).map(str::to_owned)).flatten();
    taken.unwrap_or_else(|| "eth0".to_owned())
}

/// True if the address belongs to this network namespace.
fn is_here(address: IpAddr) -> Result<bool, Failure> {
    Ok(address.is_loopback() || pod_environment()?.addresses.contains(&address))
}

fn verify(request: &Request) -> Result<(), Failure> {
    let repairs = request.args.is_on(Flag::Reconcile);
    let host = if repairs { host_evidence() } else { Ok(HostEvidence::default()) };
    let (plan, choice) = planned(&request.args, host)?;
    let (installers, warnings) = backend::installers()?;
    log_warnings(&warnings);
    let backend = choice.choose_among(&installers)?;
    let planned_for = backend.installer();
    let others = || installers.iter().filter(|other| **other != planned_for);
    let other_names = others().map(ToString::to_string).collect::<Vec<_>>().join(" and by ");
    // Compared with rules of another backend, all would be missing.
    let comparison = if installers.contains(&planned_for) || other_names.is_empty() {
        backend.compare(&plan)?
    } else {
        Comparison { lines: Vec::new() }
    };
    let others_first = backend::foreign::foreign_chains(&plan)?;
    let is_json = request.output == Output::Json;
    if is_json {
        let object = object_of(&comparison, &installers, planned_for);
        print(&with_others(object, &others_first).pretty())?;
    } else if !comparison.is_equal() {
        print(&comparison.text())?;
    }
    if comparison.is_equal() && other_names.is_empty() {
        if !is_json {
            let (count, by) = (plan.rules.len(), backend.words(&plan));
            let equal = format!("installed as planned, by {by}: {count} rules\n");
            print(&(equal + &others_text(&others_first)))?;
        }
        return Ok(());
    }
    let (missing, foreign) = comparison.counts();
    if repairs {
        apply(backend, &plan)?;
        let repaired = if other_names.is_empty() {
            format!("repaired: {missing} lines were missing, {foreign} were not planned")
        } else {
            format!("repaired: rules of {planned_for} replaced those of {other_names}")
        };
        log::info(&repaired);
        return Ok(());
    }
    if !other_names.is_empty() {
        let planned = planned_for.to_string();
        return Err(Failure::OtherBackend { installed: other_names, planned });
    }
    Err(Failure::Drift { missing, foreign })
}

/// True if the packet can pass the chain.
fn can_pass(chain: &ForeignChain, packet: &Packet) -> bool {
    let hook = match packet.direction {
        Direction::In => Hook::Prerouting,
        Direction::Out => Hook::Output,
    };
    let family = Family::from_address(packet.destination.ip());
    chain.hook == hook && chain.family.is_none_or(|it| it == family)
}

/// Returns a line for each chain that can decide first.
fn others_text(chains: &[ForeignChain]) -> String {
    let line = |chain: &ForeignChain| {
        ["rules of others can decide first: ", &chain.to_string(), "\n"].concat()
    };
    chains.iter().map(line).collect()
}

/// Adds the chains that can decide first.
fn with_others(answer: Json, chains: &[ForeignChain]) -> Json {
    let object = |chain: &ForeignChain| {
        Json::Object(vec![
            ("owner", Json::text(chain.owner)),
            ("family", Json::text(family_name(chain.family))),
            ("table", Json::text(&chain.table)),
            ("chain", Json::text(&chain.chain)),
        ])
    };
    match answer {
        Json::Object(mut members) => {
            members.push(("othersFirst", Json::List(chains.iter().map(object).collect())));
            Json::Object(members)
        }
        other => other,
    }
}

fn object_of(comparison: &Comparison, installers: &[Installer], planned_for: Installer) -> Json {
    let of_side = |wanted: Side| {
        let lines = comparison.lines.iter().filter(|(side, _)| *side == wanted);
        Json::List(lines.map(|(_, line)| Json::text(line.trim_start())).collect())
    };
    Json::Object(vec![
        (
            "equal",
            Json::Bool(comparison.is_equal() && installers.iter().all(|by| *by == planned_for)),
        ),
        ("installedBy", Json::List(installers.iter().map(Json::text).collect())),
        ("plannedFor", Json::text(planned_for)),
        ("missing", of_side(Side::Planned)),
        ("unplanned", of_side(Side::Installed)),
    ])
}
