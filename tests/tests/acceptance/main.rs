//! Invariants of certificates and admission: two API servers on one store, real injectors with the
//! permissions and the configuration of `manifests/`, pods created all the time.
//!
//! Each case prints its counts. Two cases run side by side, each with API servers and in a network
//! namespace, in which Services have their own addresses and ports. `make soak` runs them one after
//! the other with long times, and further ones.

mod access;
mod balancer;
mod bundle;
mod caller;
mod client_certificate;
mod clock;
mod excluded_pods;
mod files;
mod fixture;
mod guard;
mod load;
mod mount;
mod pace;
mod pod_security;
mod replica;
mod rights;
mod rotation;
mod secret;
mod server;
mod shared;
mod starting;
mod upgrade;
mod wrong_clock;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use e2e::failure;
use e2e::fixture_pool::FixturePool;
use libtest_mimic::{Arguments, Failed, Trial};

use fixture::Fixture;
use pace::Pace;
use shared::Shared;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    let pace = Pace::of_environment()?;
    if arguments.list {
        return Ok(libtest_mimic::run(&arguments, trials(None)).exit_code());
    }
    arguments.test_threads = Some(pace.side_by_side);
    let pool = Arc::new(FixturePool::new(pace.side_by_side, move || Shared::start(pace)));
    let conclusion = libtest_mimic::run(&arguments, trials(Some(&pool)));
    drop(pool);
    Ok(conclusion.exit_code())
}

/// Lists the cases in the order in which they start, the longest first.
macro_rules! cases {
    ($pool:expr, $($module:ident :: $case:ident)*) => {
        vec![$({
            let pool = $pool.map(Arc::clone);
            let name = concat!(stringify!($module), "::", stringify!($case));
            Trial::test(name, move || {
                let pool = pool.ok_or("it was only listed")?;
                let played = pool.run(|shared| shared.runtime().block_on(async {
                    let mut fixture = Fixture::set(shared, stringify!($case)).await?;
                    $module::$case(&mut fixture).await.map_err(|error| fixture.explain(&error))
                }));
                played.map_err(|error| Failed::from(failure::tell(name, &error)))
            })
        }),*]
    };
}

fn trials(pool: Option<&Arc<FixturePool<Shared>>>) -> Vec<Trial> {
    cases![pool,
        rotation::consecutive_rotations_fail_no_admission
        wrong_clock::clock_half_an_hour_off_fails_no_admission
        rotation::replica_killed_during_a_rotation_fails_no_admission
        rotation::hanging_api_server_during_a_rotation_is_harmless
        rights::missing_permission_affects_nothing_else
        clock::replica_frozen_past_its_leaf_expiry_serves_at_once
        starting::cold_start_serves_once_the_configuration_is_applied
        starting::five_simultaneous_replicas_create_one_ca
        secret::deleted_or_damaged_secret_is_restored
        secret::expired_ca_is_replaced_at_startup
        bundle::wiped_bundle_is_repaired_by_one_write
        bundle::continuous_overwriting_does_not_cause_endless_writes
        bundle::entries_of_another_service_are_not_changed
        bundle::only_bundles_are_owned_and_every_apply_keeps_them
        bundle::recreated_configuration_is_never_incomplete
        guard::guard_policy_denies_a_stolen_token_but_not_the_injector
        files::file_replacement_under_load_fails_no_handshake
        upgrade::secret_without_annotations_is_adopted_with_its_ca
        upgrade::foreign_secret_becomes_usable_and_keeps_its_data
        wrong_clock::clock_two_hours_off_creates_no_ca
        rights::every_permission_is_used_and_none_is_missing
        server::reviews_are_fast_and_none_fails
        server::slow_idle_and_invalid_clients_affect_no_others
        pod_security::pod_security_rejection_includes_our_warnings
        server::rolling_restart_fails_no_admission
        client_certificate::only_api_servers_with_a_valid_certificate_are_served
        excluded_pods::cluster_can_recover_without_any_replica
    ]
}
