//! Watches of real API servers: after any history the snapshot is the one of the server's lists.

mod mesh;
mod stories;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use libtest_mimic::{Arguments, Trial};

use self::mesh::Mesh;

/// The stories restart the API servers that they share. They run one after the other, on the main
/// thread, with which the servers end.
fn main() -> Result<ExitCode> {
    let Some(programs) = Programs::of_api_servers_if_any("pilot-registry kubernetes")? else {
        return Ok(ExitCode::SUCCESS);
    };
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    // Versions from which a watch resumes are gone soon.
    let flags = ["--etcd-compaction-interval=1s".to_owned()];
    let servers = ApiServers::start_with(&programs, 2, &flags)?;
    let controllers = servers.controller_manager(&programs, "endpointslice-controller", &[])?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mesh = runtime.block_on(Mesh::start(servers))?;
    let shared = Arc::new(Mutex::new((runtime, mesh)));
    macro_rules! trials {
        ($($story:ident)*) => { vec![$({
            let shared = Arc::clone(&shared);
            Trial::test(stringify!($story), move || {
                let mut shared = shared.lock().map_err(|_| "an earlier story panicked")?;
                let (runtime, mesh) = &mut *shared;
                let outcome = runtime.block_on(stories::$story(mesh));
                outcome.map_err(|error| format!("{error:?}").into())
            })
        }),*] };
    }
    let trials = trials![
        service_scales_from_0_to_50_to_0
        relabelled_node_moves_its_endpoints
        impossible_port_does_not_stop_the_watch
        reused_address_belongs_to_the_new_pod
        restarted_api_server_is_caught_up_with
        restarted_store_is_caught_up_with
        random_histories_end_as_the_lists_say
        watchdog_finds_and_repairs_lost_changes
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop((shared, controllers));
    Ok(conclusion.exit_code())
}
