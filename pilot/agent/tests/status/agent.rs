//! Fixture: the status port, served by a thread of the test.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use e2e::netns::{Namespace, Owner};
use pilot_agent::admin::Admin;
use pilot_agent::app::{App, Dialer, ProbeTable};
use pilot_agent::config::StatusOptions;
use pilot_agent::health::Health;
use pilot_agent::status::{
    Metrics, Names, ScrapeTarget, Scraper, ServingEnvoy, ShutdownRequest, Status, bind, serve,
};
use prometheus_client::registry::Registry;
use tokio::sync::{oneshot, watch};

/// The status port, which is served until the value is dropped.
pub(crate) struct Agent {
    pub(crate) port: u16,
    pub(crate) health: Arc<Health>,
    pub(crate) epoch: watch::Sender<Option<u32>>,
    pub(crate) shutdowns: Arc<Mutex<Vec<ShutdownRequest>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Settings of the status port.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    /// Addresses of the pod; 127.0.0.1 by default.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) probers: String,
    pub(crate) annotations: Option<String>,
    pub(crate) targets: Option<String>,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) metrics_on_loopback_only: bool,
    /// True if the DNS proxy has its table; `None` without DNS proxy.
    pub(crate) names: Option<bool>,
}

impl Agent {
    /// Serves the status port in this network namespace.
    pub(crate) fn start(settings: Settings) -> Self {
        Self::start_with(settings, |serve| serve())
    }

    /// Serves the status port in a pod, as the proxy's user.
    pub(crate) fn start_in(namespace: &Arc<Namespace>, settings: Settings) -> Self {
        let namespace = Arc::clone(namespace);
        let owner = Owner { uid: 1337, gid: 1337 };
        Self::start_with(settings, move |serve| namespace.run_as(owner, serve).unwrap())
    }

    fn start_with(
        settings: Settings,
        run: impl FnOnce(&mut (dyn FnMut() + Send)) + Send + 'static,
    ) -> Self {
        let (started, start) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let (health, shutdowns) = (Arc::<Health>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (epoch, serving) = watch::channel(Some(0));
        let (conditions, requests) = (Arc::clone(&health), Arc::clone(&shutdowns));
        let thread = thread::spawn(move || {
            let mut input = Some((settings, conditions, serving, requests, stopped));
            run(&mut || {
                let (settings, conditions, serving, requests, stopped) = input.take().unwrap();
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let listener = bind(0, &settings.addresses).unwrap();
                    started.send(listener.local_addr().unwrap().port()).unwrap();
                    let status = status(&settings, conditions, serving, requests);
                    tokio::select! {
                        () = serve(listener, status) => {}
                        _ = stopped => {}
                    }
                });
            });
        });
        let port = start.recv().expect("the status port is served");
        Self { port, health, epoch, shutdowns, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the address of the status port on loopback.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

fn status(
    settings: &Settings,
    health: Arc<Health>,
    epoch: watch::Receiver<Option<u32>>,
    requests: Arc<Mutex<Vec<ShutdownRequest>>>,
) -> Status {
    let options = StatusOptions {
        port: 15020,
        app_probers: None,
        prometheus_annotations: settings.annotations.clone(),
        scrape_targets: settings.targets.clone(),
        probe_localhost: false,
        metrics_on_loopback_only: settings.metrics_on_loopback_only,
    };
    let pod = settings.addresses.first().copied().unwrap_or(Ipv4Addr::LOCALHOST.into());
    let dialer = Dialer::new(pod, false);
    let probers = if settings.probers.is_empty() { "{}" } else { &settings.probers };
    let admin = settings.admin.map(Admin::new);
    let targets = ScrapeTarget::parse_all(&options).unwrap();
    let (metrics, mut registry) = (Metrics::default(), Registry::default());
    metrics.register(&mut registry);
    Status {
        app: App::new(ProbeTable::parse(probers).unwrap(), dialer).unwrap(),
        scraper: Arc::new(
            Scraper::new(Arc::new(registry), metrics, admin.clone(), dialer, targets).unwrap(),
        ),
        envoy: admin.map(|admin| ServingEnvoy { admin, epoch }),
        names: settings.names.map(|received| Arc::new(NamesFixture(received)) as Arc<dyn Names>),
        health,
        shutdown: Box::new(move |request| {
            requests.lock().unwrap().push(request);
            true
        }),
        metrics_on_loopback_only: options.metrics_on_loopback_only,
    }
}

struct NamesFixture(bool);

impl Names for NamesFixture {
    fn received(&self) -> bool {
        self.0
    }

    fn json(&self) -> String {
        r#"{"table":{}}"#.to_owned()
    }
}
