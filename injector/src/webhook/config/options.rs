//! Options of the process, derived from its flags and from whether it runs in a pod.

use std::path::PathBuf;

use webhook_certs::certificate_files::CertificateFiles;
use webhook_certs::cli::rotation_args::SignerError;
use webhook_certs::cluster;
use webhook_certs::serving::client_authority::ClientNames;
use webhook_certs::serving::tls_parameters::{
    CipherSuiteError, CipherSuites, TlsParameters, TlsParametersError,
};

use super::args::{Args, TlsArgs};
use crate::kubernetes::native_sidecars::NativeSidecars;
use crate::settings::Process;
use crate::sources::config_maps::ConfigMaps;
use crate::sources::files::Files;
use crate::webhook::cluster_state::Questions;
use crate::webhook::server::limits::Limits;
use crate::webhook::tls::client_ca::ClientFile;

/// Sources of configuration and certificate, and restrictions of TLS.
///
/// A process uses a cluster only with `--kubeconfig`, or as a pod with a service account.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Source of the configuration.
    pub configuration: ConfigurationSource,
    /// Source of the certificate.
    pub certificate: CertificateSource,
    /// Cluster watches; `None` without a cluster.
    pub cluster_watch: Option<(ClusterAccess, Questions)>,
    /// Restrictions of TLS.
    pub tls: TlsParameters,
    /// Allowed clients; `None` allows every client.
    pub clients: Option<ClientFile>,
}

/// Source of the configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ConfigurationSource {
    /// Files, and the built-in default for each document without a file.
    Files(Files),
    /// The control plane's `ConfigMap`s.
    ConfigMaps(ClusterAccess, ConfigMaps),
}

/// Source of the certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CertificateSource {
    /// Files maintained outside of this process.
    Files(CertificateFiles),
    /// The cluster: the CA in a Secret, or a signer of `CertificateSigningRequest`s.
    Cluster(ClusterAccess, Box<cluster::Options>),
    /// A CA and a leaf created at the start and kept in memory.
    InMemory {
        /// Names of the leaf besides this host's.
        names: Vec<String>,
        /// File to write the CA certificate to.
        write_ca: Option<PathBuf>,
    },
}

/// Access to the cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClusterAccess {
    /// Service account of the pod.
    Pod,
    /// Kubeconfig file.
    Kubeconfig(PathBuf),
}

impl Options {
    /// Derives the options. `in_pod` is true if the process runs as a pod with a service account.
    pub fn new(args: &Args, in_pod: bool) -> Result<Self, OptionsError> {
        let access = match &args.kubeconfig {
            Some(path) => Some(ClusterAccess::Kubeconfig(path.clone())),
            None => in_pod.then_some(ClusterAccess::Pod),
        };
        let configuration = configuration(args, access.clone());
        let cluster_watch = access.clone().map(|access| (access, questions(args)));
        let certificate = certificate(args, access)?;
        if args.certificate.write_ca.is_some()
            && !matches!(certificate, CertificateSource::InMemory { .. })
        {
            return Err(OptionsError::WriteCa);
        }
        let source = match &certificate {
            CertificateSource::Cluster(..) => None,
            CertificateSource::Files(_) => Some("it comes from --tlsCertFile"),
            CertificateSource::InMemory { .. } => Some("there is no cluster"),
        };
        if let (Some(reason), Some(flag)) = (source, args.upkeep.only_in_cluster()) {
            return Err(OptionsError::NoUpkeep { flag, reason });
        }
        let tls = tls(&args.tls)?;
        let clients = clients(&args.tls)?;
        Ok(Self { configuration, certificate, cluster_watch, tls, clients })
    }
}

/// Flags that contradict each other, or the environment of the process.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// A cipher suite is unknown.
    #[error("--tls-cipher-suites: {0}")]
    CipherSuite(#[source] CipherSuiteError),
    /// A cipher suite can never be negotiated.
    #[error("--tls-cipher-suites, --tls-min-version: {0}")]
    Tls(#[source] TlsParametersError),
    /// A client name is empty, which no certificate can match.
    #[error("--client-allowed-names: a name is empty; hint: separate names by commas")]
    ClientName,
    /// This process creates no CA that it could write. In a cluster, the CA is already in a Secret
    /// and in the webhook configuration.
    #[error(
        "--writeCaFile: this process creates no CA, because the certificate comes from the cluster; \
         hint: use it outside of a cluster and without --kubeconfig"
    )]
    WriteCa,
    /// The signer's flags contradict each other.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// A flag has no effect.
    #[error(
        "{flag}: this process maintains no certificate, because {reason}; \
         hint: use it in a pod or with --kubeconfig, without --tlsCertFile"
    )]
    NoUpkeep {
        /// The flag.
        flag: &'static str,
        /// Source of the certificate.
        reason: &'static str,
    },
}

