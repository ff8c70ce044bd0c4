//! Fixture of one test: a namespace, an account with minimal rights, a webhook configuration.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::api_servers::ApiServers;
use e2e::wait;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use webhook_certs::bundle::Bundle;
use webhook_certs::cluster::{
    CertificateError, Options, Parameters, maintain, maintain_workload_authority,
};
use webhook_certs::secret::State;
use webhook_certs::serving::ServingCertificate;
use webhook_certs::status::Status;
use webhook_certs::workload::authority::WorkloadAuthority;
use webhook_certs::workload::ca_folder::CaFolder;

pub(crate) struct Fixture<'a> {
    pub(crate) admin: Client,
    pub(crate) options: Options,
    pub(crate) server: &'a ApiServers,
    namespace: String,
}

impl<'a> Fixture<'a> {
    /// Creates the namespace, and an account with the rights of the manifests.
    pub(crate) async fn new(server: &'a ApiServers, namespace: &str) -> Result<Self> {
        let admin = server.admin(0).await?;
        let options = Options {
            namespace: namespace.to_owned(),
            webhook_configurations: vec![namespace.to_owned()],
            parameters: Parameters {
                // Changes are noticed by watches only.
                tick: Duration::from_secs(3600),
                ..Parameters::default()
            },
            ..Options::default()
        };
        let fixture = Self { admin, options, server, namespace: namespace.to_owned() };
        let all = Api::<Namespace>::all(fixture.admin.clone());
        create(&all, json!({"metadata": {"name": namespace}})).await?;
        fixture.grant().await?;
        Ok(fixture)
    }

    /// Grants the rules of the manifests, with names where a rule can have them.
    async fn grant(&self) -> Result<()> {
        let name = &self.namespace;
        let metadata = json!({"name": name});
        create(&self.api::<ServiceAccount>(), json!({"metadata": metadata})).await?;
        let secrets = json!([
            {"apiGroups": [""], "resources": ["secrets"],
             "resourceNames": [self.options.secret_name],
             "verbs": ["get", "list", "watch", "update"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
        ]);
        create(&self.api::<Role>(), json!({"metadata": metadata, "rules": secrets})).await?;
        let configurations = json!([
            {"apiGroups": ["admissionregistration.k8s.io"],
             "resources": ["mutatingwebhookconfigurations"],
             "resourceNames": [name], "verbs": ["get", "list", "watch", "patch"]},
        ]);
        let roles = Api::<ClusterRole>::all(self.admin.clone());
        create(&roles, json!({"metadata": metadata, "rules": configurations})).await?;
        let binding = |kind: &str| {
            json!({
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}],
            })
        };
        create(&self.api::<RoleBinding>(), binding("Role")).await?;
        let bindings = Api::<ClusterRoleBinding>::all(self.admin.clone());
        create(&bindings, binding("ClusterRole")).await?;
        Ok(())
    }

