//! Figures of both pairs over all rounds, and their ratios.

use std::fmt::{self, Display, Formatter};

use crate::pair::Measurement;

/// Measurements of both pairs under one kind of load.
pub(crate) struct Comparison {
    load: &'static str,
    generated: Measurement,
    handwritten: Measurement,
}

impl Comparison {
    pub(crate) fn new(load: &'static str) -> Self {
        Self { load, generated: Measurement::default(), handwritten: Measurement::default() }
    }

    pub(crate) fn add(&mut self, is_generated: bool, measured: Measurement) {
        let sum = if is_generated { &mut self.generated } else { &mut self.handwritten };
        sum.add(measured);
    }
}

/// Lines of a table.
impl Display for Comparison {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let figures = [&self.generated, &self.handwritten].map(figures);
        for (number, name) in NAMES.iter().enumerate() {
            let [generated, handwritten] = figures.map(|figures| figures[number]);
            let (load, ratio) = (self.load, generated / handwritten);
            writeln!(
                formatter,
                "| {load}: {name} | {generated:.0} | {handwritten:.0} | {ratio:.3} |"
            )?;
        }
        Ok(())
    }
}

fn figures(measured: &Measurement) -> [f64; 4] {
    let mut latencies = measured.latencies.clone();
    latencies.sort_unstable();
    let share = |percent: usize| latencies[latencies.len() * percent / 100].as_secs_f64() * 1e6;
    let count = f64::from(u32::try_from(latencies.len()).unwrap());
    let per_second = count / measured.elapsed.as_secs_f64();
    [share(50), share(99), per_second, measured.cpu.as_secs_f64() * 1e6 / count]
}

const NAMES: [&str; 4] = ["p50 µs", "p99 µs", "requests/s", "CPU of both Envoys, µs a request"];