/// Returns the process-wide values of the settings.
pub(in crate::webhook) fn process(args: &Args) -> Process {
    Process {
        revision: args.revision.clone(),
        native_sidecars: args.configuration.native_sidecars.by_default(),
        compliance_policy: args.configuration.compliance_policy.clone(),
        openshift: is_openshift(args),
    }
}

fn questions(args: &Args) -> Questions {
    Questions {
        nodes: args.configuration.native_sidecars == NativeSidecars::Auto,
        namespaces: is_openshift(args),
        revision: process(args).revision_name().to_owned(),
    }
}

fn is_openshift(args: &Args) -> bool {
    args.platform == "openshift"
}

fn tls(args: &TlsArgs) -> Result<TlsParameters, OptionsError> {
    let names = args.cipher_suites.iter().map(|name| name.trim());
    let suites = CipherSuites::named(names).map_err(OptionsError::CipherSuite)?;
    TlsParameters::new(args.minimum_version, suites).map_err(OptionsError::Tls)
}

fn clients(args: &TlsArgs) -> Result<Option<ClientFile>, OptionsError> {
    let Some(path) = args.client_authority.clone() else { return Ok(None) };
    let names = args.client_names.iter().map(|name| name.trim().to_owned()).collect();
    let names = ClientNames::new(names).ok_or(OptionsError::ClientName)?;
    Ok(Some(ClientFile { path, names }))
}

/// Returns the webhook configurations that call this injector.
pub(in crate::webhook) fn webhook_configurations(args: &Args) -> Vec<String> {
    let named = &args.certificate.webhook_configurations;
    if named.is_empty() {
        return vec![cluster::Options::default_configuration(&args.revision)];
    }
    named.clone()
}

/// Returns the limits of the webhook's listener.
pub(in crate::webhook) fn limits(args: &Args) -> Limits {
    let args = &args.limits;
    Limits {
        connections: args.connections as usize,
        handshake: args.handshake,
        head: args.head,
        review: args.review + Limits::default().reply,
        idle: args.idle,
        ..Limits::default()
    }
}

fn configuration(args: &Args, access: Option<ClusterAccess>) -> ConfigurationSource {
    let files = Files {
        inject_config: args.configuration.inject_config.clone(),
        values: args.configuration.values.clone(),
        mesh_config: args.configuration.mesh_config.clone(),
    };
    match access {
        Some(access) if files == Files::default() => {
            let maps = ConfigMaps::for_revision(&args.namespace, &args.revision);
            ConfigurationSource::ConfigMaps(access, maps)
        }
        _ => ConfigurationSource::Files(files),
    }
}

