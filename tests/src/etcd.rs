//! etcd, the API server's store.

use std::path::Path;

use anyhow::Result;
use rustix::process::Signal;

use crate::http;
use crate::port::free_port;
use crate::process::Process;
use crate::run_folder::RunFolder;

/// A running etcd on the loopback address that does not wait for the disk.
#[derive(Debug)]
pub(crate) struct Etcd {
    process: Process,
    url: String,
}

impl Etcd {
    /// Starts etcd and waits until it is healthy.
    pub(crate) fn start(folder: &RunFolder, program: &Path) -> Result<Self> {
        let port = free_port()?;
        let url = format!("http://127.0.0.1:{port}");
        let peer = format!("http://127.0.0.1:{}", free_port()?);
        let data = folder.folder("etcd")?;
        let mut process = Process::start(
            folder,
            "etcd",
            program,
            [
                "--unsafe-no-fsync",
                "--name=node",
                &format!("--data-dir={}", data.display()),
                &format!("--listen-client-urls={url}"),
                &format!("--advertise-client-urls={url}"),
                &format!("--listen-peer-urls={peer}"),
                &format!("--initial-advertise-peer-urls={peer}"),
                &format!("--initial-cluster=node={peer}"),
            ],
        )?;
        process.wait_until("etcd is healthy", || {
            http::get(([127, 0, 0, 1], port).into(), "/health")?.expect_ok()
        })?;
        Ok(Self { process, url })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Kills etcd, starts it again with its data, and waits until it is healthy.
    pub(crate) fn restart(&mut self, folder: &RunFolder) -> Result<()> {
        self.kill()?;
        self.start_again(folder)
    }

    /// Kills etcd.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Starts the killed etcd with its data, and waits until it is healthy.
    pub(crate) fn start_again(&mut self, folder: &RunFolder) -> Result<()> {
        self.process.start_again(folder)?;
        let address = self.url.trim_start_matches("http://").parse()?;
        self.process
            .wait_until("etcd is healthy", || http::get(address, "/health")?.expect_ok())?;
        Ok(())
    }
}
