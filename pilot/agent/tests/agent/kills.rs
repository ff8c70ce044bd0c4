//! kill -9 of the agent and of Envoy.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::random::{Random, rounds, seed};
use e2e::wait;
use rustix::process::Signal;

use crate::fixture::{Pod, kill};
use crate::load::{Clients, Protocol, start_backend};
use crate::tests;

tests![random_kills_under_load_leave_nothing_behind];

/// The test is the kubelet: it starts the agent again after each exit.
fn random_kills_under_load_leave_nothing_behind() -> Result<()> {
    let duration = Duration::from_secs(rounds(8, 120));
    let pod = Pod::new()?;
    start_backend(&pod.namespace)?;
    let mut pod = pod.started()?;
    pod.wait_for_answer(8080)?;
    let clients = Clients::start(&pod.namespace, 8080, &[Protocol::Http1], "/")?;
    let seed = seed();
    let mut random = Random::new(seed, "agent");
    let (start, mut round) = (Instant::now(), 0);
    while start.elapsed() < duration {
        round += 1;
        // Some kills hit a hot restart.
        let tags = format!(r#"{{"extraStatTags":["round{round}"]}}"#);
        pod.annotate(&[("proxy.istio.io/config", &tags)])?;
        thread::sleep(Duration::from_millis(random.roll(4000)));
        let envoys = pod.envoys();
        let target = random.roll(envoys.len() as u64 + 1);
        match envoys.get(usize::try_from(target)?) {
            // It may have exited meanwhile.
            Some((_, pid)) => drop(kill(*pid)),
            None => pod.signal(Signal::KILL)?,
        }
        wait::until("it is ready again", || {
            if !pod.is_running() {
                pod.start()?;
            }
            let readiness = pod.readiness()?;
            ensure!(readiness.status == 200, "{readiness:?}");
            let answer = pod.get(8080, "/")?;
            ensure!(answer.status == 200, "{answer:?}");
            Ok::<_, anyhow::Error>(())
        })
        .with_context(|| format!("round {round}, seed {seed}\n{}", pod.log()))?;
    }
    let reports = clients.finish()?;
    ensure!(reports.iter().all(|(_, report)| report.answered > 0), "{reports:?}");
    pod.wait_until_ready()?;
    pod.stop()
}
