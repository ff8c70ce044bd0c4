//! One running `sidecar-injector`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, bail};
use e2e::port::free_port;
use e2e::process::Process;
use e2e::run_folder::RunFolder;
use e2e::{http, wait};
use rustix::process::Signal;

/// A replica with ports of its own.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) process: Process,
    https: u16,
    admin: u16,
}

impl Replica {
    /// Starts a replica; its log has the name `name`.
    pub(crate) fn start(
        folder: &RunFolder,
        program: &Path,
        name: &str,
        flags: &[String],
    ) -> Result<Self> {
        let (https, admin) = (free_port()?, free_port()?);
        let own = [
            format!("--httpsAddr=127.0.0.1:{https}"),
            format!("--adminAddr=127.0.0.1:{admin}"),
            "--log_output_level=default:info".to_owned(),
        ];
        let delay = "--shutdown-delay";
        let is_delay = |flag: &String| flag.starts_with(delay);
        let delay = (!flags.iter().any(is_delay)).then(|| format!("{delay}=100ms"));
        let process = Process::start(folder, name, program, own.iter().chain(&delay).chain(flags))?;
        Ok(Self { process, https, admin })
    }

    /// Returns the address for reviews.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.https).into()
    }

    /// Returns an error unless the replica reports readiness.
    pub(crate) fn ready(&self) -> Result<()> {
        http::get(self.admin(), "/healthz/ready")?.expect_ok().map(drop)
    }

    /// Waits until it is ready, and fails at once if it ends before.
    pub(crate) fn until_ready(&mut self) -> Result<()> {
        let admin = self.admin();
        self.process.wait_until("the replica is ready", || {
            http::get(admin, "/healthz/ready")?.expect_ok().map(drop)
        })
    }

    /// Returns the value of a metric, by its name with labels.
    pub(crate) fn metric(&self, name: &str) -> Result<i64> {
        let page = http::get(self.admin(), "/metrics")?.expect_ok()?;
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .with_context(|| format!("there is no metric {name}"))?;
        line.parse().with_context(|| format!("metric {name}: {line}"))
    }

    /// Waits until a metric has a wanted value.
    pub(crate) fn until_metric(&self, name: &str, wanted: impl Fn(i64) -> bool) -> Result<()> {
        wait::until(name, || {
            let value = self.metric(name)?;
            if wanted(value) { Ok(()) } else { bail!("it is {value}") }
        })
    }

    /// Suspends the replica, as on a machine that hangs.
    pub(crate) fn pause(&self) -> Result<()> {
        self.process.signal(Signal::STOP)
    }

    /// Resumes the replica.
    pub(crate) fn resume(&self) -> Result<()> {
        self.process.signal(Signal::CONT)
    }

    fn admin(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.admin).into()
    }
}
