//! Invariants of certificates and admission: two API servers on one store, real injectors with the
//! permissions and the configuration of `manifests/`, pods created all the time.
//!
//! Each case prints its counts. The cases run one after the other on the main thread, which the
//! programs' lives depend on. They run in a network namespace of this process, in which Services
//! have their own addresses and ports. `make soak` runs the same cases with long times.

mod access;
mod balancer;
mod bundle;
mod caller;
mod client_certificate;
mod clock;
mod files;
mod guard;
mod load;
mod mount;
mod pace;
mod replica;
mod rights;
mod rotation;
mod scope;
mod secret;
mod server;
mod stage;
mod standard;
mod starting;
mod upgrade;
mod world;
mod wrong_clock;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use e2e::failure;
use libtest_mimic::{Arguments, Failed, Trial};

use pace::Pace;
use stage::Stage;
use world::World;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    if arguments.list {
        return Ok(libtest_mimic::run(&arguments, trials(None)).exit_code());
    }
    if std::env::var_os(IN_NAMESPACE).is_none() {
        bail!("{}", enter_namespace());
    }
    for command in
        [["link", "set", "lo", "up"].as_slice(), &["address", "add", SERVICES, "dev", "lo"]]
    {
        let status = Command::new("ip").args(command).status().context("starting ip")?;
        ensure!(status.success(), "ip {command:?}: {status}");
    }
    arguments.test_threads = Some(1);
    let world = Arc::new(World::start(Pace::of_environment()?)?);
    let conclusion = libtest_mimic::run(&arguments, trials(Some(&world)));
    drop(world);
    Ok(conclusion.exit_code())
}

/// Re-executes this process in a network namespace of its own. Returns the error if it could not.
fn enter_namespace() -> String {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.to_string(),
    };
    let mut command = Command::new("unshare");
    command.args(["--net", "--"]).arg(program).args(std::env::args_os().skip(1));
    format!("unshare: {}", command.env(IN_NAMESPACE, "1").exec())
}

/// Lists the cases in the order in which they run.
macro_rules! cases {
    ($world:expr, $($module:ident :: $case:ident)*) => {
        vec![$({
            let world = $world.map(Arc::clone);
            let name = concat!(stringify!($module), "::", stringify!($case));
            Trial::test(name, move || {
                let world = world.ok_or("it was only listed")?;
                let played = world.runtime().block_on(async {
                    let mut stage = Stage::set(&world, stringify!($case)).await?;
                    $module::$case(&mut stage).await.map_err(|error| stage.explain(&error))
                });
                played.map_err(|error| Failed::from(failure::tell(name, &error)))
            })
        }),*]
    };
}

fn trials(world: Option<&Arc<World>>) -> Vec<Trial> {
    cases![world,
        starting::a_cold_start_serves_as_soon_as_the_configuration_is_applied
        starting::five_replicas_at_once_make_one_ca
        rotation::rotations_one_after_the_other_fail_no_admission
        rotation::a_replica_that_is_killed_at_any_step_of_a_rotation_does_no_harm
        rotation::an_api_server_that_hangs_meanwhile_does_no_harm
        secret::a_deleted_emptied_damaged_or_foreign_secret_comes_back
        secret::an_expired_ca_is_found_at_the_start
        bundle::a_bundle_that_is_wiped_is_repaired_by_one_write
        bundle::somebody_who_keeps_overwriting_a_bundle_is_not_answered_for_ever
        bundle::an_installation_leaves_the_entries_of_another_service_alone
        bundle::nothing_but_bundles_is_owned_and_no_apply_takes_them_away
        bundle::a_configuration_that_is_deleted_and_created_anew_is_never_half_an_object
        guard::the_guard_policy_stops_a_thief_and_not_the_injector
        files::files_that_are_swapped_while_clients_connect_fail_no_handshake
        upgrade::a_secret_without_annotations_is_taken_over_with_its_ca
        upgrade::a_secret_of_another_program_is_made_usable_and_loses_nothing
        clock::a_replica_that_was_frozen_for_longer_than_its_leaf_lives_serves_at_once
        wrong_clock::a_clock_that_is_half_an_hour_off_fails_no_admission
        wrong_clock::by_a_clock_that_is_two_hours_off_no_ca_is_made
        rights::every_right_is_used_and_none_is_missing
        rights::without_a_right_the_rest_goes_on
        server::reviews_come_quickly_and_none_fails
        server::slow_idle_and_wrong_clients_are_no_harm_to_others
        standard::a_pod_that_the_standard_refuses_comes_back_with_what_the_injector_said
        server::a_rolling_restart_fails_no_admission
        client_certificate::only_api_servers_with_the_right_certificate_are_served
        scope::without_any_replica_the_cluster_can_still_repair_itself
    ]
}

const IN_NAMESPACE: &str = "OUTRIGGER_ACCEPTANCE_IN_NAMESPACE";
/// This namespace has every address of the range.
const SERVICES: &str = "10.96.0.0/24";
