//! The agent with Istio's own control plane, from the directory in `ISTIO_PROGRAMS`: istiod on an
//! API server without a node.
//!
//! The cases run one after the other on the main thread, which the programs' lives depend on.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

mod agent;
mod certificates;
#[path = "../relay/client.rs"]
mod client;
mod debug_port;
mod fixture;
mod node;
#[path = "../secrets/proxy.rs"]
mod proxy;
mod recorder;
mod relayed;
mod restarts;
#[expect(dead_code, reason = "the tests of secrets use more of it")]
#[path = "../secrets/sds_client.rs"]
mod sds_client;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use e2e::failure;
use libtest_mimic::{Arguments, Failed, Trial};

use fixture::Fixture;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    if arguments.list {
        return Ok(libtest_mimic::run(&arguments, trials(None)).exit_code());
    }
    let Some(fixture) = Fixture::start()? else {
        return Ok(ExitCode::SUCCESS);
    };
    let fixture = Arc::new(fixture);
    let conclusion = libtest_mimic::run(&arguments, trials(Some(&fixture)));
    drop(fixture);
    Ok(conclusion.exit_code())
}

/// Lists the cases in the order in which they run.
macro_rules! cases {
    ($fixture:expr, $($module:ident :: $case:ident)*) => {
        vec![$({
            let fixture = $fixture.map(Arc::clone);
            let name = concat!(stringify!($module), "::", stringify!($case));
            Trial::test(name, move || run(name, fixture.as_deref(), $module::$case))
        }),*]
    };
}

fn trials(fixture: Option<&Arc<Fixture>>) -> Vec<Trial> {
    cases![fixture,
        certificates::envoys_use_rotated_certificates_of_istiod
        certificates::rejected_token_is_replaced
        relayed::delta_stream_is_relayed_byte_for_byte
        relayed::sotw_stream_is_relayed_byte_for_byte
        relayed::name_table_has_every_service
        relayed::additional_roots_of_the_mesh_arrive
        debug_port::istiod_answers_or_denies
        relayed::rejected_token_is_reported_to_envoy
        restarts::agents_reconnect_after_ten_kills_of_istiod
    ]
}

fn run(
    name: &str,
    fixture: Option<&Fixture>,
    case: fn(&Fixture) -> Result<()>,
) -> Result<(), Failed> {
    let Some(fixture) = fixture else {
        return Err("a list of cases has no fixture".into());
    };
    case(fixture).map_err(|error| failure::tell(name, &error).into())
}
