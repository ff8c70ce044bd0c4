//! The address and the routing that rules need, whichever backend installs the rules.

use crate::netlink::address;
use crate::netlink::error::KernelError;
use crate::netlink::route;
use crate::plan::Plan;
use crate::verify::observed::{Observed, ObservedTable};

/// Installs rules together with their address and routing. Additions come before the rules, since
/// they have no effect without rules. Removals come after. If the rules cannot be installed, the
/// additions of this run are removed.
pub(super) fn install_with<E: From<KernelError>>(
    plan: &Plan,
    install_rules: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let mut added = Added::default();
    let installed = added.add_all(plan).map_err(E::from).and_then(|()| install_rules());
    if let Err(error) = installed {
        added.remove();
        return Err(error);
    }
    route::remove_all_but(plan.tproxy_routing.as_ref())?;
    if !plan.passthrough_address {
        address::remove_passthrough()?;
    }
    Ok(())
}

/// Removes the address and the routing of earlier runs.
pub(super) fn remove() -> Result<(), KernelError> {
    route::remove_all_but(None)?;
    address::remove_passthrough()
}

/// Returns the ip(8) commands that [`remove`] is equivalent to.
pub(super) fn removal_commands() -> Result<Vec<String>, KernelError> {
    let mut commands = route::removal_commands()?;
    if address::has_passthrough()? {
        commands.push("ip -6 address delete ::6/128 dev lo".to_owned());
    }
    Ok(commands)
}

/// Adds the address and the routing of this network namespace to observed tables.
pub(super) fn observe_with(tables: Vec<ObservedTable>) -> Result<Observed, KernelError> {
    let passthrough_address = address::has_passthrough()?;
    let [tproxy_routings, routeless] = route::tproxy_routings()?;
    Ok(Observed { tables, passthrough_address, tproxy_routings, routeless })
}

/// Address and routing added by this run. Those of an earlier run are not included, since its
/// rules may still need them.
#[derive(Default)]
struct Added {
    has_passthrough: bool,
    routing: route::Added,
}

impl Added {
    fn add_all(&mut self, plan: &Plan) -> Result<(), KernelError> {
        if plan.passthrough_address {
            self.has_passthrough = address::add_passthrough()?;
        }
        match &plan.tproxy_routing {
            Some(routing) => self.routing.add(routing),
            None => Ok(()),
        }
    }

    /// Ignores errors: the caller reports the error that made the run fail, and the next run or a
    /// cleanup removes the rest.
    fn remove(self) {
        let _ = self.routing.remove();
        if self.has_passthrough {
            let _ = address::remove_passthrough();
        }
    }
}
