//! Continuous calls of the webhook by API servers.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

/// Results of the calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Rc<RefCell<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    admitted: usize,
    failures: Vec<(Instant, String)>,
}

impl Tally {
    pub(crate) fn admitted(&self) -> usize {
        self.0.borrow().admitted
    }

    /// Fails if a call that ended since `instant` failed.
    pub(crate) fn expect_no_failure(&self, instant: Instant) -> Result<()> {
        let counts = self.0.borrow();
        let mut since = counts.failures.iter().filter(|(at, _)| *at >= instant);
        let count = since.clone().count();
        match since.next() {
            Some((_, first)) => bail!("{count} of {} calls, the first: {first}", counts.admitted),
            None => Ok(()),
        }
    }

    fn count(&self, outcome: Result<(), String>) {
        let mut counts = self.0.borrow_mut();
        match outcome {
            Ok(()) => counts.admitted += 1,
            Err(error) => counts.failures.push((Instant::now(), error)),
        }
    }

    /// Makes calls through one API server for as long as it is polled.
    pub(crate) async fn call(&self, number: usize, client: Client, namespace: &str) -> Infallible {
        let api = Api::<ConfigMap>::namespaced(client, namespace);
        let how = PostParams { dry_run: true, ..PostParams::default() };
        let map = json!({"metadata": {"generateName": "call-", "labels": {"reviewed": "true"}}});
        loop {
            let created = match serde_json::from_value(map.clone()) {
                Ok(map) => {
                    api.create(&how, &map).await.map(drop).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            self.count(created.map_err(|error| format!("API server {number}: {error}")));
            tokio::time::sleep(BETWEEN_CALLS).await;
        }
    }
}

const BETWEEN_CALLS: Duration = Duration::from_millis(20);
