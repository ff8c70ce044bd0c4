//! Warnings about flags and variables that have no effect.

use crate::args::Args;
use crate::args::env::Variable;
use crate::args::flags::Flag;
use crate::types::input_error::Escaped;

/// Returns a warning for each flag and variable without effect.
pub(super) fn warnings(args: &Args) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(port) = args.variable(Variable::EnvoyPort)
        && port != args.flag(Flag::EnvoyPort).text
    {
        let (variable, flag, port) = (Variable::EnvoyPort, Flag::EnvoyPort, Escaped(port));
        warnings.push(format!("{variable}: `{port}` has no effect; use {flag}"));
    }
    if args.is_on(Flag::DryRun)
        && args.variable(Variable::DryRunFilePath).is_some_and(|path| !path.is_empty())
    {
        let variable = Variable::DryRunFilePath;
        warnings.push(format!("{variable}: has no effect; the dry run prints on stdout"));
    }
    let typed = args.flag(Flag::NetworkNamespace);
    if !typed.text.is_empty() {
        warnings.push(format!(
            "{}: has no effect: istio-init works in the network namespace it runs in",
            typed.source
        ));
    }
    if args.variable(Variable::DisableRedirectionOnLocalLoopback).is_some() {
        warnings.push(format!(
            "{}: has no effect any more; to capture loopback, name its range in {}",
            Variable::DisableRedirectionOnLocalLoopback,
            Flag::ServiceCidr
        ));
    }
    warnings
}
