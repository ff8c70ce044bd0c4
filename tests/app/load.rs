//! Requests at a constant rate, and a report about them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};

use crate::client;

/// Answers since the first one, and failures that have not been reported yet.
#[derive(Debug, Default)]
struct Report {
    answered: u64,
    failed: Vec<Value>,
}

/// Requests a URL `rate` times a second, whether or not earlier requests are answered, and reports
/// to each connection to a port, each failure once. Requests before the first answer do not count.
pub(crate) async fn run(url: String, rate: u32, port: u16) -> Result<()> {
    let report = Arc::new(Mutex::new(Report::default()));
    let listener = TcpListener::bind(("::", port)).await.context("listening for the report")?;
    tokio::spawn(request(url, rate, Arc::clone(&report)));
    loop {
        let (mut stream, _) = listener.accept().await.context("taking a connection")?;
        let text = {
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            let failed = std::mem::take(&mut report.failed);
            json!({ "answered": report.answered, "failed": failed }).to_string()
        };
        // A reader that has gone needs no report.
        let _ = stream.write_all(text.as_bytes()).await;
    }
}

async fn request(url: String, rate: u32, report: Arc<Mutex<Report>>) {
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while client::answer(&url).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ticks.reset();
    loop {
        ticks.tick().await;
        let (url, report) = (url.clone(), Arc::clone(&report));
        tokio::spawn(async move {
            let began = milliseconds();
            let answer = client::answer(&url).await;
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            match answer {
                Ok(_) => report.answered += 1,
                Err(error) => {
                    let failure = json!({
                        "began": began,
                        "ended": milliseconds(),
                        "reason": format!("{error:#}"),
                    });
                    report.failed.push(failure);
                }
            }
        });
    }
}

/// Time since 1970. The machine's clock, as that of the test.
fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
