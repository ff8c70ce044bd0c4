//! Requests with the token of an account, as a thief of the token sends them.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use http_body_util::BodyExt;
use hyper::Request;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::fixture::Fixture;
use crate::injector::token_in;

/// Answer of the API server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
}

/// Dry run, on which the API server decides in the same way, admission included, without changing
/// anything.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Dry {
    Yes,
    No,
}

/// Client with an account's token.
pub(crate) struct Thief<'a> {
    fixture: &'a Fixture,
    client: Client,
}

impl<'a> Thief<'a> {
    /// Returns the client of an account in `istio-system`.
    pub(crate) fn new(fixture: &'a Fixture, account: &str) -> Result<Self> {
        Self::in_namespace(fixture, "istio-system", account)
    }

    /// Returns the client of an account in any namespace.
    pub(crate) fn in_namespace(
        fixture: &'a Fixture,
        namespace: &str,
        account: &str,
    ) -> Result<Self> {
        let token = token_in(fixture, namespace, account)?;
        let client = fixture.runtime.block_on(fixture.servers.client(0, &token))?;
        Ok(Self { fixture, client })
    }

    /// Sends a request.
    pub(crate) fn send(&self, verb: &str, path: &str, body: &Value, dry: Dry) -> Result<Answer> {
        let (method, content) = match verb {
            "get" | "list" | "watch" | "impersonate" => ("GET", None),
            "create" => ("POST", Some("application/json")),
            "update" => ("PUT", Some("application/json")),
            "patch" => ("PATCH", Some("application/json-patch+json")),
            "apply" => ("PATCH", Some("application/apply-patch+yaml")),
            "delete" | "deletecollection" => ("DELETE", Some("application/json")),
            verb => anyhow::bail!("no such verb: {verb}"),
        };
        let mut query = BTreeSet::new();
        if content.is_some() && dry == Dry::Yes {
            query.insert("dryRun=All");
        }
        if verb == "apply" {
            query.extend(["fieldManager=thief", "force=true"]);
        }
        if verb == "watch" {
            // Answered immediately from the API server's cache.
            query.extend(["watch=true", "timeoutSeconds=1", "resourceVersion=0"]);
        }
        let separator = if path.contains('?') { "&" } else { "?" };
        let query: Vec<_> = query.into_iter().collect();
        let target = format!("{path}{separator}{}", query.join("&"));
        let mut request = Request::builder().method(method).uri(target);
        if let Some(content) = content {
            request = request.header("Content-Type", content);
        }
        if verb == "impersonate" {
            request = request.header("Impersonate-User", "admin");
            request = request.header("Impersonate-Group", "system:masters");
        }
        let body = if content.is_some() { body.to_string().into_bytes() } else { Vec::new() };
        let request = request.body(Body::from(body))?;
        self.fixture.runtime.block_on(async {
            let answer = self.client.send(request).await.context("asking the API server")?;
            let code = answer.status().as_u16();
            // The body of a watch does not end by itself.
            let body = if verb == "watch" { Vec::new() } else { read(answer.into_body()).await? };
            Ok(Answer { code, body: String::from_utf8_lossy(&body).into_owned() })
        })
    }
}

impl Answer {
    /// True if a policy has denied the request with this text.
    pub(crate) fn is_denied(&self, text: &str) -> bool {
        self.code == 422 && self.body.contains(text)
    }
}

async fn read(body: Body) -> Result<Vec<u8>> {
    Ok(body.collect().await.context("reading an answer")?.to_bytes().to_vec())
}
