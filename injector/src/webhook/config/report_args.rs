//! Flags of reports.

use std::time::Duration;

/// Flags of reports on pods.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Reports")]
pub struct ReportArgs {
    /// Interval of reports on pods without a sidecar that should have one, or with a stale one;
    /// without it there are no reports, because they need permission to list the pods of the whole
    /// cluster [default: none]
    #[arg(long = "report-interval", env = "REPORT_INTERVAL", value_name = "DURATION",
          value_parser = interval)]
    pub interval: Option<Duration>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match go_duration::non_negative(text) {
        Ok(interval) if interval < SHORTEST => Err("want at least 1s".to_owned()),
        Ok(interval) => Ok(interval),
        Err(error) => Err(error.to_string()),
    }
}

/// Shortest interval. Each report reads all pods of the cluster.
const SHORTEST: Duration = Duration::from_secs(1);
