//! Table of the figures.

use std::fmt::Write as _;
use std::time::Duration;

use crate::measurement::Change;

/// Figures of one server.
pub(crate) struct Figures {
    pub(crate) ready: Duration,
    pub(crate) connected: Duration,
    /// CPU time from the start until all clients were connected.
    pub(crate) cpu: Duration,
    /// Resident memory with all clients connected, in MB.
    pub(crate) memory: u64,
    /// Changes with one client.
    pub(crate) one: Vec<Change>,
    /// Changes with all clients.
    pub(crate) many: Vec<Change>,
}

/// Returns a row for each server, and one with the ratios.
pub(crate) fn table(clients: usize, ours: &Figures, istio: &Figures) -> String {
    let [ours, istio] = [ours, istio].map(|figures| columns(clients, figures));
    let ratios: Vec<f64> = istio.iter().zip(&ours).map(|(istio, ours)| istio.1 / ours.1).collect();
    let values = |columns: &[(String, f64)]| columns.iter().map(|it| it.1).collect::<Vec<_>>();
    let titles: Vec<_> = ours.iter().map(|(title, _)| title.as_str()).collect();
    let mut text = format!("| control plane | {} |\n", titles.join(" | "));
    let _ = writeln!(text, "| --- |{}", " --- |".repeat(titles.len()));
    let rows = [
        ("Outrigger", values(&ours)),
        ("Istio", values(&istio)),
        ("Istio's figure, divided by ours", ratios),
    ];
    for (name, values) in rows {
        let cells: Vec<_> = values.into_iter().map(cell).collect();
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

fn columns(clients: usize, figures: &Figures) -> Vec<(String, f64)> {
    let Figures { ready, connected, cpu, memory, one, many } = figures;
    let acknowledged = |changes: &[Change], share| quantile(changes, share, |it| it.acknowledged);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let memory = *memory as f64;
    let columns = [
        ("exec to ready, s".to_owned(), ready.as_secs_f64()),
        (format!("{clients} clients have everything, s"), connected.as_secs_f64()),
        ("CPU then, s".to_owned(), cpu.as_secs_f64()),
        ("memory then, MB".to_owned(), memory),
        ("change to ACK, 1 client: p50, ms".to_owned(), acknowledged(one, 50)),
        ("p99, ms".to_owned(), acknowledged(one, 99)),
        (format!("to the last ACK, {clients} clients: p50, ms"), acknowledged(many, 50)),
        ("worst, ms".to_owned(), acknowledged(many, 100)),
        ("of it the API server, 1 client: p50, ms".to_owned(), quantile(one, 50, |it| it.written)),
    ];
    columns.into()
}

/// Returns the time that `percent` of the changes did not exceed, in milliseconds.
fn quantile(changes: &[Change], percent: usize, time: fn(&Change) -> Duration) -> f64 {
    let mut times: Vec<_> = changes.iter().map(time).collect();
    times.sort_unstable();
    let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0)
}

fn cell(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
