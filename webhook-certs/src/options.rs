//! What the upkeep of certificates is told.

use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;

use crate::server_names::{ServerNames, ServerNamesError};

/// Which objects are kept up, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The namespace of the Secret and of the Service.
    pub namespace: String,
    /// The name of this installation; the CA and the field manager are called by it.
    pub install: String,
    /// The Service through which API servers reach the webhook.
    pub service: String,
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// Further names and addresses of the leaf, for webhooks that are called by URL.
    pub extra_names: Vec<String>,
    /// The revision of the control plane; a configuration labelled `istio.io/rev` with another one
    /// is left alone.
    pub revision: String,
    /// The Secret that holds the CA.
    pub secret_name: String,
    /// The mutating webhook configurations whose `caBundle` is kept up; one that does not exist is
    /// waited for.
    pub webhook_configurations: Vec<String>,
    /// Lifetimes and intervals.
    pub parameters: Parameters,
    /// Who signs the leaves; without it, a CA of our own does.
    pub signer: Option<Signer>,
}

/// A signer of the cluster, of `CertificateSigningRequest`s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// Its name, for example `example.com/serving`.
    pub name: String,
    /// Whether requests are approved here; anybody who may do that for a signer may have any
    /// certificate of it.
    pub approve: bool,
    /// The file with the CAs that API servers have to trust, in PEM; without it somebody else
    /// publishes them.
    pub authorities: Option<PathBuf>,
}

impl Signer {
    /// Tells whether it is one of kube-controller-manager's, whose domain nobody else may use.
    ///
    /// Of these, `kubelet-serving` alone signs for servers, and only for nodes; `legacy-unknown`
    /// would sign anything, and is refused by `certificates.k8s.io/v1`.
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
            parameters: Parameters::default(),
            signer: None,
        }
    }
}

impl Options {
    /// The webhook configuration of a revision by default: Istio's name, with the revision as
    /// suffix unless it is `default` or empty.
    pub fn default_configuration(revision: &str) -> String {
        Self::of_revision("istio-sidecar-injector", revision)
    }

    /// A name as a revision has it: with the revision as suffix unless it is `default` or empty.
    ///
    /// Each revision has a CA of its own.
    pub fn of_revision(name: &str, revision: &str) -> String {
        match revision {
            "" | "default" => name.to_owned(),
            revision => format!("{name}-{revision}"),
        }
    }

    /// The revision as labels have it, where an empty one means `default`.
    pub fn revision(&self) -> &str {
        match self.revision.as_str() {
            "" => "default",
            revision => revision,
        }
    }

    /// The names of the leaf.
    pub fn names(&self) -> Result<ServerNames, ServerNamesError> {
        ServerNames::of_service(
            &self.service,
            &self.namespace,
            &self.cluster_domain,
            &self.extra_names,
        )
    }

    /// The name under which the API server records what is written.
    pub fn field_manager(&self) -> String {
        format!("{}-webhook-certs", self.install)
    }
}

/// Lifetimes of certificates and intervals of the upkeep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// How long a new CA is valid.
    pub authority_lifetime: SignedDuration,
    /// How long a new leaf is valid; it is renewed at half of that.
    pub leaf_lifetime: SignedDuration,
    /// How long a CA that no longer signs stays trusted, more than a leaf's lifetime and
    /// [`Parameters::freshness`]: a retiring one after its successor was activated, one that the
    /// Secret does not know after it was first seen.
    pub retire_delay: SignedDuration,
    /// How long an API server may take to learn of a changed `caBundle`: a next CA signs only after
    /// it has been published for so long, and longer than that no decision waits to be carried out.
    pub propagation_delay: SignedDuration,
    /// What becomes of a CA in a `caBundle` that the Secret does not know.
    pub foreign_ca: ForeignCa,
    /// How often everything is looked at without an event.
    pub tick: Duration,
    /// How long one call to the API server may take.
    pub call_timeout: Duration,
    /// How many writes to one object may follow each other at once.
    pub write_burst: u32,
    /// How often a further write to that object is allowed.
    pub write_interval: SignedDuration,
    /// How long a write that was forbidden is not tried again; a tenth of it after the first
    /// refusal, which may be that of an API server that has just started.
    pub denied_interval: SignedDuration,
    /// Whether to try, by an object that only our own entry reviews, that API servers call the
    /// webhook; a next CA then signs only while they do, except where the reason is unknown for
    /// longer than [`Parameters::probe_patience`].
    pub trust_probe: bool,
    /// How often.
    pub trust_probe_interval: Duration,
}

impl Parameters {
    /// How old what was read may be when something is done about it; a leaf that is minted at the
    /// end of that time has to expire within the retire delay too.
    pub fn freshness(&self) -> SignedDuration {
        self.propagation_delay.min(SignedDuration::from_mins(5))
    }

    /// How long a next CA waits, published and unchanged, for a trust probe that fails at something
    /// unknown: an hour by default.
    pub fn probe_patience(&self) -> SignedDuration {
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

/// What becomes of a CA in a `caBundle` that the Secret does not know: of a lost Secret, of another
/// controller, of an attacker.
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
