//! Options of the reconciliation of certificates.

use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;

use crate::server_names::{ServerNames, ServerNamesError};

/// Objects to reconcile, and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Namespace of the Secret and of the Service.
    pub namespace: String,
    /// Name of this installation, part of the names of the CA and of the field manager.
    pub install: String,
    /// Service through which API servers reach the webhook.
    pub service: String,
    /// DNS domain of the cluster.
    pub cluster_domain: String,
    /// Further names and addresses in the leaf, for webhooks that are called by URL.
    pub extra_names: Vec<String>,
    /// Revision of the control plane. Configurations whose label `istio.io/rev` has another value
    /// are ignored.
    pub revision: String,
    /// Secret that holds the CA.
    pub secret_name: String,
    /// Mutating webhook configurations whose `caBundle` is written, once they exist.
    pub webhook_configurations: Vec<String>,
    /// True if the CAs are published as roots of workloads too, in the `ConfigMap`
    /// `istio-ca-root-cert` of the revision's namespaces.
    pub root_config_maps: bool,
    /// Lifetimes and intervals.
    pub parameters: Parameters,
    /// Signer of the leaves; without it, our own CA signs.
    pub signer: Option<Signer>,
}

/// A signer of `CertificateSigningRequest`s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Name, for example `example.com/serving`.
    pub name: String,
    /// True if this program approves its requests. The right to approve for a signer is a right to
    /// any certificate of it.
    pub approve: bool,
    /// PEM file with the CAs to publish; without it, another program publishes them.
    pub authorities: Option<PathBuf>,
}

impl Signer {
    /// True if it is one of kube-controller-manager's signers, whose domain is reserved.
    ///
    /// `kubelet-serving` is the only one of these that signs for servers, and only for nodes.
    /// `certificates.k8s.io/v1` rejects `legacy-unknown`, which would sign anything.
    pub fn is_of_kubernetes(&self) -> bool {
        self.name.starts_with("kubernetes.io/")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "istio-system".to_owned(),
            install: "sidecar-injector".to_owned(),
            service: "sidecar-injector".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            extra_names: Vec::new(),
            revision: "default".to_owned(),
            secret_name: "sidecar-injector-ca".to_owned(),
            webhook_configurations: vec![Self::default_configuration("default")],
            root_config_maps: false,
            parameters: Parameters::default(),
            signer: None,
        }
    }
}

impl Options {
    /// Default webhook configuration of a revision: Istio's name, with the revision as suffix
    /// unless it is `default` or empty.
    pub fn default_configuration(revision: &str) -> String {
        Self::for_revision("istio-sidecar-injector", revision)
    }

    /// Appends the revision to a name unless it is `default` or empty.
    ///
    /// Each revision has its own CA.
    pub fn for_revision(name: &str, revision: &str) -> String {
        match revision {
            "" | "default" => name.to_owned(),
            revision => format!("{name}-{revision}"),
        }
    }

    /// Revision as in labels, where an empty one is `default`.
    pub fn revision(&self) -> &str {
        match self.revision.as_str() {
            "" => "default",
            revision => revision,
        }
    }

    /// Names in the leaf.
    pub fn names(&self) -> Result<ServerNames, ServerNamesError> {
        ServerNames::from_service(
            &self.service,
            &self.namespace,
            &self.cluster_domain,
            &self.extra_names,
        )
    }

    /// Field manager of our writes.
    pub fn field_manager(&self) -> String {
        format!("{}-webhook-certs", self.install)
    }
}

/// Lifetimes of certificates and intervals of the reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Lifetime of a new CA.
    pub authority_lifetime: SignedDuration,
    /// Lifetime of a new leaf, which is renewed at half of it.
    pub leaf_lifetime: SignedDuration,
    /// Time for which a CA that no longer signs stays trusted: a retiring one after its successor
    /// was activated, a foreign one after it was first seen. Longer than a leaf's lifetime and
    /// [`Parameters::freshness`].
    pub retire_delay: SignedDuration,
    /// Time that an API server may need to learn of a changed `caBundle`. A next CA signs only
    /// after it has been published for this long, and no decision is carried out later than this.
    pub propagation_delay: SignedDuration,
    /// Treatment of CAs in a `caBundle` that are not in the Secret.
    pub foreign_ca: ForeignCa,
    /// Interval of reconciliation without an event.
    pub tick: Duration,
    /// Timeout of one call to the API server.
    pub call_timeout: Duration,
    /// Number of writes to one object without a pause.
    pub write_burst: u32,
    /// Interval of further writes to that object.
    pub write_interval: SignedDuration,
    /// Time after which a forbidden write is tried again; a tenth of it after the first attempt,
    /// since an API server that has just started forbids everything.
    pub denied_interval: SignedDuration,
    /// True if the trust probe runs: API servers are asked to create an object that only our own
    /// entry reviews. A next CA then signs only while the probe succeeds, or after
    /// [`Parameters::probe_timeout`] if the cause of its failure is unknown.
    pub trust_probe: bool,
    /// Interval of the trust probe.
    pub trust_probe_interval: Duration,
}

impl Parameters {
    /// Maximum age of an observation when a decision on it is carried out. A leaf minted at the end
    /// of that time must expire within the retire delay too.
    pub fn freshness(&self) -> SignedDuration {
        self.propagation_delay.min(SignedDuration::from_mins(5))
    }

    /// Time for which a published, unchanged next CA waits for a probe that fails for an unknown
    /// cause: an hour by default.
    pub fn probe_timeout(&self) -> SignedDuration {
        self.propagation_delay * 12
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            authority_lifetime: SignedDuration::from_hours(365 * 24),
            leaf_lifetime: SignedDuration::from_hours(7 * 24),
            retire_delay: SignedDuration::from_hours(7 * 24 + 1),
            propagation_delay: SignedDuration::from_mins(5),
            foreign_ca: ForeignCa::Grace,
            tick: Duration::from_secs(30),
            call_timeout: Duration::from_secs(10),
            write_burst: 5,
            write_interval: SignedDuration::from_secs(30),
            denied_interval: SignedDuration::from_mins(5),
            trust_probe: false,
            trust_probe_interval: Duration::from_secs(60),
        }
    }
}

/// Treatment of CAs in a `caBundle` that are not in the Secret: those of a lost Secret, of another
/// controller, or of an attacker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForeignCa {
    /// It stays until it expires.
    Keep,
    /// It stays for the retire delay after it was first seen.
    #[default]
    Grace,
    /// It is removed at once.
    Drop,
}
