//! Fixture of a case: an installation from the manifests, its replicas, and their requests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use e2e::wait;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use webhook_certs::bundle::Bundle;
use webhook_certs::secret::State;
use webhook_certs::secret::rotation_requests::{ROTATE, ROTATE_NOW};

use crate::load::{self, Load, Tally};
use crate::mount::Mount;
use crate::pace::Pace;
use crate::replica::Replica;
use crate::shared::Shared;
use e2e::calls::{self, Call};

pub(crate) struct Fixture<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) replicas: Vec<Replica>,
    /// Flags of the replicas that are started next.
    flags: Flags,
    pub(crate) name: &'static str,
    since: calls::Instant,
    started: usize,
    /// Token of the manifests' account.
    token: String,
    /// Kubeconfigs of that account, one for each API server.
    kubeconfigs: Vec<PathBuf>,
}

/// Flags of a replica, by name.
pub(crate) type Flags = BTreeMap<&'static str, String>;

impl<'a> Fixture<'a> {
    /// Creates the state before a first installation's Deployment runs.
    pub(crate) async fn set(shared: &'a Shared, name: &'static str) -> Result<Self> {
        shared.balancer.block(false);
        shared.balancer.set(Vec::new());
        let mut fixture = Self {
            shared,
            replicas: Vec::new(),
            flags: shared.pace.flags(),
            name,
            since: calls::Instant::default(),
            started: 0,
            token: String::new(),
            kubeconfigs: Vec::new(),
        };
        fixture
            .configurations()
            .delete(NAME, &DeleteParams::default())
            .await
            .map_or_else(absent, |_| Ok(()))?;
        fixture
            .secrets()
            .delete(SECRET, &DeleteParams::default())
            .await
            .map_or_else(absent, |_| Ok(()))?;
        fixture.since = calls::Instant::now(&shared.servers)?;
        let request: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 36000}}))?;
        let accounts = Api::<ServiceAccount>::namespaced(fixture.admin(), NAMESPACE);
        let token =
            accounts.create_token_request(INSTALL, &PostParams::default(), &request).await?;
        fixture.token = token.status.context("the token request has no status")?.token;
        let servers = &shared.servers;
        fixture.kubeconfigs = (0..servers.count())
            .map(|index| servers.kubeconfig(index, &format!("{name}-{INSTALL}"), &fixture.token))
            .collect::<Result<_>>()?;
        Ok(fixture)
    }

    pub(crate) fn pace(&self) -> &'a Pace {
        &self.shared.pace
    }

    /// Sets a flag of the replicas that are started next.
    pub(crate) fn flag(&mut self, name: &'static str, value: &str) {
        self.flags.insert(name, value.to_owned());
    }

    /// Makes the replicas that are started next serve the certificate of a mount. Returns the
    /// previous flags.
    pub(crate) fn serve_files(&mut self, mount: &Mount, interval: &str) -> Flags {
        let before = self.flags.clone();
        for (flag, file) in [("tlsCertFile", "tls.crt"), ("tlsKeyFile", "tls.key")] {
            self.flag(flag, &mount.path(file).display().to_string());
        }
        self.flag("reload-interval", interval);
        before
    }

    /// Sets all flags of the replicas that are started next.
    pub(crate) fn set_flags(&mut self, flags: Flags) {
        self.flags = flags;
    }

    /// Returns a client with the token of the replicas.
    pub(crate) async fn account(&self, server: usize) -> Result<Client> {
        self.shared.servers.client(server, &self.token).await
    }

    pub(crate) fn admin(&self) -> Client {
        self.shared.admins[0].clone()
    }

    /// Applies manifests as `kubectl apply --server-side` does.
    pub(crate) fn apply(&self, documents: &str) -> Result<()> {
        let command = ["apply", "--server-side", "--force-conflicts", "--filename", "-"];
        self.shared.servers.kubectl().must_with_input(command, documents).map(drop)
    }

    /// Applies the webhook configuration, the last step of an installation.
    pub(crate) async fn configure(&self) -> Result<()> {
        let how = PatchParams::apply("kubectl").force();
        let whole = Patch::Apply(documents::yaml::parse(&self.shared.webhook)?);
        self.configurations().patch(NAME, &how, &whole).await?;
        Ok(())
    }

    /// Starts replicas, each with the next API server, without waiting for them.
    pub(crate) fn start(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let kubeconfig = self.kubeconfig(self.replicas.len());
            let replica = self.launch(&kubeconfig)?;
            self.replicas.push(replica);
        }
        self.balance();
        Ok(())
    }

    /// Starts a further replica, and sends it connections when it is ready.
    pub(crate) fn add(&mut self) -> Result<()> {
        let kubeconfig = self.kubeconfig(self.replicas.len());
        let mut replica = self.launch(&kubeconfig)?;
        replica.until_ready()?;
        self.replicas.push(replica);
        self.balance();
        Ok(())
    }

    /// Removes a replica from the Service and then terminates it, as a rollout does. Returns the
    /// period in which it closed its connections.
    pub(crate) fn retire(&mut self, index: usize) -> Result<Range<Instant>> {
        let mut replica = self.replicas.remove(index);
        self.balance();
        let begin = Instant::now();
        replica.process.stop()?;
        Ok(begin..Instant::now())
    }

    /// Waits until all replicas are ready.
    pub(crate) fn until_ready(&mut self) -> Result<()> {
        self.replicas.iter_mut().try_for_each(Replica::until_ready)
    }

    /// Installs everything, and waits until pods are injected through each API server.
    pub(crate) async fn install(&mut self, replicas: usize) -> Result<()> {
        self.start(replicas)?;
        self.until_ready()?;
        self.configure().await?;
        self.until_injected().await
    }

    /// Kills a replica, starts another one with the same API server, and waits until it is ready.
    /// Returns the period in which the connections of the first broke.
    pub(crate) async fn kill_and_replace(&mut self, index: usize) -> Result<Range<Instant>> {
        let begin = Instant::now();
        let address = self.replicas[index].address();
        self.replicas[index].process.kill()?;
        self.shared.balancer.until_idle(address).await;
        let broken = begin..Instant::now();
        let kubeconfig = self.kubeconfig(index);
        self.replicas[index] = self.launch(&kubeconfig)?;
        self.replicas[index].until_ready()?;
        self.balance();
        Ok(broken)
    }

    /// Waits until a pod is injected through each API server.
    pub(crate) async fn until_injected(&self) -> Result<()> {
        for client in &self.shared.admins {
            wait::until_async("pods are injected", async || load::create(client.clone()).await)
                .await?;
        }
        Ok(())
    }

    /// Starts to create pods all the time.
    pub(crate) fn load(&self) -> Load {
        Load::start(&self.shared.admins, self.pace().rate)
    }

    /// Prints the counts of the case: admissions, and writes of the replicas.
    #[expect(clippy::print_stderr, reason = "figures are for people")]
    pub(crate) fn tell(&self, tally: &Tally, more: &str) -> Result<()> {
        let writes = calls::writes(&self.calls()?);
        let writes: Vec<_> = writes.iter().map(|(of, count)| format!("{count} of {of}")).collect();
        let writes = if writes.is_empty() { "none".to_owned() } else { writes.join(", ") };
        let comma = if more.is_empty() { "" } else { "; " };
        eprintln!("{}: {tally}; writes: {writes}{comma}{more}", self.name);
        Ok(())
    }

    /// Returns all requests of the replicas to the API servers.
    pub(crate) fn calls(&self) -> Result<Vec<Call>> {
        calls::since(&self.shared.servers, ACCOUNT, &self.since)
    }

    /// Returns the number of successful writes to one kind of resource.
    pub(crate) fn writes(&self, resource: &str) -> Result<usize> {
        Ok(calls::writes(&self.calls()?).remove(resource).unwrap_or_default())
    }

    /// Returns the number of times the replicas have read the Secret.
    pub(crate) fn looks(&self) -> Result<usize> {
        let is_look = |call: &&Call| call.verb == "get" && call.resource == "secrets";
        Ok(self.calls()?.iter().filter(is_look).count())
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.admin(), NAMESPACE)
    }

    pub(crate) fn configurations(&self) -> Api<MutatingWebhookConfiguration> {
        Api::all(self.admin())
    }

    pub(crate) async fn configuration(&self) -> Result<MutatingWebhookConfiguration> {
        Ok(self.configurations().get(NAME).await?)
    }

    /// Returns the state of the Secret, which must be complete.
    pub(crate) async fn state(&self) -> Result<State> {
        Ok(State::parse(&self.secrets().get(SECRET).await?)?)
    }

    /// Returns the bundle of each entry.
    pub(crate) async fn bundles(&self) -> Result<Vec<Bundle>> {
        let webhooks = self.configuration().await?.webhooks.unwrap_or_default();
        let bundle = webhooks.into_iter().map(|webhook| webhook.client_config.ca_bundle);
        Ok(bundle.map(|bundle| Bundle::observed(&bundle.unwrap_or_default().0)).collect())
    }

    /// Publishes a bundle in every entry, in place of the program that maintains it when the
    /// replicas do not.
    pub(crate) async fn publish(&self, bundle: &[u8]) -> Result<()> {
        let bundle = ByteString(bundle.to_vec());
        let names = self.configuration().await?.webhooks.unwrap_or_default();
        let entry = |name| json!({"name": name, "clientConfig": {"caBundle": bundle}});
        let entries: Vec<_> = names.into_iter().map(|webhook| entry(webhook.name)).collect();
        let patch = Patch::Apply(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "webhooks": entries,
        }));
        let how = PatchParams::apply("somebody").force();
        self.configurations().patch(NAME, &how, &patch).await?;
        Ok(())
    }

    /// Waits until every entry has the CAs of the Secret, and no other.
    pub(crate) async fn until_published(&self) -> Result<State> {
        wait::until_async("every entry has the CAs of the Secret and no other", async || {
            let state = self.state().await?;
            let bundles = self.bundles().await?;
            ensure!(!bundles.is_empty(), "there is no entry");
            for bundle in bundles {
                ensure!(bundle.is_same_set(&state.bundle()), "{bundle:?}");
            }
            Ok(state)
        })
        .await
    }

    /// Waits until the rotation is in a phase. The first phase is short and may be over when the
    /// state is read.
    pub(crate) async fn until_phase(&self, phase: &str) -> Result<State> {
        let is_over = |word| phase == "prepared" && word == "activated";
        wait::until_async(phase, async || {
            let state = self.state().await?;
            let word = state.phase.word();
            ensure!(word == phase || is_over(word), "{:?}", state.phase);
            Ok(state)
        })
        .await
    }

    pub(crate) async fn ask_for_rotation(&self) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {ROTATE: ROTATE_NOW}}});
        let how = PatchParams::default();
        self.secrets().patch(SECRET, &how, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Adds the replicas' logs to the error of a failed case.
    pub(crate) fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
        let logs = self.replicas.iter().enumerate().map(|(index, replica)| {
            let said = replica.process.said().unwrap_or_default();
            // The log lines of reviews would hide the rest.
            let is_news = |line: &&str| !line.contains(" admission uid=");
            let lines: Vec<_> = said.lines().filter(is_news).collect();
            let tail = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
            format!("replica {index} said:\n{tail}")
        });
        let logs: Vec<_> = logs.collect();
        anyhow::anyhow!("{error:#}\n{}", logs.join("\n"))
    }

    /// Makes the Service route to the current replicas only.
    pub(crate) fn balance(&self) {
        let addresses = self.replicas.iter().map(Replica::address);
        self.shared.balancer.set(addresses.collect());
    }

    /// Starts a separate replica with another account.
    pub(crate) fn launch(&mut self, kubeconfig: &Path) -> Result<Replica> {
        self.started += 1;
        let name = format!("{}-{}", self.name, self.started);
        let flags = self.flags.iter().map(|(name, value)| format!("--{name}={value}"));
        let flags = flags.chain([format!("--kubeconfig={}", kubeconfig.display())]);
        Replica::start(
            self.shared.servers.folder(),
            &self.shared.injector,
            &name,
            &flags.collect::<Vec<_>>(),
        )
    }

    fn kubeconfig(&self, index: usize) -> PathBuf {
        self.kubeconfigs[index % self.kubeconfigs.len()].clone()
    }
}

impl Drop for Fixture<'_> {
    /// Kills all replicas: their shutdown takes seconds, which no case waits for here.
    fn drop(&mut self) {
        for replica in &mut self.replicas {
            // One that has ended is as good.
            let _ = replica.process.kill();
        }
    }
}

/// Ignores the error that an object to delete does not exist.
fn absent(error: kube::Error) -> Result<()> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        error => bail!(error),
    }
}

pub(crate) const NAMESPACE: &str = "istio-system";
/// The webhook configuration of the manifests.
pub(crate) const NAME: &str = "istio-sidecar-injector";
pub(crate) const SECRET: &str = "sidecar-injector-ca";
pub(crate) const INSTALL: &str = "sidecar-injector";
pub(crate) const ACCOUNT: &str = "system:serviceaccount:istio-system:sidecar-injector";
const LINES_SHOWN: usize = 30;
