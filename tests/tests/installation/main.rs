//! `manifests/` on a real API server: applied with every tool, kept without drift, guarded,
//! uninstalled, and used for the migration from istiod's injector and back.
//!
//! Two tests run side by side, each with an API server and in a network namespace, in which
//! Services have their own addresses and ports.

mod apply;
mod beside_istiod;
mod chart;
mod direct_calls;
mod files;
mod fixture;
mod forbidden_requests;
mod guard;
mod injector;
mod issued;
mod migration;
mod monitoring;
mod mounted_volumes;
mod pods;
mod require_injection;
mod revisions;
mod rights;
mod starting;
mod thief;
mod token;
mod uninstall;
mod without_replicas;

use std::process::ExitCode;
use std::sync::Arc;

use e2e::failure;
use e2e::fixture_pool::FixturePool;
use libtest_mimic::{Arguments, Failed, Trial};

use fixture::Fixture;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    if arguments.list {
        return libtest_mimic::run(&arguments, trials(None)).exit_code();
    }
    arguments.test_threads = Some(SIDE_BY_SIDE);
    let fixtures = Arc::new(FixturePool::new(SIDE_BY_SIDE, Fixture::start));
    let conclusion = libtest_mimic::run(&arguments, trials(Some(&fixtures)));
    drop(fixtures);
    conclusion.exit_code()
}

/// Lists the tests in the order in which they start.
macro_rules! stories {
    ($fixtures:expr, $($module:ident :: $story:ident)*) => {
        vec![$({
            let fixtures = $fixtures.map(Arc::clone);
            let name = concat!(stringify!($module), "::", stringify!($story));
            Trial::test(name, move || {
                let fixtures = fixtures.ok_or("it was only listed")?;
                let result = fixtures.run(|fixture| {
                    fixture.clear()?;
                    $module::$story(fixture)
                });
                result.map_err(|error| Failed::from(failure::tell(name, &error)))
            })
        }),*]
    };
}

fn trials(fixtures: Option<&Arc<FixturePool<Fixture>>>) -> Vec<Trial> {
    stories![fixtures,
        apply::repeated_apply_by_every_tool_changes_nothing
        apply::removed_entry_disappears
        apply::pod_security_standard_accepts_all_our_pods
        chart::release_is_installed_upgraded_and_uninstalled
        starting::first_installation_rejects_no_pod
        guard::injector_account_can_change_only_ca_bundle
        guard::revision_has_its_own_guard_policies
        guard::installation_in_another_namespace_is_guarded
        guard::secret_with_foreign_owner_is_still_written
        guard::secret_turned_into_a_token_is_reported_and_not_written
        token::stolen_token_reaches_only_the_injectors_objects
        token::stolen_token_cannot_obtain_another_accounts_token
        token::stolen_token_cannot_store_a_config_map
        rights::every_component_permission_is_used_and_none_missing
        rights::missing_component_permission_affects_nothing_else
        require_injection::required_injection_allows_no_pod_without_sidecar
        without_replicas::pods_are_rejected_without_replica_until_webhook_removal
        direct_calls::anonymous_call_changes_nothing_and_reveals_no_secret
        monitoring::alerts_and_dashboard_use_existing_metrics
        revisions::tag_selects_its_revision
        files::pods_are_injected_while_certificates_are_replaced
        uninstall::deleting_the_manifests_leaves_nothing
        migration::migration_from_istiod_and_back_injects_each_pod_once
        beside_istiod::revision_beside_istiod_shares_its_root_alone
    ]
}

const SIDE_BY_SIDE: usize = 2;
