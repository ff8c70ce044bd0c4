//! Certificates in files, maintained by another program.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;
use webhook_certs::authority::{Authority, Entropy, Leaf, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::server_names::ServerNames;

use crate::caller::{Caller, review};
use crate::fixture::{Fixture, NAMESPACE};
use crate::mount::Mount;
use crate::replica::Replica;

/// A19
pub(crate) async fn file_replacement_under_load_fails_no_handshake(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    let authority = Keeper::create()?;
    let bundle = Bundle::new(authority.0.ca().clone(), []);
    let folder = fixture.shared.servers.folder().folder("mounted")?;
    let mut mount = Mount::create(&folder.join("files"))?;
    let mut served = authority.issue()?;
    mount.swap(&served.certificate_pem(), &served.key_pem())?;
    fixture.serve_files(&mount, "10ms");
    fixture.start(2)?;
    fixture.until_ready()?;
    fixture.configure().await?;
    fixture.publish(bundle.to_pem().as_bytes()).await?;
    fixture.until_injected().await?;

    let addresses: Vec<_> = fixture.replicas.iter().map(Replica::address).collect();
    let load = fixture.load();
    let clients = Clients::start(&addresses, &bundle);
    let swaps = SWAPS * fixture.pace().rounds;
    let mut mismatches = 0;
    for swap in 1..=swaps {
        let leaf = authority.issue()?;
        if swap % MISMATCH_EACH == 0 {
            mount.swap(&leaf.certificate_pem(), &served.key_pem())?;
            mismatches += 1;
            until_mismatches(fixture, mismatches).await?;
        } else {
            mount.swap(&leaf.certificate_pem(), &leaf.key_pem())?;
            served = leaf;
        }
        for address in &addresses {
            wait::until_async("the newest pair that fits is served", async || {
                let caller = Caller::connect(*address, &bundle).await?;
                ensure!(caller.certificate() == Some(served.certificate()), "another is served");
                Ok(())
            })
            .await?;
        }
    }
    let handshakes = clients.stop().await?;
    load.until_admitted(100).await?;
    let tally = load.stop().await?;
    let more = format!(
        "{swaps} swaps, {mismatches} of them of two halves that do not fit; {handshakes} \
         handshakes, 0 failures"
    );
    fixture.tell(&tally, &more)?;
    ensure!(handshakes > u64::from(swaps), "only {handshakes} handshakes");
    tally.expect_no_failure()
}

/// Waits until each replica has reported this number of mismatched pairs.
async fn until_mismatches(fixture: &Fixture<'_>, count: usize) -> Result<()> {
    for replica in &fixture.replicas {
        wait::until_async("it tells of the mismatch", async || {
            let said = replica.process.said()?;
            let reported = said.matches("does not belong to the certificate").count();
            ensure!(reported == count, "{reported} of {count} times");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// A CA with leaves that are written into files.
#[derive(Debug)]
pub(crate) struct Keeper(pub(crate) Authority);

impl Keeper {
    pub(crate) fn create() -> Result<Self> {
        let lifetime = Lifetime::starting(Timestamp::now(), SignedDuration::from_hours(24));
        Ok(Self(Authority::create("keeper", 1, lifetime, Entropy::draw()?)?))
    }

    /// Issues a leaf for the Service.
    pub(crate) fn issue(&self) -> Result<Leaf> {
        let names = ServerNames::from_service("sidecar-injector", NAMESPACE, "cluster.local", &[])?;
        let lifetime = Lifetime::starting(Timestamp::now(), SignedDuration::from_hours(1));
        Ok(self.0.issue(&names, lifetime, Entropy::draw()?)?)
    }
}

/// Clients that open a new connection for each review, all the time.
struct Clients {
    stop: watch::Sender<bool>,
    tasks: JoinSet<Result<u64>>,
}

impl Clients {
    fn start(addresses: &[SocketAddr], bundle: &Bundle) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for address in addresses.iter().copied() {
            let (stopped, bundle) = (stopped.clone(), bundle.clone());
            tasks.spawn(async move {
                let review = review();
                let mut handshakes = 0;
                while !*stopped.borrow() {
                    let mut caller = Caller::connect(address, &bundle).await?;
                    caller.review(&review).await?;
                    handshakes += 1;
                }
                Ok(handshakes)
            });
        }
        Self { stop, tasks }
    }

    /// Returns the number of handshakes; an error if one of them failed.
    async fn stop(mut self) -> Result<u64> {
        self.stop.send_replace(true);
        let mut handshakes = 0;
        while let Some(done) = self.tasks.join_next().await {
            handshakes += done.context("a client broke off")?.context("while files change")?;
        }
        Ok(handshakes)
    }
}

const SWAPS: u32 = 100;
const MISMATCH_EACH: u32 = 10;
