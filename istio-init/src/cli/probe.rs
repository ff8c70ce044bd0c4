//! `probe`, and Istio's `--run-validation`.

use std::time::{Duration, Instant};

use super::{Failure, host_evidence, pod_environment, print, routes};
use crate::args::command::{Output, Request};
use crate::args::flags::Flag;
use crate::args::{Args, Source, duration};
use crate::backend;
use crate::explain::Owner;
use crate::json::Json;
use crate::log;
use crate::plan::Plan;
use crate::probe::{Flow, FlowResult, ProbeSettings, try_flows, try_inbound};
use crate::render::table::aligned;
use crate::types::owner::{Gid, Uid};

/// Tries the installed rules, and prints what was results of each flow.
pub(super) fn probe(request: &Request, plan: &Plan) -> Result<(), Failure> {
    let (settings, deadline) = settings(&request.args)?;
    let mut results = try_flows(plan, &settings, deadline)?;
    match inbound(&request.args, plan, &settings, deadline) {
        Ok(inbound) => results.extend(inbound),
        Err(why) => log::info(&format!("inbound connections were not tried from outside: {why}")),
    }
    if request.output == Output::Json {
        print(&Json::List(results.iter().map(object).collect()).pretty())?;
    } else {
        print(&(text(&results) + &summary(&results)))?;
    }
    check_results(&results)
}

/// Tries the installed rules and reports only whether they work.
pub(super) fn validate(args: &Args, plan: &Plan) -> Result<(), Failure> {
    let (settings, deadline) = settings(args)?;
    let results = try_flows(plan, &settings, deadline)?;
    let wrong: Vec<FlowResult> =
        results.iter().filter(|results| !results.is_as_expected()).cloned().collect();
    if !wrong.is_empty() {
        log::info(text(&wrong).trim_end());
    }
    check_results(&results)?;
    log::info(&format!("validation passed: {}", summary(&results).trim_end()));
    Ok(())
}

fn summary(results: &[FlowResult]) -> String {
    let tried = results.iter().filter(|results| results.is_tried()).count();
    let wrong = results.iter().filter(|results| !results.is_as_expected()).count();
    let (right, untried) = (tried - wrong, results.len() - tried);
    format!("{right} flows match the plan, {wrong} do not, {untried} not tried\n")
}

/// Tries inbound connections from outside, but not on a node, where the interface could be taken
/// for a pod's.
fn inbound(
    args: &Args,
    plan: &Plan,
    settings: &ProbeSettings,
    deadline: Instant,
) -> Result<Vec<FlowResult>, String> {
    if !args.is_on(Flag::AllowHostNetwork) && !host_evidence()?.signs(&[]).is_empty() {
        return Err("this is a node's network namespace".to_owned());
    }
    try_inbound(plan, settings, deadline).map_err(|error| error.to_string())
}

/// Returns the settings of the probe, and its deadline.
fn settings(args: &Args) -> Result<(ProbeSettings, Instant), Failure> {
    let limit = limit(args);
    let settings = ProbeSettings {
        addresses: pod_environment()?.addresses,
        routes: routes(),
        owner: own()?,
        probe_port: args.flag(Flag::IptablesProbePort).text.parse().unwrap_or(DEFAULT_PORT),
        application_port: 0,
        timeout: TIMEOUT.min(limit),
        installed: installed(),
    };
    Ok((settings, Instant::now() + limit))
}

/// Time limit of the probe. Rules of another program are waited for: a node's CNI agent may just be repairing a
/// pod that it found without them.
fn limit(args: &Args) -> Duration {
    let value = args.flag(Flag::ProbeTimeout);
    match value.source {
        Source::Default(_) if args.is_on(Flag::SkipRuleApply) => LIMIT_OF_OTHERS,
        _ => duration(&value.text).unwrap_or(DEFAULT_LIMIT),
    }
}

/// Returns the installed rules; `None` without permission, or if they are not a plan.
fn installed() -> Option<Plan> {
    let (observed, _) = backend::observe().ok()?;
    observed.plan().ok()
}

fn own() -> Result<Owner, Failure> {
    let uid = rustix::process::geteuid().as_raw().to_string().parse::<Uid>();
    let gid = rustix::process::getegid().as_raw().to_string().parse::<Gid>();
    uid.and_then(|uid| Ok(Owner { uid, gid: gid? })).map_err(|_| Failure::NoOwner)
}

fn check_results(results: &[FlowResult]) -> Result<(), Failure> {
    let wrong: Vec<&FlowResult> =
        results.iter().filter(|results| !results.is_as_expected()).collect();
    match wrong.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Probe { wrong: wrong.len(), first: sentence(first) }),
    }
}

fn sentence(results: &FlowResult) -> String {
    let FlowResult { flow, outcome } = results;
    let (by, target, expected) = (flow.protocol, flow.target, &flow.expected);
    let origin = match flow.owner {
        Some(Owner { uid, gid }) => format!("of uid {uid} gid {gid}"),
        None => "from outside".to_owned(),
    };
    format!("{by} {origin} to {target}: expected {expected}, observed {outcome}")
}

fn text(results: &[FlowResult]) -> String {
    let titles = ["", "flow", "from", "to", "expected", "seen"].map(str::to_owned);
    let rows = results.iter().map(|results| {
        let flow = &results.flow;
        let mark = match (results.is_tried(), results.is_as_expected()) {
            (false, _) => "-",
            (true, true) => "ok",
            (true, false) => "WRONG",
        };
        let source = flow.source.map_or_else(String::new, |source| source.to_string());
        [
            mark.to_owned(),
            format!("{} {}", flow.protocol, origin(flow)),
            source,
            flow.target.to_string(),
            flow.expected.to_string(),
            results.outcome.to_string(),
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

fn object(results: &FlowResult) -> Json {
    let flow = &results.flow;
    let id = |of: fn(Owner) -> u32| {
        flow.owner.map_or(Json::Null, |owner| Json::Number(of(owner).into()))
    };
    Json::Object(vec![
        ("protocol", Json::text(flow.protocol)),
        ("uid", id(|owner| owner.uid.get())),
        ("gid", id(|owner| owner.gid.get())),
        ("from", flow.source.map_or(Json::Null, Json::text)),
        ("to", Json::text(flow.target)),
        ("expected", Json::text(&flow.expected)),
        ("seen", Json::text(&results.outcome)),
        ("tried", Json::Bool(results.is_tried())),
        ("asExpected", Json::Bool(results.is_as_expected())),
    ])
}

/// Redirected packets arrive within microseconds.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Default of Istio.
const DEFAULT_LIMIT: Duration = Duration::from_secs(5);
/// Default for rules of another program.
const LIMIT_OF_OTHERS: Duration = Duration::from_secs(30);
/// Default of Istio.
const DEFAULT_PORT: u16 = 15_002;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_another_program_are_waited_for() {
        for (words, environment, seconds) in [
            (&["--run-validation"][..], &[][..], 5),
            (&["--run-validation", "--skip-rule-apply"], &[], 30),
            (&["--run-validation", "--skip-rule-apply", "--probe-timeout", "5s"], &[], 5),
            (&["--run-validation", "--skip-rule-apply"], &[("PROBE_TIMEOUT", "7s")], 7),
        ] {
            let words = std::iter::once(&"istio-init").chain(words).map(Into::into);
            let environment =
                environment.iter().map(|(name, value)| (String::from(*name), String::from(*value)));
            let args = Args::parse(words, &environment.collect()).unwrap();
            assert_eq!(limit(&args), Duration::from_secs(seconds), "{seconds}");
        }
    }
}
