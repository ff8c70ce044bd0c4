//! Warnings about inputs without effect.

use super::control_plane::LARGEST_GRACE_RATIO;
use super::inputs::Inputs;
use crate::environment::variables::{
    DISABLE_ENVOY, GRPC_XDS_BOOTSTRAP, INSTANCE_IP, POD_NAME, POD_NAMESPACE,
    SECRET_GRACE_PERIOD_RATIO, SERVICE_ACCOUNT,
};

/// Returns warnings about flags and variables that another one overrides or turns off.
pub(super) fn warnings(inputs: &Inputs) -> Vec<String> {
    let Inputs { arguments, environment, .. } = inputs;
    let mut warnings = overridden_by_variables(inputs);
    if arguments.domain.as_deref() == Some("") {
        warnings.push(
            "--domain is empty and has no effect: NAMESPACE.svc.cluster.local applies".to_owned(),
        );
    }
    if environment.get(GRPC_XDS_BOOTSTRAP).is_some()
        && environment.switch(DISABLE_ENVOY) == Ok(false)
    {
        warnings.push(
            "GRPC_XDS_BOOTSTRAP has no effect, since Envoy runs; hint: set DISABLE_ENVOY=true for \
             an application that speaks xDS itself"
                .to_owned(),
        );
    }
    let ratio = environment.text(SECRET_GRACE_PERIOD_RATIO);
    if ratio.parse().is_ok_and(|ratio: f64| ratio > LARGEST_GRACE_RATIO) {
        warnings.push(format!(
            "SECRET_GRACE_PERIOD_RATIO={ratio} counts as {LARGEST_GRACE_RATIO}: a certificate is used \
             for a tenth of its lifetime at least"
        ));
    }
    if environment.get(SERVICE_ACCOUNT).is_none() {
        warnings.push(
            "SERVICE_ACCOUNT is not set, so no workload certificate is requested; hint: set it in \
             the container's environment by fieldRef spec.serviceAccountName"
                .to_owned(),
        );
    }
    warnings
}

fn overridden_by_variables(inputs: &Inputs) -> Vec<String> {
    let Inputs { arguments, environment, .. } = inputs;
    let id = arguments.classic.id.as_deref().and_then(|id| id.rsplit_once('.')).unzip();
    let flags = [
        ("--ip", arguments.classic.ip.as_deref(), INSTANCE_IP),
        ("--id", id.0, POD_NAME),
        ("--id", id.1, POD_NAMESPACE),
    ];
    let overridden = flags.into_iter().filter_map(|(flag, given, variable)| {
        let (given, value) = (given?, environment.get(variable)?);
        let name = variable.name;
        (given != value).then(|| format!("{flag}: {given} has no effect: {name} is {value}"))
    });
    overridden.collect()
}
