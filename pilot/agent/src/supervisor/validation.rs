//! Validation of a bootstrap by Envoy (`--mode validate`).

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::machine::{Event, Revision, Verdict};
use super::process::{Process, describe};
use super::{Desired, Message, Options, bootstrap_files, command, error_output};

/// Validation that runs. Its process and its file end with it.
///
/// A child closes the admin interface of its parent before it reads listeners and clusters. So
/// a bootstrap is validated first.
#[derive(Debug)]
pub(super) struct Validation {
    task: JoinHandle<()>,
    process: u32,
    file: PathBuf,
}

impl Validation {
    /// Starts Envoy with this file. [`Event::Checked`] follows.
    pub(super) fn start(
        options: &Options,
        desired: &Desired,
        file: PathBuf,
        revision: Revision,
        messages: UnboundedSender<Message>,
    ) -> io::Result<Self> {
        let mut arguments = command::arguments(&options.envoy, desired, &file, false, 0);
        arguments.extend(["--mode".into(), "validate".into()]);
        let Options { agent, envoy, .. } = options;
        let (process, child) =
            Process::start(agent, &envoy.binary, &arguments, Stdio::null(), Stdio::piped())?;
        let task = tokio::spawn(async move {
            let verdict = verdict(child).await;
            // The receiver ends with supervision.
            let _ = messages.send(Message::Event(Event::Checked(revision, verdict)));
        });
        Ok(Self { task, process: process.id(), file })
    }

    /// Process id.
    pub(super) fn process(&self) -> u32 {
        self.process
    }
}

impl Drop for Validation {
    fn drop(&mut self) {
        self.task.abort();
        bootstrap_files::remove(&self.file);
    }
}

/// Returns the bootstrap for a validation.
///
/// Envoy does not validate the patterns of statistics. So they are filters of the admin interface's
/// access log here, too.
pub(super) fn candidate(bootstrap: &Value) -> Value {
    let mut candidate = bootstrap.clone();
    let patterns = bootstrap.pointer("/stats_config/stats_matcher/inclusion_list/patterns");
    if let (Some(patterns), Some(admin)) =
        (patterns.and_then(Value::as_array), candidate.get_mut("admin"))
    {
        let log = |pattern| {
            json!({
                "name": "patterns",
                "filter": {
                    "header_filter": { "header": { "name": "pattern", "string_match": pattern } },
                },
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                    "path": "/dev/null",
                },
            })
        };
        admin["access_log"] = patterns.iter().map(log).collect();
    }
    candidate
}

/// Waits for the result.
async fn verdict(mut child: Child) -> Verdict {
    let stderr = child.stderr.take();
    let output = async {
        let mut output = Vec::new();
        if let Some(stderr) = stderr {
            // Without output, the exit status remains.
            let _ = stderr.take(OUTPUT_LIMIT).read_to_end(&mut output).await;
        }
        let status = child.wait().await;
        (status, output)
    };
    let Ok((status, output)) = timeout(TIMEOUT, output).await else {
        return Verdict::Failed(format!("its validation took more than {} s", TIMEOUT.as_secs()));
    };
    match status {
        Ok(status) if status.success() => Verdict::Allowed,
        Ok(status) if status.code().is_some() => {
            let reason = error_output::reason(&output);
            Verdict::Rejected(
                reason.map_or_else(|| describe(status), |reason| without_file(&reason).to_owned()),
            )
        }
        Ok(status) => Verdict::Failed(format!("its validation failed: {}", describe(status))),
        Err(error) => Verdict::Failed(format!("its validation failed: {error}")),
    }
}

/// Removes the name of the file, which is that of the validation.
fn without_file(reason: &str) -> &str {
    let error = reason.strip_prefix(FILE).and_then(|rest| rest.split_once("': "));
    error.map_or(reason, |(_, error)| error)
}

/// Start of Envoy's message.
const FILE: &str = "error initializing configuration '";
const TIMEOUT: Duration = Duration::from_secs(30);
const OUTPUT_LIMIT: u64 = 256 * 1024;
