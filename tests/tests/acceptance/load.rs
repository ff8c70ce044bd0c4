//! Load of pods that are created all the time, as a dry run, at every API server in turn.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::wait;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

/// The load, until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Load {
    tally: Arc<Mutex<Tally>>,
    stop: tokio::sync::watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Admissions and their results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) admitted: usize,
    pub(crate) failures: Vec<Failure>,
    /// Duration of each admission.
    times: Vec<Duration>,
}

/// A pod that was not created, or was without its sidecar.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) server: usize,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) message: String,
}

impl Load {
    /// Creates `rate` pods per second. An API server with many unanswered requests gets no more for
    /// the moment.
    pub(crate) fn start(clients: &[Client], rate: u32) -> Self {
        let tally = Arc::<Mutex<Tally>>::default();
        let (stop, mut stopped) = tokio::sync::watch::channel(false);
        let clients = clients.to_vec();
        let of_task = Arc::clone(&tally);
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
            let mut calls = JoinSet::new();
            let places: Vec<_> =
                clients.iter().map(|_| Arc::new(Semaphore::new(IN_FLIGHT))).collect();
            for server in (0..clients.len()).cycle() {
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = stopped.changed() => break,
                }
                let Ok(place) = Arc::clone(&places[server]).try_acquire_owned() else { continue };
                let (client, tally) = (clients[server].clone(), Arc::clone(&of_task));
                calls.spawn(async move {
                    let _place = place;
                    let began = Instant::now();
                    let created = create(client).await;
                    let ended = Instant::now();
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.times.push(ended - began);
                    match created {
                        Ok(()) => tally.admitted += 1,
                        Err(error) => tally.failures.push(Failure {
                            server,
                            began,
                            ended,
                            message: first_clause(&error),
                        }),
                    }
                });
                while calls.try_join_next().is_some() {}
            }
            while calls.join_next().await.is_some() {}
        });
        Self { tally, stop, task }
    }

    /// Returns the results so far.
    pub(crate) fn tally(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until this number of further pods have been admitted.
    pub(crate) async fn until_admitted(&self, further: usize) -> Result<()> {
        let admitted = || self.tally.lock().unwrap_or_else(PoisonError::into_inner).admitted;
        let wanted = admitted() + further;
        let are_admitted = async || {
            ensure!(admitted() >= wanted, "{}", self.tally());
            Ok(())
        };
        wait::until_async("pods are admitted", are_admitted).await
    }

    /// Stops creating pods, and waits for the outstanding answers.
    pub(crate) async fn stop(mut self) -> Result<Tally> {
        self.stop.send_replace(true);
        (&mut self.task).await.context("the load broke off")?;
        Ok(self.tally())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Tally {
    /// Returns an error unless every pod was admitted.
    pub(crate) fn expect_no_failure(&self) -> Result<()> {
        ensure!(self.admitted > 0, "no pod was admitted");
        ensure!(self.failures.is_empty(), "{self}");
        Ok(())
    }

    /// Removes the failures that are `excused`, and returns their number.
    pub(crate) fn excuse(&mut self, excused: impl Fn(&Failure) -> bool) -> usize {
        let before = self.failures.len();
        self.failures.retain(|failure| !excused(failure));
        before - self.failures.len()
    }
}

impl Failure {
    /// True if the call was in flight when its replica was killed and its connections broke. API
    /// servers do not repeat a call that broke off.
    pub(crate) fn broke_off_in(&self, kill: &Range<Instant>) -> bool {
        let broke = [
            "EOF",
            "broken pipe",
            "connection reset by peer",
            "server closed idle connection",
            "use of closed network connection",
        ];
        self.began <= kill.end
            && kill.start <= self.ended
            && broke.iter().any(|end| self.message.contains(end))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { admitted, failures, times } = self;
        write!(formatter, "{admitted} admissions")?;
        let mut times = times.clone();
        times.sort_unstable();
        if let Some(slowest) = times.last() {
            let p99 = times[times.len() * 99 / 100].as_millis();
            write!(formatter, " (p99 {p99} ms, slowest {} ms)", slowest.as_millis())?;
        }
        write!(formatter, ", ")?;
        write!(formatter, "{} failures", failures.len())?;
        let mut messages = BTreeMap::<_, usize>::new();
        for failure in failures {
            *messages.entry((failure.server, &failure.message)).or_default() += 1;
        }
        for ((server, message), count) in messages {
            write!(formatter, "\n  {count} times at API server {server}: {message}")?;
        }
        Ok(())
    }
}

/// Returns the API server's message without the object.
fn first_clause(error: &anyhow::Error) -> String {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) => status.message.clone(),
        _ => format!("{error:#}"),
    }
}

/// Creates a pod as a dry run; the result must have a sidecar.
pub(crate) async fn create(client: Client) -> Result<()> {
    let spec = create_plain(client, "pods").await?;
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    if containers.any(|container| container.name == "istio-proxy") {
        return Ok(());
    }
    bail!("the pod has no sidecar")
}

/// Creates a pod as a dry run, and returns the result.
pub(crate) async fn create_plain(client: Client, namespace: &str) -> Result<PodSpec> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"generateName": "load-"},
        "spec": {
            // The account is named because a volume of the sidecar has its token.
            "serviceAccountName": "default",
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000,
                                "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "app",
                "image": "app:1",
                "securityContext": {"allowPrivilegeEscalation": false,
                                    "capabilities": {"drop": ["ALL"]}},
            }],
        },
    }))?;
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let created = Api::<Pod>::namespaced(client, namespace).create(&parameters, &pod).await?;
    created.spec.context("the pod has no spec")
}

const IN_FLIGHT: usize = 32;
