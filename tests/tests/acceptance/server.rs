//! A20 and the load on the webhook itself.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::wait;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval_at, timeout};

use crate::caller::{Caller, review};
use crate::fixture::Fixture;
use crate::load::Tally;

/// The next CA begins to sign during the measurement.
pub(crate) async fn reviews_are_fast_and_none_fails(fixture: &mut Fixture<'_>) -> Result<()> {
    fixture.install(1).await?;
    let (rate, time) = fixture.pace().reviews;
    let address = fixture.replicas[0].address();
    let begin = Usage::from_pid(fixture.replicas[0].process.id())?;
    fixture.ask_for_rotation().await?;
    let mut callers = JoinSet::new();
    let state = fixture.until_phase("prepared").await?;
    let end = Instant::now() + time;
    let signs = Arc::new(AtomicBool::new(false));
    let period = Duration::from_secs(1) * CALLERS / rate;
    for index in 0..CALLERS {
        let (bundle, signs) = (state.bundle(), Arc::clone(&signs));
        callers.spawn(async move {
            let review = review();
            let mut caller = Caller::connect(address, &bundle).await?;
            // The callers start one after the other, not all at once.
            let first = tokio::time::Instant::now() + period * index / CALLERS;
            let mut ticks = interval_at(first, period);
            let mut times = Vec::new();
            while Instant::now() < end || !signs.load(Ordering::Relaxed) {
                ticks.tick().await;
                // API servers open a new connection now and then.
                if times.len() % PER_CONNECTION == PER_CONNECTION - 1 {
                    caller = Caller::connect(address, &bundle).await?;
                }
                let begin = Instant::now();
                caller.review(&review).await?;
                times.push(begin.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    fixture.until_phase("activated").await?;
    signs.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    while let Some(done) = callers.join_next().await {
        times.extend(done.context("a caller broke off")??);
    }
    let end = Usage::from_pid(fixture.replicas[0].process.id())?;
    times.sort_unstable();
    let count = times.len();
    let at = |share: usize| times[(count * share / 1000).min(count - 1)];
    let cpu = 1000 * (end.cpu - begin.cpu) / count as u64;
    fixture.tell(
        &Tally::default(),
        &format!(
            "{count} reviews at {rate}/s: p50 {:?}, p99 {:?}, slowest {:?}; {cpu} µs CPU each; \
             {} KiB resident, {} KiB at most",
            at(500),
            at(990),
            times[count - 1],
            end.resident,
            end.peak
        ),
    )?;
    ensure!(count > 100, "only {count} reviews");
    Ok(())
}

/// A20
pub(crate) async fn slow_idle_and_invalid_clients_affect_no_others(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    fixture.flag("review-timeout", "5s");
    fixture.install(1).await?;
    let address = fixture.replicas[0].address();
    let bundle = fixture.until_published().await?.bundle();
    let load = fixture.load();

    // Each connection is an open file of this process as well.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(address).await?);
    }
    let mut slow = JoinSet::new();
    for beginning in ["POST /inject HTTP/1.1\r\nHost: w", HALF_A_REQUEST] {
        let bundle = bundle.clone();
        slow.spawn(async move {
            let mut caller = Caller::connect(address, &bundle).await?;
            caller.send(beginning.as_bytes()).await?;
            timeout(wait::TIMEOUT, caller.until_closed())
                .await
                .with_context(|| beginning.to_owned())
        });
    }
    let review = review();
    let large = vec![b' '; 20 << 20];
    let wrong: [(&str, &str, &str, &[u8], u16); 6] = [
        ("GET", "/inject", "application/json", b"", 405),
        ("POST", "/nowhere", "application/json", &review, 404),
        ("POST", "/inject", "text/plain", &review, 415),
        ("POST", "/inject", "application/json", b"{", 400),
        ("POST", "/inject", "application/json", &large, 413),
        ("POST", "/inject", "application/json; charset=utf-8", &review, 200),
    ];
    for (method, path, content_type, body, expected) in wrong {
        let mut caller = Caller::connect(address, &bundle).await?;
        let answer = caller.call(method, path, content_type, body).await;
        let answer = answer.with_context(|| format!("{method} {path} {content_type}"))?;
        ensure!(answer.status == expected, "{method} {path}: {}", answer.status);
    }
    while let Some(closed) = slow.join_next().await {
        closed.context("a slow client broke off")??;
    }
    for mut stream in silent {
        let read = timeout(wait::TIMEOUT, stream.read(&mut [0; 64])).await;
        ensure!(!matches!(read.context("a silent client is kept")?, Ok(1..)), "it was answered");
    }
    load.until_admitted(100).await?;
    let tally = load.stop().await?;
    let usage = Usage::from_pid(fixture.replicas[0].process.id())?;
    fixture.tell(&tally, &format!("{SILENT} silent clients; {} KiB at most", usage.peak))?;
    tally.expect_no_failure()
}

/// Replaces the replicas one by one, as a Deployment does: a new one is ready, the old one is
/// terminated, and the Service removes it only a moment later.
pub(crate) async fn rolling_restart_fails_no_admission(fixture: &mut Fixture<'_>) -> Result<()> {
    fixture.flag("shutdown-delay", "60s");
    fixture.install(2).await?;
    let load = fixture.load();
    for _ in 0..fixture.pace().rounds {
        for _ in 0..2 {
            load.until_admitted(40).await?;
            fixture.add()?;
            let mut old = fixture.replicas.remove(0);
            old.process.signal(Signal::TERM)?;
            wait::until_async("the replica is not ready", async || {
                ensure!(old.ready().is_err(), "it is");
                Ok(())
            })
            .await?;
            // It still gets new connections.
            load.until_admitted(10).await?;
            fixture.balance();
            load.until_admitted(10).await?;
            // The rest of the delay is skipped.
            old.process.signal(Signal::TERM)?;
            wait::until("the replica ends", || {
                ensure!(!old.process.runs(), "it runs");
                Ok(())
            })?;
        }
    }
    let tally = load.stop().await?;
    fixture.tell(&tally, "")?;
    tally.expect_no_failure()
}

/// Resource usage of a process.
struct Usage {
    /// CPU time in milliseconds.
    cpu: u64,
    /// Resident memory in KiB.
    resident: u64,
    peak: u64,
}

impl Usage {
    fn from_pid(process: u32) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let fields = stat.rsplit_once(')').context("no name")?.1.split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(str::parse::<u64>).sum::<Result<_, _>>()?;
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let field = |name: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number =
                line.and_then(|line| line.split_whitespace().next()).context("no field")?;
            Ok(number.parse()?)
        };
        Ok(Self {
            cpu: ticks * MILLISECONDS_PER_TICK,
            resident: field("VmRSS:")?,
            peak: field("VmHWM:")?,
        })
    }
}

const CALLERS: u32 = 16;
const PER_CONNECTION: usize = 100;
/// More than there are connection slots.
const SILENT: usize = 2000;
const HALF_A_REQUEST: &str = "POST /inject HTTP/1.1\r\nHost: webhook\r\n\
    Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
/// Clock tick of `times(2)`, the same on all common Linux systems.
const MILLISECONDS_PER_TICK: u64 = 10;
