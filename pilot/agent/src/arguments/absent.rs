//! Flags of `proxy` whose function does not exist.

use clap::Args;

/// Flags of Istio whose function does not exist here. Each is rejected or causes a warning; see
/// [`AbsentArgs::rejected`] and [`AbsentArgs::warnings`].
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Flags without a function")]
pub struct AbsentArgs {
    /// Rejected: the bootstrap is no template [default: none]
    #[arg(long = "templateFile", value_name = "FILE")]
    pub template_file: Option<String>,
    /// Rejected: the bootstrap is generated [default: none]
    #[arg(long = "customConfigFile", value_name = "FILE")]
    pub custom_config_file: Option<String>,
    /// Warning unless it is 0: there is no security token service [default: 0]
    #[arg(long = "stsPort", value_name = "PORT")]
    pub sts_port: Option<String>,
    /// Warning: there is no security token service [default: none]
    #[arg(long = "tokenManagerPlugin", value_name = "NAME")]
    pub token_manager_plugin: Option<String>,
    /// Warning unless it is false: the program has no Go profiles [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub profiling: Option<String>,
    /// Warning unless it is Kubernetes: the agent asks no registry [default: Kubernetes]
    #[arg(long = "serviceregistry", value_name = "NAME")]
    pub service_registry: Option<String>,
    /// Warning: configuration is streamed, not polled [default: none]
    #[arg(long = "discoveryRefreshDelay", value_name = "DURATION")]
    pub discovery_refresh_delay: Option<String>,
}

impl AbsentArgs {
    /// Returns the reason for rejecting the command line, with a hint.
    pub fn rejected(&self) -> Option<String> {
        let hint = "put your fields into the ConfigMap that the annotation \
                    sidecar.istio.io/bootstrapOverride names; Envoy merges them over the bootstrap";
        if let Some(file) = &self.template_file {
            return Some(format!(
                "--templateFile {file}: templates of the bootstrap are not supported; hint: {hint}"
            ));
        }
        self.custom_config_file.as_ref().map(|file| {
            format!("--customConfigFile {file}: the bootstrap is always generated; hint: {hint}")
        })
    }

    /// Returns a warning for each flag that is set and has no effect.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(port) =
            self.sts_port.as_ref().filter(|port| !["", "0"].contains(&port.as_str()))
        {
            warnings.push(format!(
                "--stsPort {port} has no effect: the agent has no security token service, so \
                 nothing listens on this port; hint: remove global.sts.servicePort from the values"
            ));
        }
        if let Some(name) = &self.token_manager_plugin {
            warnings.push(format!(
                "--tokenManagerPlugin {name} has no effect: the agent has no security token service"
            ));
        }
        if let Some(value) = self.profiling.as_ref().filter(|value| *value != "false") {
            warnings.push(format!(
                "--profiling={value} has no effect: the program has no Go profiles; hint: use perf"
            ));
        }
        if let Some(name) = self.service_registry.as_ref().filter(|name| *name != "Kubernetes") {
            warnings.push(format!(
                "--serviceregistry {name} has no effect: the control plane reads the registries"
            ));
        }
        if let Some(delay) = &self.discovery_refresh_delay {
            warnings.push(format!(
                "--discoveryRefreshDelay {delay} has no effect: configuration is streamed"
            ));
        }
        warnings
    }
}
