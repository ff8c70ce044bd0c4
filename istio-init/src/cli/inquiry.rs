//! What the subcommands answer.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Failure, planned, print, probing, surroundings, warn_of};
use crate::backend::{Backend, BackendError};
use crate::command::{Command, Output, Question, Request};
use crate::explain::{Direction, Owner, Packet, explain};
use crate::flag::Flag;
use crate::json::Json;
use crate::kernel;
use crate::log;
use crate::plan::Plan;
use crate::render::{explanation, iptables, json, nft, table};
use crate::route::Routes;
use crate::verify::{Comparison, Side, compare};

/// Answers a question about rules.
pub(super) fn answer(request: &Request) -> Result<(), Failure> {
    let is_json = request.output == Output::Json;
    match &request.command {
        Command::Plan => print(&text_of(&asked(request)?, request.output)),
        Command::Explain(question) => {
            let plan = asked(request)?;
            let packet = packet(question)?;
            let explanation = explain(&plan, &packet);
            print(&if is_json {
                explanation::object(&plan, &packet, &explanation).pretty()
            } else {
                explanation::text(&plan, &packet, &explanation)
            })
        }
        Command::Verify => verify(request),
        Command::Probe => probing::probe(request, &asked(request)?),
        // These ask nothing.
        Command::Install | Command::Cleanup => Ok(()),
    }
}

/// The rules that are asked: the installed ones, or those that the flags ask for.
pub(super) fn asked(request: &Request) -> Result<Plan, Failure> {
    if request.from_kernel {
        warn_of(&request.args.ignored);
        return Ok(kernel::observe()?.plan()?);
    }
    Ok(planned(&request.args)?.0)
}

fn text_of(plan: &Plan, output: Output) -> String {
    match output {
        Output::Table => table::plan(plan),
        Output::Nft => nft::script(plan),
        Output::Json => json::plan(plan).pretty(),
        Output::Iptables => iptables::script(plan),
    }
}

/// What a question leaves out is what is usual.
fn packet(question: &Question) -> Result<Packet, Failure> {
    let Question { direction, protocol, from, to, interface, uid, gid, mark } = question;
    let interface = match interface {
        Some(name) => name.clone(),
        None if *direction == Direction::Out && is_here(to.ip())? => "lo".to_owned(),
        None => usual_interface(*direction, to.ip()),
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

/// What is sent takes its route; what arrives is thought to come by the first link of a pod.
fn usual_interface(direction: Direction, to: IpAddr) -> String {
    let list = |file| fs::read_to_string(file).unwrap_or_default();
    let routes = || Routes { v4: list("/proc/net/route"), v6: list("/proc/net/ipv6_route") };
    let taken =
        (direction == Direction::Out).then(|| routes().interface(to).map(str::to_owned)).flatten();
    taken.unwrap_or_else(|| "eth0".to_owned())
}

/// Whether the address is one of this namespace's own.
fn is_here(address: IpAddr) -> Result<bool, Failure> {
    Ok(address.is_loopback() || surroundings()?.addresses.contains(&address))
}

fn verify(request: &Request) -> Result<(), Failure> {
    let (plan, wish) = planned(&request.args)?;
    let backend = wish.choose().map_err(BackendError::from)?;
    let comparison = match backend {
        Backend::Nftables => compare(&plan, &kernel::observe()?),
        Backend::Iptables(tools) => Comparison {
            lines: kernel::iptables::difference(tools, &plan).map_err(BackendError::from)?,
        },
    };
    let is_json = request.output == Output::Json;
    if is_json {
        print(&object_of(&comparison).pretty())?;
    } else if !comparison.is_equal() {
        print(&comparison.text())?;
    }
    if comparison.is_equal() {
        if !is_json {
            print(&format!("installed as planned: {} rules\n", plan.rules.len()))?;
        }
        return Ok(());
    }
    let (missing, foreign) = comparison.counts();
    if request.args.is_on(Flag::Reconcile) {
        warn_of(&backend.apply(&plan)?);
        let repaired =
            format!("repaired: {missing} lines were missing, {foreign} were not planned");
        log::info(&repaired);
        return Ok(());
    }
    Err(Failure::Drift { missing, foreign })
}

fn object_of(comparison: &Comparison) -> Json {
    let of_side = |wanted: Side| {
        let lines = comparison.lines.iter().filter(|(side, _)| *side == wanted);
        Json::List(lines.map(|(_, line)| Json::text(line.trim_start())).collect())
    };
    Json::Object(vec![
        ("equal", Json::Bool(comparison.is_equal())),
        ("missing", of_side(Side::Planned)),
        ("unplanned", of_side(Side::Installed)),
    ])
}
