//! The plugin: reads a call, carries it out within a time limit, writes one answer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::answer::{self, CniError, Code, LATEST};
use crate::call::{Call, Command};
use crate::capture_request::CaptureRequest;
use crate::decision::{AskReason, Decision, OF_AGENT, OF_ANNOTATION, decide};
use crate::network_config::{NetworkConfig, OnUnknown, version_of};
use crate::pod::PodIdentity;
use crate::question::{self, AskError};
use crate::{capture, network_namespace};

/// Runs a call. Exit codes: 0 success, 1 an error, which is on `output` as JSON.
///
/// A call ends after five seconds with an error: a runtime may hold its other pods up meanwhile.
/// Rules are one transaction, so the old ones or all new ones are in force then.
pub fn main(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    input: impl Read + Send + 'static,
    mut output: impl Write,
) -> ExitCode {
    // The plugin inherits all variables of the runtime. One that is not UTF-8 is none of CNI's.
    let environment = environment
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let (text, exit_code) = match within_limit(&environment, input) {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(failed) => (failed.error.json(&failed.version), ExitCode::FAILURE),
    };
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => exit_code,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Writes the version of the program, for people.
pub fn print_version(mut output: impl Write) -> ExitCode {
    match writeln!(output, "istio-cni {}", program_version::text()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Error of a call, and the version in which it is written.
struct FailedCall {
    version: String,
    error: CniError,
}

/// Runs the call on a thread of its own, which enters the pod's network namespace.
fn within_limit(
    environment: &BTreeMap<String, String>,
    input: impl Read + Send + 'static,
) -> Result<String, FailedCall> {
    let failed = |error| FailedCall { version: LATEST.to_owned(), error };
    let call = Call::parse(environment).map_err(failed)?;
    let pod = call.pod.as_ref().map(|pod| format!("pod {pod}: ")).unwrap_or_default();
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        // The receiver is gone after the limit, and the process with it.
        let _ = sender.send(run(&call, input));
    };
    thread::Builder::new().spawn(run).map_err(|error| {
        failed(CniError::new(Code::TryLater, format!("no thread can be started: {error}")))
    })?;
    receiver.recv_timeout(TIME_LIMIT).unwrap_or_else(|_| {
        let seconds = TIME_LIMIT.as_secs();
        let error =
            CniError::new(Code::TryLater, format!("{pod}no result within {seconds} seconds"));
        Err(failed(error.hint(SLOW)))
    })
}

fn run(call: &Call, input: impl Read) -> Result<String, FailedCall> {
    let failed = |error| FailedCall { version: LATEST.to_owned(), error };
    match call.command {
        // Rules end with the namespace, and nothing is kept on the node. A node whose agent is
        // away stays ready: its pods start without it.
        Command::Del | Command::Gc | Command::Status => Ok(String::new()),
        Command::Version => Ok(answer::versions()),
        Command::Add | Command::Check => {
            let of_pod = |error: CniError| match &call.pod {
                Some(pod) => error.of_pod(pod),
                None => error,
            };
            let input = read(input).map_err(|error| failed(of_pod(error)))?;
            let version = version_of(&input);
            answer(call, &input, &version)
                .map_err(|error| FailedCall { version, error: of_pod(error) })
        }
    }
}

/// Answers ADD or CHECK.
fn answer(call: &Call, input: &[u8], version: &str) -> Result<String, CniError> {
    let config = NetworkConfig::parse(input)?;
    if let Some(captured) = captured_pod(&config, call.pod.as_ref())? {
        capture(call, &config, &captured)?;
    }
    Ok(match call.command {
        Command::Add => answer::add(version, config.previous_result.as_deref()),
        _ => String::new(),
    })
}

fn read(input: impl Read) -> Result<Vec<u8>, CniError> {
    let mut bytes = Vec::new();
    input.take(MOST_INPUT + 1).read_to_end(&mut bytes).map_err(|error| {
        CniError::new(Code::Input, format!("standard input cannot be read: {error}"))
    })?;
    if bytes.len() as u64 > MOST_INPUT {
        let message = format!("standard input has more than {MOST_INPUT} bytes");
        return Err(CniError::new(Code::Input, message).hint(SHORTER));
    }
    Ok(bytes)
}

/// A pod whose traffic is captured.
struct CapturedPod<'a> {
    pod: &'a PodIdentity,
    request: CaptureRequest,
    /// Origin of the request, for messages.
    origin: &'static str,
}

/// Returns the pod and its capture request; `None` if it is left as it is.
fn captured_pod<'a>(
    config: &NetworkConfig,
    pod: Option<&'a PodIdentity>,
) -> Result<Option<CapturedPod<'a>>, CniError> {
    let decision = decide(config, pod)?;
    let Some(pod) = pod else { return Ok(None) };
    let (request, origin) = match decision {
        Decision::Pass(_) => return Ok(None),
        Decision::Capture(request) => (Some(request), OF_ANNOTATION),
        Decision::Ask(reason) => match question::ask(&config.run_dir, pod) {
            Err(AskError::Undecided(_))
                if reason == AskReason::NoAnnotations && config.on_unknown == OnUnknown::Pass =>
            {
                return Ok(None);
            }
            answer => (answer?, OF_AGENT),
        },
    };
    Ok(request.map(|request| CapturedPod { pod, request, origin }))
}

/// Programs or checks the capture in the pod's network namespace, in which this thread stays.
fn capture(
    call: &Call,
    config: &NetworkConfig,
    captured: &CapturedPod<'_>,
) -> Result<(), CniError> {
    let CapturedPod { pod, request, origin } = captured;
    if let Some(namespace) = &call.network_namespace {
        enter(namespace)?;
    }
    let plan = capture::plan(pod, origin, request, config.name_servers()?)?;
    match call.command {
        Command::Check => capture::check(pod, &plan),
        _ => capture::program(pod, &plan),
    }
}

/// Moves this thread into the network namespace of `CNI_NETNS`.
fn enter(namespace: &Path) -> Result<(), CniError> {
    network_namespace::enter(namespace).map_err(|error| {
        let message = format!("CNI_NETNS {}: {error}", namespace.display());
        let hint = error.hint();
        let error = CniError::new(Code::NetworkNamespace, message);
        hint.into_iter().fold(error, CniError::hint)
    })
}

const SHORTER: &str =
    "the runtime passes the network configuration with the pod's annotations; shorten these";
const SLOW: &str = "the kubelet tries again; see the load of this node, and its pod istio-cni-node";
/// Time limit of a call.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Longest standard input: the annotations of a pod have at most 256 KiB.
const MOST_INPUT: u64 = 4 * 1024 * 1024;
