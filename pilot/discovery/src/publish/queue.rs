//! Queue in front of the publisher, which has a thread of its own: generating thousands of
//! resources must not delay streams.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use pilot_routing::envoy::context::Origin;
use pilot_routing::peer_authentication::Ineffective;
use pilot_routing::view::ProxyView;
use prometheus_client::metrics::family::Family;
use tokio::sync::{mpsc, oneshot, watch};

use super::history::{History, Publication};
use super::publisher::{Input, ProxyId, Publisher};
use super::push_time::PushTime;
use crate::metrics::{Count, TypeLabel};
use crate::resources::Published;

/// Handle to the publisher. Clones share it.
#[derive(Clone, Debug)]
pub struct Queue {
    commands: mpsc::UnboundedSender<Command>,
    last_id: Arc<AtomicU64>,
    synced: watch::Receiver<bool>,
    history: History,
}

/// Connected proxy. Its publishing ends with this value.
#[derive(Debug)]
pub struct Subscription {
    /// Number of the stream.
    pub id: ProxyId,
    /// Time of the states that the stream has not taken.
    pub push: PushTime,
    commands: mpsc::UnboundedSender<Command>,
}

enum Command {
    Input(Input, Instant),
    Connect(ProxyId, Joining),
    Disconnect(ProxyId),
    Inspect(Box<dyn FnOnce(&Publisher) + Send>),
}

impl Debug for Command {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Input(..) => "Input",
            Self::Connect(..) => "Connect",
            Self::Disconnect(_) => "Disconnect",
            Self::Inspect(_) => "Inspect",
        })
    }
}

/// Starts the thread of the publisher, which ends with the last handle. It counts the causes of
/// publications in `triggers`.
pub fn start(triggers: Family<TypeLabel, Count>) -> Result<Queue> {
    let (commands, received) = mpsc::unbounded_channel();
    let (synced, is_synced) = watch::channel(false);
    let publishing = Publishing {
        publisher: Publisher::new(),
        channels: HashMap::new(),
        since: None,
        waiting: Vec::new(),
        synced,
        triggers,
        history: History::default(),
        named: BTreeSet::new(),
        closed: HashMap::new(),
    };
    let history = publishing.history.clone();
    let thread = thread::Builder::new().name("publisher".to_owned());
    thread.spawn(|| publishing.run(received)).context("starting the publisher's thread")?;
    Ok(Queue { commands, last_id: Arc::default(), synced: is_synced, history })
}

impl Queue {
    /// Adds a change of the mesh.
    pub fn offer(&self, input: Input) {
        self.send(Command::Input(input, Instant::now()));
    }

    /// True once objects and settings were listed.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Recent publications, the latest first.
    pub fn history(&self) -> Vec<Publication> {
        self.history.list()
    }

    /// Connects a proxy. Waits until the mesh is known. `None` if the publisher has ended.
    pub async fn connect(
        &self,
        view: ProxyView,
    ) -> Option<(Subscription, watch::Receiver<Published>)> {
        let id = ProxyId(self.last_id.fetch_add(1, Ordering::Relaxed));
        let push = PushTime::default();
        let commands = self.commands.clone();
        let (reply, published) = oneshot::channel();
        self.send(Command::Connect(id, Joining { view, push: push.clone(), reply }));
        let subscription = Subscription { id, push, commands };
        Some((subscription, published.await.ok()?))
    }

    /// Asks the publisher a question. `None` if it has ended.
    pub async fn inspect<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Publisher) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Inspect(Box::new(move |publisher| {
            // A caller that has left does not need the answer.
            let _ = reply.send(question(publisher));
        })));
        answer.await.ok()
    }

    fn send(&self, command: Command) {
        // Fails only while the program ends.
        let _ = self.commands.send(command);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Disconnect(self.id));
    }
}

/// Proxy that connects.
struct Joining {
    view: ProxyView,
    push: PushTime,
    reply: oneshot::Sender<watch::Receiver<Published>>,
}

