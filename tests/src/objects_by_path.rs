//! Objects of any kind as JSON, by their paths in the API.

use anyhow::{Context, Result};
use hyper::Request;
use kube::Client;
use serde_json::Value;

use crate::api_servers::ApiServers;

/// A client of the administrator for objects of any kind.
#[derive(Clone)]
pub struct ObjectsByPath {
    client: Client,
}

impl ObjectsByPath {
    /// Connects to one of the API servers.
    pub async fn new(servers: &ApiServers, index: usize) -> Result<Self> {
        Ok(Self { client: servers.admin(index).await? })
    }

    /// Returns an object, or a list.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.send(Request::get(path).body(Vec::new())?).await.with_context(|| path.to_owned())
    }

    /// Creates or changes an object.
    pub async fn apply(&self, path: &str, object: &Value) -> Result<()> {
        let request = Request::patch(format!("{path}?fieldManager=test&force=true"))
            .header("content-type", "application/apply-patch+yaml")
            .body(object.to_string().into_bytes())?;
        self.send(request).await.map(drop).with_context(|| path.to_owned())
    }

    /// Deletes an object at once, if it exists.
    pub async fn delete(&self, path: &str) -> Result<()> {
        let request = Request::delete(format!("{path}?gracePeriodSeconds=0")).body(Vec::new())?;
        match self.send(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(error)) if error.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(|| path.to_owned()),
        }
    }

    async fn send(&self, request: Request<Vec<u8>>) -> kube::Result<Value> {
        self.client.request(request).await
    }
}