    /// Revokes the rights on webhook configurations.
    pub(crate) async fn forbid_configurations(&self) -> Result<()> {
        let bindings = Api::<ClusterRoleBinding>::all(self.admin.clone());
        bindings.delete(&self.namespace, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Revokes the right to publish.
    pub(crate) async fn forbid_patches(&self) -> Result<()> {
        let roles = Api::<ClusterRole>::all(self.admin.clone());
        let mut role = roles.get(&self.namespace).await?;
        for rule in role.rules.iter_mut().flatten() {
            rule.verbs.retain(|verb| verb != "patch");
        }
        roles.replace(&self.namespace, &PostParams::default(), &role).await?;
        Ok(())
    }

    /// Grants the rights for a signer of the cluster, and revokes those on the Secret.
    pub(crate) async fn allow_requests(&self, signer: &str) -> Result<()> {
        self.change_role(|rules| {
            rules.retain(|rule| !rule.resources.iter().flatten().any(|name| name == "secrets"));
        })
        .await?;
        let roles = Api::<ClusterRole>::all(self.admin.clone());
        let mut role = roles.get(&self.namespace).await?;
        let rules = json!([
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
             "verbs": ["create", "get"]},
            {"apiGroups": ["certificates.k8s.io"],
             "resources": ["certificatesigningrequests/approval"], "verbs": ["update"]},
            {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
             "resourceNames": [signer], "verbs": ["approve"]},
        ]);
        let rules: Vec<PolicyRule> = serde_json::from_value(rules)?;
        role.rules.get_or_insert_default().extend(rules);
        roles.replace(&self.namespace, &PostParams::default(), &role).await?;
        Ok(())
    }

    /// Revokes the right to write Events.
    pub(crate) async fn forbid_events(&self) -> Result<()> {
        self.change_role(|rules| {
            rules.retain(|rule| !rule.resources.iter().flatten().any(|name| name == "events"));
        })
        .await
    }

    /// Grants the right that the trust probe needs.
    pub(crate) async fn allow_probes(&self) -> Result<()> {
        let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]});
        let rule = serde_json::from_value(rule)?;
        self.change_role(|rules| rules.push(rule)).await
    }

    async fn change_role(&self, change: impl FnOnce(&mut Vec<PolicyRule>)) -> Result<()> {
        let roles = self.api::<Role>();
        let mut role = roles.get(&self.namespace).await?;
        change(role.rules.get_or_insert_default());
        roles.replace(&self.namespace, &PostParams::default(), &role).await?;
        Ok(())
    }

    /// Returns the Events as `REASON: NOTE`, sorted.
    pub(crate) async fn events(&self) -> Result<Vec<String>> {
        let events = self.api::<Event>().list(&ListParams::default()).await?;
        let mut found = Vec::new();
        for event in events {
            let regarding = event.regarding.context("an Event without an object")?;
            let name = regarding.name.unwrap_or_default();
            let expected = match self.options.signer {
                None => &self.options.secret_name,
                Some(_) => &self.options.service,
            };
            ensure!(name == *expected, "an Event about {name}");
            let (reason, note) = (event.reason.unwrap_or_default(), event.note.unwrap_or_default());
            found.push(format!("{reason}: {note}"));
        }
        found.sort();
        Ok(found)
    }

    /// Waits for an Event that contains all `parts`, and returns it.
    pub(crate) async fn wait_for_event(&self, parts: &[&str]) -> Result<String> {
        wait::until_async(&format!("an Event has {parts:?}"), async || {
            let events = self.events().await?;
            let found = events.iter().find(|events| parts.iter().all(|part| events.contains(part)));
            found.cloned().with_context(|| format!("{events:#?}"))
        })
        .await
    }

    /// Number of requests of the test's account that were forbidden.
    pub(crate) fn denied_requests(&self) -> Result<usize> {
        let account = format!("system:serviceaccount:{0}:{0}", self.namespace);
        let denied = |event: &Value| {
            event["user"]["username"] == json!(account)
                && event["responseStatus"]["code"] == json!(403)
        };
        Ok(self.server.audit()?.iter().filter(|event| denied(event)).count())
    }

    /// Starts a replica with the test's account.
    pub(crate) async fn replica(&self) -> Result<Replica> {
        self.replica_by(self.server.port(0)).await
    }

    /// Command of the program about the test's objects.
    pub(crate) fn program(&self, command: &str) -> tokio::process::Command {
        let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_webhook-certs"));
        let names = ["--namespace", &self.namespace, "--webhook-configuration", &self.namespace];
        program.arg(command).args(names);
        program.arg("--kubeconfig").arg(self.server.admin_kubeconfig()).kill_on_drop(true);
        program
    }

    /// Revokes or grants the right to approve requests.
    pub(crate) async fn forbid_approvals(&self, forbidden: bool) -> Result<()> {
        let roles = Api::<ClusterRole>::all(self.admin.clone());
        let mut role = roles.get(&self.namespace).await?;
        for rule in role.rules.iter_mut().flatten() {
            if rule.resources.iter().flatten().any(|name| name.ends_with("/approval")) {
                rule.verbs = vec![if forbidden { "get" } else { "update" }.to_owned()];
            }
        }
        roles.replace(&self.namespace, &PostParams::default(), &role).await?;
        Ok(())
    }

    /// Starts a replica that uses one of several API servers.
    pub(crate) async fn replica_of(&self, server: usize) -> Result<Replica> {
        self.start(self.server.port(server), server).await
    }

    /// Starts a replica that reaches the API server through another port.
    pub(crate) async fn replica_by(&self, port: u16) -> Result<Replica> {
        self.start(port, 0).await
    }

    async fn start(&self, port: u16, server: usize) -> Result<Replica> {
        let client = self.client(port, server).await?;
        let certificate = ServingCertificate::new();
        let (sender, status) = watch::channel(Status::default());
        let reconciling = maintain(client, self.options.clone(), Arc::clone(&certificate), sender);
        Ok(Replica { certificate, status, reconciling: tokio::spawn(reconciling) })
    }

    /// Starts a replica whose CA signs for workloads, or the mounted one.
    pub(crate) async fn workload_replica(
        &self,
        mounted: Option<CaFolder>,
    ) -> Result<(Replica, watch::Receiver<Option<Arc<WorkloadAuthority>>>)> {
        let client = self.client(self.server.port(0), 0).await?;
        let certificate = ServingCertificate::new();
        let (sender, status) = watch::channel(Status::default());
        let (authority, authorities) = watch::channel(None);
        let reconciling = maintain_workload_authority(
            client,
            self.options.clone(),
            mounted,
            Arc::clone(&certificate),
            sender,
            authority,
        );
        let reconciling = tokio::spawn(reconciling);
        Ok((Replica { certificate, status, reconciling }, authorities))
    }

    /// Client with the test's account.
    async fn client(&self, port: u16, server: usize) -> Result<Client> {
        let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}}))?;
        let accounts = self.api::<ServiceAccount>();
        let token = accounts
            .create_token_request(&self.namespace, &PostParams::default(), &request)
            .await?;
        let token = token.status.context("the token request has no status")?.token;
        self.server.client_by(port, server, &token).await
    }

    /// Applies the webhook configuration as an installation does, without our caBundle.
    ///
    /// Two entries call our Service at `port`; the others call another Service and a URL.
    pub(crate) async fn configure(&self, port: u16) -> Result<()> {
        self.configure_each(port, port).await
    }

    /// Applies it with one port for each of our entries.
    pub(crate) async fn configure_each(&self, one: u16, two: u16) -> Result<()> {
        let entry = |name: &str, client: Value, failure: &str| {
            json!({
                "name": format!("{name}.outrigger.io"),
                "clientConfig": client,
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                           "resources": ["configmaps"], "scope": "Namespaced"}],
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": self.namespace},
                },
                "objectSelector": {"matchLabels": {"reviewed": "true"}},
                "failurePolicy": failure,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 5,
            })
        };
        let ours = |port| {
            json!({"service": {"namespace": self.namespace, "name": self.options.service,
                                      "path": "/inject", "port": port}})
        };
        let other = json!({"service": {"namespace": self.namespace, "name": "other"},
                           "caBundle": OTHERS_BUNDLE});
        let url = json!({"url": "https://127.0.0.1:1/inject"});
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": self.namespace, "labels": {"istio.io/rev": "default"}},
            "webhooks": [
                entry("one.ours", ours(one), "Fail"),
                entry("two.ours", ours(two), "Fail"),
                entry("service.theirs", other, "Ignore"),
                entry("url.theirs", url, "Ignore"),
            ],
        });
        self.configurations()
            .patch(&self.namespace, &PatchParams::apply("installer"), &Patch::Apply(configuration))
            .await?;
        Ok(())
    }

    /// Points our Service to this machine, where the API server dials it.
    pub(crate) async fn expose(&self) -> Result<()> {
        let service = json!({
            "metadata": {"name": self.options.service},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        create(&self.api::<Service>(), service).await
    }

    /// Creates a ConfigMap that both of our entries review.
    pub(crate) async fn create_reviewed(&self, name: &str) -> Result<ConfigMap> {
        self.create_reviewed_by(self.admin.clone(), name).await
    }

    /// Creates it through another API server.
    pub(crate) async fn create_reviewed_by(&self, admin: Client, name: &str) -> Result<ConfigMap> {
        let map = json!({"metadata": {"name": name, "labels": {"reviewed": "true"}}});
        let map = serde_json::from_value(map)?;
        let maps = Api::<ConfigMap>::namespaced(admin, &self.namespace);
        Ok(maps.create(&PostParams::default(), &map).await?)
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        self.api()
    }

    pub(crate) fn configurations(&self) -> Api<MutatingWebhookConfiguration> {
        Api::all(self.admin.clone())
    }

    pub(crate) async fn configuration(&self) -> Result<MutatingWebhookConfiguration> {
        Ok(self.configurations().get(&self.namespace).await?)
    }

    /// `caBundle` of each entry.
    pub(crate) async fn bundles(&self) -> Result<BTreeMap<String, Option<Vec<u8>>>> {
        let webhooks = self.configuration().await?.webhooks.unwrap_or_default();
        let bundle = |bytes: k8s_openapi::ByteString| bytes.0;
        Ok(webhooks
            .into_iter()
            .map(|webhook| (webhook.name, webhook.client_config.ca_bundle.map(bundle)))
            .collect())
    }

    /// State of the Secret, which must be valid.
    pub(crate) async fn state(&self) -> Result<State> {
        let secret = self.secrets().get(&self.options.secret_name).await?;
        Ok(State::parse(&secret)?)
    }

    /// Waits until both of our entries hold the CA of the Secret, and returns it.
    pub(crate) async fn published(&self) -> Result<Bundle> {
        wait::until_async("the CA is published", async || {
            let wanted = self.state().await?.bundle();
            let bundles = self.bundles().await?;
            for entry in OURS {
                let bundle = bundles.get(entry).cloned().flatten().unwrap_or_default();
                if !Bundle::observed(&bundle).is_superset_of(&wanted) {
                    bail!("{entry} lacks the CA");
                }
            }
            Ok(wanted)
        })
        .await
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }
}

/// A running replica; it stops when it is dropped.
pub(crate) struct Replica {
    pub(crate) certificate: Arc<ServingCertificate>,
    pub(crate) status: watch::Receiver<Status>,
    reconciling: JoinHandle<Result<Infallible, CertificateError>>,
}

impl Replica {
    /// Waits until the status satisfies a condition, and returns it.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        wanted: impl Fn(&Status) -> bool,
    ) -> Result<Status> {
        let mut status = self.status.clone();
        let found = tokio::time::timeout(wait::TIMEOUT, status.wait_for(wanted)).await;
        match found {
            Ok(status) => Ok(status.context("reconciliation has ended")?.clone()),
            Err(_) => bail!("waited until {what}: {:?}", self.status.borrow()),
        }
    }

    /// Served certificate.
    pub(crate) fn leaf(&self) -> Result<Vec<u8>> {
        let identity = self.certificate.current().context("nothing is served")?;
        Ok(identity.chain()[0].to_vec())
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.reconciling.abort();
    }
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Entries that call our Service.
pub(crate) const OURS: [&str; 2] = ["one.ours.outrigger.io", "two.ours.outrigger.io"];
/// Content of the bundle of another tool's entry, in base64.
pub(crate) const OTHERS_BUNDLE: &str = "dGhlaXJz";
