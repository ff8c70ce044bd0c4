//! `manifests/` on a real API server: applied with every tool, kept without drift, guarded,
//! uninstalled, and used for the migration from istiod's injector and back.
//!
//! The tests run one after the other on the main thread, which the programs' lives depend on. They
//! run in a network namespace of this process, in which Services have their own addresses and
//! ports.

mod anybody;
mod apply;
mod files;
mod guard;
mod injector;
mod issued;
mod leftovers;
mod migration;
mod monitoring;
mod mounted;
mod pods;
mod required;
mod revisions;
mod rights;
mod starting;
mod token;
mod uninstall;
mod unreached;
mod world;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use e2e::failure;
use e2e::netns::Namespace;
use libtest_mimic::{Arguments, Failed, Trial};

use world::World;

fn main() -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    if arguments.list {
        return Ok(libtest_mimic::run(&arguments, trials(None)).exit_code());
    }
    arguments.test_threads = Some(1);
    let network = Namespace::create()?;
    network.ip(&format!("address add {SERVICES} dev lo"))?;
    network.enter()?;
    let world = Arc::new(World::start()?);
    let conclusion = libtest_mimic::run(&arguments, trials(Some(&world)));
    drop(world);
    Ok(conclusion.exit_code())
}

/// Lists the tests in the order in which they run.
macro_rules! stories {
    ($world:expr, $($module:ident :: $story:ident)*) => {
        vec![$({
            let world = $world.map(Arc::clone);
            let name = concat!(stringify!($module), "::", stringify!($story));
            Trial::test(name, move || {
                let world = world.ok_or("it was only listed")?;
                let told = world.clear().and_then(|()| $module::$story(&world));
                told.map_err(|error| Failed::from(failure::tell(name, &error)))
            })
        }),*]
    };
}

fn trials(world: Option<&Arc<World>>) -> Vec<Trial> {
    stories![world,
        apply::what_is_applied_again_and_by_other_means_stays_as_it_is
        apply::an_entry_that_is_wanted_no_more_goes
        apply::the_pod_security_standard_accepts_every_pod_of_ours
        starting::a_first_installation_refuses_no_pod_of_labelled_namespaces
        guard::the_injectors_account_may_change_nothing_but_ca_bundle
        guard::a_revision_is_guarded_by_policies_of_its_own
        guard::an_installation_in_another_namespace_is_guarded
        guard::a_secret_that_others_own_is_written_all_the_same
        guard::a_secret_that_became_a_token_is_left_alone_and_told_of
        token::it_reaches_nothing_but_its_own
        token::it_does_not_become_another_accounts
        token::it_keeps_no_config_map_that_it_creates
        rights::every_right_of_a_component_is_used_and_none_is_missing
        rights::without_a_right_of_a_component_the_rest_goes_on
        required::namespaces_that_require_injection_have_no_pod_without_a_sidecar
        unreached::without_a_replica_pods_are_refused_until_the_webhook_is_taken_away
        anybody::a_call_of_anybody_changes_nothing_and_tells_no_secret
        monitoring::alerts_and_dashboard_ask_for_metrics_that_exist
        revisions::a_tag_leads_to_the_revision_it_points_at
        files::pods_are_injected_while_mounted_certificates_are_replaced
        uninstall::deleting_what_was_applied_leaves_nothing
        migration::every_pod_is_injected_once_on_the_way_from_istiod_and_back
    ]
}

/// The address range of Services.
const SERVICES: &str = "10.96.0.0/24";
