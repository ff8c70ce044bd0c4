//! Capture of a pod in its network namespace, by the library of `istio-init`.

use std::net::IpAddr;

use istio_init::backend::nftables;
use istio_init::netlink::error::KernelError;
use istio_init::netlink::netns_lock::Lock;
use istio_init::netlink::{address, host_namespace, link};
use istio_init::plan::Plan;
use istio_init::verify;

use crate::answer::{CniError, Code};
use crate::capture_request::{CaptureRequest, NetworkFacts};
use crate::decision::invalid_request;
use crate::node_hint;
use crate::pod::PodIdentity;

/// Plans the capture of a pod in this network namespace. `origin` is where the request comes from.
pub fn plan(
    pod: &PodIdentity,
    origin: &str,
    request: &CaptureRequest,
    name_servers: Option<Vec<IpAddr>>,
) -> Result<Plan, CniError> {
    let addresses = address::addresses().map_err(|error| rejected(pod, &error))?;
    let host = host_namespace::host_evidence().map_err(|error| first_line(&error));
    let facts = NetworkFacts { addresses, name_servers, host };
    request.plan(&facts).map_err(|error| invalid_request(pod, origin, &error))
}

/// Programs the plan in this network namespace in one transaction. Equal rules stay untouched.
///
/// The loopback interface may still be down, because a runtime attaches it at the same time; the
/// routes of TPROXY need it up.
pub fn program(pod: &PodIdentity, plan: &Plan) -> Result<(), CniError> {
    let apply = || {
        link::set_up("lo")?;
        let _lock = Lock::take(|_| {})?;
        nftables::apply(plan)
    };
    apply().map_err(|error| rejected(pod, &error))
}

/// Compares the rules of this network namespace with the plan.
pub fn check(pod: &PodIdentity, plan: &Plan) -> Result<(), CniError> {
    let observed = nftables::observe().map_err(|error| rejected(pod, &error))?;
    let comparison = verify::compare(plan, &observed);
    if comparison.is_equal() {
        return Ok(());
    }
    let (missing, foreign) = comparison.counts();
    let message = format!(
        "pod {pod}: the rules differ from the plan: {missing} lines are missing, {foreign} are \
         not planned"
    );
    Err(CniError::new(Code::Drift, message).hint("create the pod anew"))
}

fn rejected(pod: &PodIdentity, error: &KernelError) -> CniError {
    let text = error.to_string();
    let (what, hint) = node_hint::split(&text);
    let error = CniError::new(Code::Capture, format!("pod {pod}: capture of its traffic: {what}"));
    hint.into_iter().fold(error, CniError::hint)
}

fn first_line(error: &KernelError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
