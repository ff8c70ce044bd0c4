//! Requests to the API server of a node by this process: a kubectl takes a tenth of a second of CPU
//! for each.

use std::fmt;

use anyhow::{Context, Result};
use hyper::Request;
use kube::Client;
use tokio::runtime::{Builder, Runtime};

use crate::api_servers::admin;
use crate::identity::Server;

/// A client of the administrator.
pub(crate) struct ApiClient {
    runtime: Runtime,
    client: Client,
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ApiClient").finish_non_exhaustive()
    }
}

impl ApiClient {
    pub(crate) fn new(server: &Server) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.context("making a runtime")?;
        let client = runtime.block_on(admin(server))?;
        Ok(Self { runtime, client })
    }

    /// Returns what is at a path of the API.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        let request = Request::get(path).body(Vec::new())?;
        let answer = self.runtime.block_on(self.client.request_text(request));
        answer.with_context(|| path.to_owned())
    }
}
