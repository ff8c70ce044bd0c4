//! Certificates of workloads, signed for the tokens of a real API server.

mod control_plane;
mod pod;
mod stories;

use std::process::ExitCode;

use anyhow::Result;
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use libtest_mimic::{Arguments, Trial};

use self::control_plane::ControlPlane;

/// The stories share an API server and a control plane.
fn main() -> Result<ExitCode> {
    let Some(programs) = Programs::of_api_servers_if_any("pilot-discovery certificates")? else {
        return Ok(ExitCode::SUCCESS);
    };
    let arguments = Arguments::from_args();
    let servers = ApiServers::start(&programs, 1)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let shared: &'static ControlPlane =
        Box::leak(Box::new(runtime.block_on(ControlPlane::start(&servers))?));
    let handle = runtime.handle();
    macro_rules! trials {
        ($($story:ident)*) => { vec![$({
            let handle = handle.clone();
            Trial::test(stringify!($story), move || {
                let outcome = handle.block_on(stories::$story(shared));
                outcome.map_err(|error| format!("{error:?}").into())
            })
        }),*] };
    }
    let trials = trials![
        agent_gets_a_certificate_by_its_projected_token
        certificate_authenticates_but_is_signed_for_tokens_only
        requested_names_and_usages_are_ignored
        unusable_signing_requests_are_invalid_arguments
        tokens_of_others_are_unauthenticated
        token_of_a_deleted_pod_is_rejected
        requested_lifetime_is_bounded
        stream_of_a_node_of_another_workload_is_refused
        debug_pages_are_for_the_control_planes_namespace
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    runtime.shutdown_background();
    drop(servers);
    Ok(conclusion.exit_code())
}
