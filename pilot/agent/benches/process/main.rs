//! Benchmark of `pilot-agent proxy` as a process, beside Istio's: time from exec to Envoy's start,
//! memory, CPU while idle, and statistics of 10 MB.
//!
//! Both programs start the same stand-in for Envoy, in a network namespace of their own. The
//! machine is noisy: the fastest of many starts counts, and ratios are of one run. `make bench`
//! builds what it needs.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

mod agent;
mod envoy;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::istio_programs::IstioPrograms;
use e2e::programs::Programs;

use agent::Agent;

fn main() -> Result<()> {
    if envoy::is_wanted() {
        return envoy::run();
    }
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("left out: only `make bench` has what is measured here");
        return Ok(());
    }
    let ours = Programs::find()?.own("pilot-agent")?;
    let mut programs = vec![("Outrigger", ours.as_path())];
    let istio = IstioPrograms::find_if_any("Istio's agent")?;
    let istio = istio.map(|istio| istio.program("pilot-agent")).transpose()?;
    programs.extend(istio.as_deref().map(|istio| ("Istio", istio)));

    println!("| pilot-agent | {} |", titles(&programs));
    println!("| --- |{}", " --- |".repeat(programs.len()));
    row("size, MB", &programs, |program| Ok(megabytes(std::fs::metadata(program)?.len())))?;
    row("exec to Envoy's start, ms", &programs, start_time)?;
    let mut figures = Vec::new();
    for (_, program) in &programs {
        figures.push(Figures::measure(program)?);
    }
    let figure = |title: &str, figure: fn(&Figures) -> String| {
        let cells: Vec<_> = figures.iter().map(figure).collect();
        println!("| {title} | {} |", cells.join(" | "));
    };
    figure("memory while idle, MB", |figures| format!("{:.1}", figures.idle));
    figure("memory after 10 scrapes of 10 MB, MB", |figures| format!("{:.1}", figures.scraped));
    figure("a scrape of 10 MB, ms", |figures| format!("{:.0}", figures.scrape));
    figure("CPU while idle, % of a core", |figures| format!("{:.3}", figures.cpu));
    Ok(())
}

/// Figures of one running agent.
struct Figures {
    idle: f64,
    scraped: f64,
    scrape: f64,
    cpu: f64,
}

impl Figures {
    fn measure(program: &Path) -> Result<Self> {
        let agent = Agent::start(program)?;
        agent.wait_until_envoy_started()?;
        agent.wait_until_status_answers()?;
        let cpu = agent.cpu_share(IDLE)?;
        let idle = agent.memory()?;
        let mut scrape = f64::MAX;
        for _ in 0..SCRAPES {
            let start = Instant::now();
            let length = agent.scrape()?;
            anyhow::ensure!(length >= envoy::STATISTICS, "{length} bytes of statistics");
            scrape = scrape.min(start.elapsed().as_secs_f64() * 1_000.0);
        }
        Ok(Self { idle, scraped: agent.memory()?, scrape, cpu })
    }
}

/// Returns the fastest time from exec of the agent to Envoy's first step, without the start of the
/// stand-in itself, in milliseconds.
fn start_time(program: &Path) -> Result<String> {
    let (mut with_agent, mut alone) = (f64::MAX, f64::MAX);
    for _ in 0..STARTS {
        let agent = Agent::start(program)?;
        with_agent = with_agent.min(agent.wait_until_envoy_started()?);
        drop(agent);
        alone = alone.min(Agent::start_of_envoy_alone()?);
    }
    Ok(format!("{:.1}", with_agent - alone))
}

fn titles(programs: &[(&str, &Path)]) -> String {
    programs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" | ")
}

fn row(
    title: &str,
    programs: &[(&str, &Path)],
    figure: impl Fn(&Path) -> Result<String>,
) -> Result<()> {
    let cells: Result<Vec<_>> =
        programs.iter().map(|(name, path)| figure(path).context(name.to_string())).collect();
    println!("| {title} | {} |", cells?.join(" | "));
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is printed")]
fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

const STARTS: usize = 20;
const SCRAPES: usize = 10;
const IDLE: Duration = Duration::from_secs(60);