/// State of the thread.
struct Publishing {
    publisher: Publisher,
    channels: HashMap<ProxyId, (watch::Sender<Published>, PushTime)>,
    /// Time of the oldest input that is not published.
    since: Option<Instant>,
    /// Proxies that connected before the mesh was known.
    waiting: Vec<(ProxyId, Joining)>,
    synced: watch::Sender<bool>,
    triggers: Family<TypeLabel, Count>,
    history: History,
    /// Policies without effect that the log has named.
    named: BTreeSet<Ineffective>,
    /// Proxies that the log has called closed, with the policy.
    closed: HashMap<ProxyId, Origin>,
}

impl Publishing {
    fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        while let Some(first) = commands.blocking_recv() {
            let mut changed = self.take(first);
            // What waits already becomes one state; what comes meanwhile, the next one.
            for _ in 0..commands.len() {
                let Ok(next) = commands.try_recv() else { break };
                changed |= self.take(next);
            }
            if changed {
                self.publish();
            }
        }
    }

    /// Takes a command. Returns true if the mesh may have changed.
    fn take(&mut self, command: Command) -> bool {
        match command {
            Command::Input(input, at) => {
                self.since.get_or_insert(at);
                self.publisher.apply(input);
                return true;
            }
            Command::Connect(id, joining) if self.publisher.state().is_none() => {
                self.waiting.push((id, joining));
            }
            Command::Connect(id, joining) => self.connect(id, joining),
            Command::Disconnect(id) => {
                self.waiting.retain(|(waiting, _)| *waiting != id);
                self.channels.remove(&id);
                self.closed.remove(&id);
                self.publisher.disconnect(id);
            }
            Command::Inspect(question) => question(&self.publisher),
        }
        false
    }

    fn publish(&mut self) {
        let since = self.since.take().unwrap_or_else(Instant::now);
        let cause = self.publisher.pending();
        let may_have_others =
            ["config", "service", "global"].iter().any(|it| cause.triggers.contains(it));
        let states = self.publisher.publish();
        if self.publisher.state().is_some() && cause.changes > 0 {
            for r#type in &cause.triggers {
                self.triggers.get_or_create(&TypeLabel { r#type }).inc();
            }
            let name = |proxy: &ProxyView| format!("{}.{}", proxy.pod, proxy.namespace);
            let to = states
                .iter()
                .map(|(id, _)| self.publisher.proxy(*id).map_or_else(String::new, name));
            self.history.add(Timestamp::now(), cause, to);
        }
        for (id, published) in states {
            self.log_closed(id, &published);
            if let Some((channel, push)) = self.channels.get(&id) {
                push.publish(since);
                channel.send_replace(published);
            }
        }
        let is_first = self.publisher.state().is_some() && !*self.synced.borrow();
        if is_first || may_have_others {
            self.name_ineffective_policies();
        }
        if is_first {
            tracing::info!("objects and settings are listed; serving proxies");
            self.synced.send_replace(true);
            for (id, joining) in std::mem::take(&mut self.waiting) {
                self.connect(id, joining);
            }
        }
    }

    /// Names policies without effect, each once.
    fn name_ineffective_policies(&mut self) {
        let found: BTreeSet<_> = self.publisher.ineffective_policies().into_iter().collect();
        for ineffective in found.difference(&self.named) {
            tracing::warn!("{ineffective}");
        }
        self.named = found;
    }

    /// Logs that a proxy takes no connection any more, or takes them again.
    fn log_closed(&mut self, id: ProxyId, published: &Published) {
        let now = published.own.closed_by();
        if self.closed.get(&id) == now {
            return;
        }
        let proxy = self.publisher.proxy(id);
        let proxy = proxy.map_or_else(String::new, |it| format!("{}.{}", it.pod, it.namespace));
        if let Some(policy) = now {
            tracing::warn!(proxy, "no inbound connection is taken: {policy} is not enforced");
            self.closed.insert(id, policy.clone());
        } else {
            tracing::info!(proxy, "inbound connections are taken again");
            self.closed.remove(&id);
        }
    }

    fn connect(&mut self, id: ProxyId, joining: Joining) {
        let Joining { view, push, reply } = joining;
        let published = self.publisher.connect(id, view);
        self.log_closed(id, &published);
        let (channel, published) = watch::channel(published);
        self.channels.insert(id, (channel, push));
        // A stream that has ended disconnects.
        let _ = reply.send(published);
    }
}
