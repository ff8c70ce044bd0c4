//! One case: an installation from the manifests, its replicas, and what they did.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use webhook_certs::bundle::Bundle;
use webhook_certs::requests::{ROTATE, ROTATE_NOW};
use webhook_certs::secret::State;

use crate::calls::{self, Call};
use crate::load::{self, Load, Tally};
use crate::pace::Pace;
use crate::replica::Replica;
use crate::world::World;

pub(crate) struct Stage<'a> {
    pub(crate) world: &'a World,
    pub(crate) replicas: Vec<Replica>,
    /// Flags of the replicas that are started next.
    flags: BTreeMap<&'static str, String>,
    name: &'static str,
    since: String,
    started: usize,
    /// Of the account of the manifests, with each API server.
    kubeconfigs: Vec<PathBuf>,
}

impl<'a> Stage<'a> {
    /// Makes everything as it is before a first installation's Deployment runs.
    pub(crate) async fn set(world: &'a World, name: &'static str) -> Result<Self> {
        world.balancer.block(false);
        world.balancer.set(Vec::new());
        let mut stage = Self {
            world,
            replicas: Vec::new(),
            flags: world.pace.flags(),
            name,
            since: String::new(),
            started: 0,
            kubeconfigs: Vec::new(),
        };
        stage
            .configurations()
            .delete(NAME, &DeleteParams::default())
            .await
            .map_or_else(absent, |_| Ok(()))?;
        stage
            .secrets()
            .delete(SECRET, &DeleteParams::default())
            .await
            .map_or_else(absent, |_| Ok(()))?;
        stage.apply(&world.base)?;
        stage.since = format!("{:.6}", Timestamp::now());
        let request: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 36000}}))?;
        let accounts = Api::<ServiceAccount>::namespaced(stage.admin(), NAMESPACE);
        let token =
            accounts.create_token_request(INSTALL, &PostParams::default(), &request).await?;
        let token = token.status.context("the token request has no status")?.token;
        let servers = &world.servers;
        stage.kubeconfigs = (0..servers.count())
            .map(|index| servers.kubeconfig(index, &format!("{name}-{INSTALL}"), &token))
            .collect::<Result<_>>()?;
        Ok(stage)
    }

    pub(crate) fn pace(&self) -> &'a Pace {
        &self.world.pace
    }

    /// Sets a flag of the replicas that are started next.
    pub(crate) fn flag(&mut self, name: &'static str, value: &str) {
        self.flags.insert(name, value.to_owned());
    }

    pub(crate) fn admin(&self) -> Client {
        self.world.admins[0].clone()
    }

    /// Applies manifests as `kubectl apply --server-side` does.
    pub(crate) fn apply(&self, documents: &str) -> Result<()> {
        let command = ["apply", "--server-side", "--force-conflicts", "--filename", "-"];
        self.world.servers.kubectl().must_with_input(command, documents).map(drop)
    }

    /// Applies the webhook configuration, the last step of an installation.
    pub(crate) fn configure(&self) -> Result<()> {
        self.apply(&self.world.webhook)
    }

    /// Starts replicas, each with the next API server; does not wait for them.
    pub(crate) fn start(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let kubeconfig = self.kubeconfig(self.replicas.len());
            let replica = self.launch(&kubeconfig)?;
            self.replicas.push(replica);
        }
        self.balance();
        Ok(())
    }

    /// Waits until all replicas are ready.
    pub(crate) fn until_ready(&mut self) -> Result<()> {
        self.replicas.iter_mut().try_for_each(Replica::until_ready)
    }

    /// Installs everything, and waits until each API server gets pods injected.
    pub(crate) async fn install(&mut self, replicas: usize) -> Result<()> {
        self.start(replicas)?;
        self.until_ready()?;
        self.configure()?;
        self.until_injected().await
    }

    /// Kills a replica without notice, and returns within which time its connections broke.
    pub(crate) async fn kill(&mut self, index: usize) -> Result<Range<Instant>> {
        let begin = Instant::now();
        let address = self.replicas[index].address();
        self.replicas[index].process.kill()?;
        self.world.balancer.until_idle(address).await;
        Ok(begin..Instant::now())
    }

    /// Starts another replica in the place of one that was killed, with the same API server, and
    /// waits until it is ready.
    pub(crate) fn replace(&mut self, index: usize) -> Result<()> {
        let kubeconfig = self.kubeconfig(index);
        self.replicas[index] = self.launch(&kubeconfig)?;
        self.replicas[index].until_ready()?;
        self.balance();
        Ok(())
    }

    /// Waits until a pod is injected by way of each API server.
    pub(crate) async fn until_injected(&self) -> Result<()> {
        for client in &self.world.admins {
            eventually("pods are injected", async || load::create(client.clone()).await).await?;
        }
        Ok(())
    }

    /// Creates pods all the time from now on.
    pub(crate) fn load(&self) -> Load {
        Load::start(&self.world.admins, self.pace().rate)
    }

    /// Prints the figures of the case: what was admitted, and what the replicas wrote.
    #[expect(clippy::print_stderr, reason = "figures are for people")]
    pub(crate) fn tell(&self, tally: &Tally, more: &str) -> Result<()> {
        let writes = calls::writes(&self.calls()?);
        let writes: Vec<_> = writes.iter().map(|(of, count)| format!("{count} of {of}")).collect();
        let writes = if writes.is_empty() { "none".to_owned() } else { writes.join(", ") };
        let comma = if more.is_empty() { "" } else { "; " };
        eprintln!("{}: {tally}; writes: {writes}{comma}{more}", self.name);
        Ok(())
    }

    /// Everything that the replicas asked of the API servers.
    pub(crate) fn calls(&self) -> Result<Vec<Call>> {
        calls::since(&self.world.servers, ACCOUNT, &self.since)
    }

    /// How many writes to one kind of resource succeeded.
    pub(crate) fn writes(&self, resource: &str) -> Result<usize> {
        Ok(calls::writes(&self.calls()?).remove(resource).unwrap_or_default())
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

    /// The state of the Secret, which has to be whole.
    pub(crate) async fn state(&self) -> Result<State> {
        Ok(State::parse(&self.secrets().get(SECRET).await?)?)
    }

    /// The bundle of each entry.
    pub(crate) async fn bundles(&self) -> Result<Vec<Bundle>> {
        let webhooks = self.configuration().await?.webhooks.unwrap_or_default();
        let bundle = webhooks.into_iter().map(|webhook| webhook.client_config.ca_bundle);
        Ok(bundle.map(|bundle| Bundle::observed(&bundle.unwrap_or_default().0)).collect())
    }

    /// Waits until every entry holds the CAs of the Secret, and no other.
    pub(crate) async fn until_published(&self) -> Result<State> {
        eventually("every entry has the CAs of the Secret and no other", async || {
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

    /// Waits until the rotation is in a phase.
    pub(crate) async fn until_phase(&self, phase: &str) -> Result<State> {
        eventually(phase, async || {
            let state = self.state().await?;
            ensure!(state.phase.word() == phase, "{:?}", state.phase);
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

    /// Puts what the replicas say beside the error of a failed case.
    pub(crate) fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
        let logs = self.replicas.iter().enumerate().map(|(index, replica)| {
            let said = replica.process.said().unwrap_or_default();
            // One line for each review would hide the rest.
            let is_news = |line: &&str| !line.contains(" admission uid=");
            let lines: Vec<_> = said.lines().filter(is_news).collect();
            let tail = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
            format!("replica {index} said:\n{tail}")
        });
        let logs: Vec<_> = logs.collect();
        anyhow::anyhow!("{error:#}\n{}", logs.join("\n"))
    }

    /// Lets the Service lead to the replicas that there are, and to no other.
    pub(crate) fn balance(&self) {
        let addresses = self.replicas.iter().map(Replica::address);
        self.world.balancer.set(addresses.collect());
    }

    /// Starts a replica apart from the others, with another account.
    pub(crate) fn launch(&mut self, kubeconfig: &Path) -> Result<Replica> {
        self.started += 1;
        let name = format!("{}-{}", self.name, self.started);
        let flags = self.flags.iter().map(|(name, value)| format!("--{name}={value}"));
        let flags = flags.chain([format!("--kubeconfig={}", kubeconfig.display())]);
        Replica::start(
            self.world.servers.folder(),
            &self.world.injector,
            &name,
            &flags.collect::<Vec<_>>(),
        )
    }

    fn kubeconfig(&self, index: usize) -> PathBuf {
        self.kubeconfigs[index % self.kubeconfigs.len()].clone()
    }
}

/// Asks `probe` until it answers, and fails with its last reason when that takes too long.
pub(crate) async fn eventually<T>(what: &str, probe: impl AsyncFn() -> Result<T>) -> Result<T> {
    eventually_within(PATIENCE, what, probe).await
}

/// [`eventually`], with another patience.
pub(crate) async fn eventually_within<T>(
    patience: Duration,
    what: &str,
    probe: impl AsyncFn() -> Result<T>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match probe().await {
            Ok(found) => return Ok(found),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("waited until {what}")));
            }
            Err(_) => tokio::time::sleep(BETWEEN_PROBES).await,
        }
    }
}

/// What is not there needs no deletion.
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
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_PROBES: Duration = Duration::from_millis(20);
