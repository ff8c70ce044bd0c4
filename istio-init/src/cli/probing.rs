//! `probe`, and the validation that Istio's `--run-validation` asks for.

use std::fs;
use std::time::{Duration, Instant};

use super::{Failure, host_evidence, print, surroundings};
use crate::args::{Args, duration};
use crate::backend;
use crate::command::{Output, Request};
use crate::explain::Owner;
use crate::flag::Flag;
use crate::json::Json;
use crate::log;
use crate::owner::{Gid, Uid};
use crate::plan::{Plan, Protocol};
use crate::probe::{Flow, Place, Seen, try_flows, try_inbound};
use crate::render::table::aligned;
use crate::route::Routes;

/// Tries the installed rules, and prints what was seen of each flow.
pub(super) fn probe(request: &Request, plan: &Plan) -> Result<(), Failure> {
    let (place, deadline) = place(&request.args)?;
    let mut seen = try_flows(plan, &place, deadline)?;
    match inbound(&request.args, plan, &place, deadline) {
        Ok(inbound) => seen.extend(inbound),
        Err(why) => log::info(&format!("inbound connections were not tried from outside: {why}")),
    }
    if request.output == Output::Json {
        print(&Json::List(seen.iter().map(object).collect()).pretty())?;
    } else {
        print(&(text(&seen) + &summary(&seen)))?;
    }
    judge(&seen)
}

/// Tries the installed rules, and says no more than whether they hold.
pub(super) fn validate(args: &Args, plan: &Plan) -> Result<(), Failure> {
    let (place, deadline) = place(args)?;
    let seen = try_flows(plan, &place, deadline)?;
    let wrong: Vec<Seen> = seen.iter().filter(|seen| !seen.is_as_expected()).cloned().collect();
    if !wrong.is_empty() {
        log::info(text(&wrong).trim_end());
    }
    judge(&seen)?;
    log::info(&format!("validation passed: {}", summary(&seen).trim_end()));
    Ok(())
}

fn summary(seen: &[Seen]) -> String {
    let tried = seen.iter().filter(|seen| seen.is_tried()).count();
    let wrong = seen.iter().filter(|seen| !seen.is_as_expected()).count();
    let (right, untried) = (tried - wrong, seen.len() - tried);
    format!("{right} flows match the plan, {wrong} do not, {untried} not tried\n")
}

/// Tries inbound connections from outside. In a node's network namespace, another interface could
/// be taken for a pod's.
fn inbound(
    args: &Args,
    plan: &Plan,
    place: &Place,
    deadline: Instant,
) -> Result<Vec<Seen>, String> {
    if !args.is_on(Flag::AllowHostNetwork) && !host_evidence()?.signs(&[]).is_empty() {
        return Err("this is a node's network namespace".to_owned());
    }
    try_inbound(plan, place, deadline).map_err(|error| error.to_string())
}

/// Facts of the machine, and the end of the probe.
fn place(args: &Args) -> Result<(Place, Instant), Failure> {
    let limit = duration(&args.flag(Flag::ProbeTimeout).text).unwrap_or(USUAL_LIMIT);
    let list = |file| fs::read_to_string(file).unwrap_or_default();
    let place = Place {
        addresses: surroundings()?.addresses,
        routes: Routes { v4: list("/proc/net/route"), v6: list("/proc/net/ipv6_route") },
        owner: own()?,
        probe_port: args.flag(Flag::IptablesProbePort).text.parse().unwrap_or(USUAL_PORT),
        application_port: 0,
        patience: PATIENCE.min(limit),
        installed: installed(),
    };
    Ok((place, Instant::now() + limit))
}

/// The installed rules. A process without the capability cannot read them, and rules of others are
/// no plan.
fn installed() -> Option<Plan> {
    let (observed, _) = backend::observe().ok()?;
    observed.plan().ok()
}

fn own() -> Result<Owner, Failure> {
    let uid = rustix::process::geteuid().as_raw().to_string().parse::<Uid>();
    let gid = rustix::process::getegid().as_raw().to_string().parse::<Gid>();
    uid.and_then(|uid| Ok(Owner { uid, gid: gid? })).map_err(|_| Failure::Nobody)
}

fn judge(seen: &[Seen]) -> Result<(), Failure> {
    let wrong: Vec<&Seen> = seen.iter().filter(|seen| !seen.is_as_expected()).collect();
    match wrong.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Probe { wrong: wrong.len(), first: sentence(first) }),
    }
}

fn sentence(seen: &Seen) -> String {
    let Seen { flow, outcome } = seen;
    let (by, target, expected) = (word(flow.protocol), flow.target, &flow.expected);
    let origin = match flow.owner {
        Some(Owner { uid, gid }) => format!("of uid {uid} gid {gid}"),
        None => "from outside".to_owned(),
    };
    format!("{by} {origin} to {target} came to {outcome}, not to {expected}")
}

fn text(seen: &[Seen]) -> String {
    let titles = ["", "flow", "from", "to", "expected", "seen"].map(str::to_owned);
    let rows = seen.iter().map(|seen| {
        let flow = &seen.flow;
        let mark = match (seen.is_tried(), seen.is_as_expected()) {
            (false, _) => "-",
            (true, true) => "ok",
            (true, false) => "WRONG",
        };
        let source = flow.source.map_or_else(String::new, |source| source.to_string());
        [
            mark.to_owned(),
            format!("{} {}", word(flow.protocol), origin(flow)),
            source,
            flow.target.to_string(),
            flow.expected.to_string(),
            seen.outcome.to_string(),
        ]
    });
    aligned(&std::iter::once(titles).chain(rows).collect::<Vec<_>>())
}

fn origin(flow: &Flow) -> String {
    match flow.owner {
        Some(Owner { uid, gid }) => format!("of {uid}:{gid}"),
        None => "from outside".to_owned(),
    }
}

fn object(seen: &Seen) -> Json {
    let flow = &seen.flow;
    let id = |of: fn(Owner) -> u32| {
        flow.owner.map_or(Json::Null, |owner| Json::Number(of(owner).into()))
    };
    Json::Object(vec![
        ("protocol", Json::text(word(flow.protocol))),
        ("uid", id(|owner| owner.uid.get())),
        ("gid", id(|owner| owner.gid.get())),
        ("from", flow.source.map_or(Json::Null, Json::text)),
        ("to", Json::text(flow.target)),
        ("expected", Json::text(&flow.expected)),
        ("seen", Json::text(&seen.outcome)),
        ("tried", Json::Bool(seen.is_tried())),
        ("asExpected", Json::Bool(seen.is_as_expected())),
    ])
}

fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

/// What is redirected arrives within microseconds.
const PATIENCE: Duration = Duration::from_millis(300);
/// Istio's.
const USUAL_LIMIT: Duration = Duration::from_secs(5);
/// Istio's.
const USUAL_PORT: u16 = 15_002;
