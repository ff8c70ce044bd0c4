//! Process of an epoch, with its output and its observer.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::machine::Revision;
use super::parent_socket::ParentSocket;
use super::process::Process;
use super::{Message, Options, error_output, guard};
use crate::admin::Admin;

/// Envoy of an epoch.
#[derive(Debug)]
pub(super) struct RunningEnvoy {
    process: Process,
    pub(super) revision: Revision,
    observer: JoinHandle<()>,
    pub(super) is_live: bool,
    /// Stand-in for its parent, if that has exited.
    pub(super) parent_socket: Option<ParentSocket>,
}

/// End of an epoch's process.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) epoch: u32,
    pub(super) status: io::Result<ExitStatus>,
    /// Last error in its log.
    pub(super) error: Option<String>,
}

impl RunningEnvoy {
    /// Starts Envoy and observes it until it is live. [`Message::Ended`] follows.
    pub(super) fn start(
        options: &Options,
        arguments: &[OsString],
        (epoch, revision): (u32, Revision),
        admin: Admin,
        messages: &UnboundedSender<Message>,
    ) -> io::Result<Self> {
        let Options { agent, envoy, .. } = options;
        let (process, mut child) =
            Process::start(agent, &envoy.binary, arguments, Stdio::inherit(), Stdio::piped())?;
        tracing::info!("starting Envoy (epoch {epoch}, process {})", process.id());
        let (tail, output) = watch::channel(Vec::new());
        let passed_on = child
            .stderr
            .take()
            .map(|stderr| tokio::spawn(error_output::pass_on(stderr, io::stderr(), tail)));
        let ended = messages.clone();
        tokio::spawn(async move {
            let status = child.wait().await;
            if let Some(passed_on) = passed_on {
                // A process that Envoy's wrapper left behind may keep the pipe open.
                let _ = timeout(OUTPUT_TIMEOUT, passed_on).await;
            }
            let error = error_output::reason(&output.borrow());
            // The receiver ends with supervision.
            let _ = ended.send(Message::Ended(Ended { epoch, status, error }));
        });
        let observer = tokio::spawn(guard::observe(admin, epoch, messages.clone()));
        Ok(Self { process, revision, observer, is_live: false, parent_socket: None })
    }

    /// Process id.
    pub(super) fn process(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

impl Drop for RunningEnvoy {
    fn drop(&mut self) {
        self.observer.abort();
    }
}

/// Time to read the rest of an exited Envoy's output.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