fn certificate(
    args: &Args,
    access: Option<ClusterAccess>,
) -> Result<CertificateSource, OptionsError> {
    let certificate = &args.certificate;
    let signer = args.upkeep.signer()?;
    if let (Some(chain), Some(key)) = (&certificate.certificate, &certificate.key) {
        let (certificate, key) = (chain.clone(), key.clone());
        return Ok(CertificateSource::Files(CertificateFiles { certificate, key }));
    }
    let Some(access) = access else {
        return Ok(CertificateSource::InMemory {
            names: certificate.extra_names.clone(),
            write_ca: certificate.write_ca.clone(),
        });
    };
    let defaults = cluster::Options::default();
    let options = cluster::Options {
        // Each revision has a CA of its own. Two revisions with a common CA would each publish it
        // in their own configurations only, and start using the next CA as soon as these contain
        // it.
        install: cluster::Options::for_revision(&defaults.install, &args.revision),
        secret_name: cluster::Options::for_revision(&defaults.secret_name, &args.revision),
        namespace: args.namespace.clone(),
        service: certificate.service.clone(),
        cluster_domain: certificate.cluster_domain.clone(),
        extra_names: certificate.extra_names.clone(),
        revision: args.revision.clone(),
        webhook_configurations: webhook_configurations(args),
        root_config_maps: false,
        parameters: args.upkeep.parameters(),
        signer,
    };
    Ok(CertificateSource::Cluster(access, Box::new(options)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn options(flags: &str, in_pod: bool) -> Result<Options, OptionsError> {
        let flags = flags.split_whitespace();
        let args = Args::parse_from(std::iter::once("sidecar-injector").chain(flags));
        Options::new(&args, in_pod)
    }

    #[test]
    fn no_cluster_is_used_without_kubeconfig_or_pod() {
        let options = options("", false).unwrap();
        assert_eq!(options.configuration, ConfigurationSource::Files(Files::default()));
        assert!(matches!(options.certificate, CertificateSource::InMemory { .. }));
    }

    #[test]
    fn in_a_pod_everything_comes_from_the_cluster() {
        let options = options("--revision canary --namespace mesh", true).unwrap();
        let maps = ConfigMaps::for_revision("mesh", "canary");
        assert_eq!(
            options.configuration,
            ConfigurationSource::ConfigMaps(ClusterAccess::Pod, maps)
        );
        let CertificateSource::Cluster(ClusterAccess::Pod, certificate) = options.certificate
        else {
            panic!()
        };
        assert_eq!(certificate.webhook_configurations, ["istio-sidecar-injector-canary"]);
        assert_eq!(certificate.secret_name, "sidecar-injector-ca-canary");
        assert_eq!(certificate.field_manager(), "sidecar-injector-canary-webhook-certs");
        assert_eq!(
            (certificate.namespace.as_str(), certificate.revision.as_str()),
            ("mesh", "canary")
        );
    }

    #[test]
    fn named_webhook_configurations_are_maintained() {
        let flags = "--webhook-configuration a --webhook-configuration istio-revision-tag-b";
        let CertificateSource::Cluster(_, certificate) = options(flags, true).unwrap().certificate
        else {
            panic!()
        };
        assert_eq!(certificate.webhook_configurations, ["a", "istio-revision-tag-b"]);
        assert_eq!(certificate.secret_name, "sidecar-injector-ca");
    }

    #[test]
    fn named_files_replace_the_cluster() {
        let files = "--valuesFile v --tlsCertFile c --tlsKeyFile k";
        let both = options(files, true).unwrap();
        assert!(matches!(both.configuration, ConfigurationSource::Files(_)));
        assert!(matches!(both.certificate, CertificateSource::Files(_)));
        let one = options("--valuesFile v --kubeconfig k", false).unwrap();
        let kubeconfig = ClusterAccess::Kubeconfig("k".into());
        assert!(
            matches!(one.certificate, CertificateSource::Cluster(access, _) if access == kubeconfig)
        );
    }

    #[test]
    fn cluster_is_queried_only_for_needed_resources() {
        let questions = |flags| options(flags, true).unwrap().cluster_watch.unwrap().1;
        let usual = Questions { nodes: true, namespaces: false, revision: "default".to_owned() };
        assert_eq!(questions(""), usual);
        let canary = Questions { nodes: false, namespaces: true, revision: "canary".to_owned() };
        let flags = "--revision canary --enable-native-sidecars false --platform openshift";
        assert_eq!(questions(flags), canary);
        assert!(!questions("--enable-native-sidecars true").nodes);
        assert_eq!(options("", false).unwrap().cluster_watch, None);
    }

    #[test]
    fn invalid_tls_restrictions_are_rejected() {
        let table = [
            (
                "--tls-cipher-suites TLS_NULL",
                "--tls-cipher-suites: \"TLS_NULL\" is not a supported cipher",
            ),
            (
                "--tls-min-version TLSV1_3 \
                 --tls-cipher-suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "--tls-min-version: the cipher suite TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is of",
            ),
            ("--client-ca-file ca --client-allowed-names a,", "--client-allowed-names: a name is"),
        ];
        for (flags, message) in table {
            let error = options(flags, false).unwrap_err().to_string();
            assert!(error.contains(message), "{flags}: {error}");
        }
        let flags = "--client-ca-file ca --client-allowed-names apiserver,kube-apiserver.example";
        assert!(options(flags, false).unwrap().clients.is_some());
    }

    #[test]
    fn certificate_flags_without_cluster_are_rejected() {
        let signer = "--cert-mode csr --signer-name example.com/serving";
        let files = "--tlsCertFile c --tlsKeyFile k";
        for (flag, flags) in [("--cert-mode csr", signer), ("--trust-probe", "--trust-probe")] {
            assert!(options(flags, true).is_ok());
            for (flags, in_pod, reason) in [
                (flags.to_owned(), false, "there is no cluster"),
                (format!("{flags} {files}"), true, "it comes from --tlsCertFile"),
            ] {
                let error = OptionsError::NoUpkeep { flag, reason };
                assert_eq!(options(&flags, in_pod), Err(error), "{flags}");
            }
        }
        let own = "--cert-mode own --signer-name example.com/serving";
        for in_pod in [true, false] {
            assert_eq!(options(own, in_pod), Err(OptionsError::Signer(SignerError::OwnCa)));
        }
    }

    #[test]
    fn write_ca_file_requires_an_own_ca() {
        assert_eq!(options("--writeCaFile ca", true), Err(OptionsError::WriteCa));
        assert!(options("--writeCaFile ca", false).is_ok());
    }
}
