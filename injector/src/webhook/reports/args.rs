//! The flags of reports.

use std::time::Duration;

/// What to report on pods.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Reports")]
pub struct ReportArgs {
    /// How often to look for pods that run without a sidecar though they should not, or with a stale
    /// one; without it, never, since it takes the right to list the pods of the whole cluster
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

/// All pods of a cluster are read each time.
const SHORTEST: Duration = Duration::from_secs(1);
