//! Comparison with the real API server: the same strategic merge, and pods that it accepts.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test fails by panic")]

mod accepted;
mod fields;
mod fragments;
mod merge;
mod mounts;
mod reinjection;
mod rejected_with_istio;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::http::Request;
use e2e::api_servers::ApiServers;
use e2e::programs::Programs;
use kube::Client;
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tokio::runtime::Runtime;

fn main() -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    let Some(programs) = Programs::of_api_servers_if_any("injector kubernetes")? else {
        return Ok(ExitCode::SUCCESS);
    };
    let runtime = Runtime::new().context("starting the runtime")?;
    let server = ApiServers::start(&programs, 1)?;
    let client = runtime.block_on(server.admin(0))?;
    let kubernetes = Kubernetes { runtime, client };
    let conclusion = libtest_mimic::run(&arguments, stories(&Arc::new(kubernetes)));
    drop(server);
    Ok(conclusion.exit_code())
}

fn stories(kubernetes: &Arc<Kubernetes>) -> Vec<Trial> {
    let story = |name: &str, run: fn(&Kubernetes)| {
        let kubernetes = Arc::clone(kubernetes);
        Trial::test(name, move || {
            run(&kubernetes);
            Ok(())
        })
    };
    vec![
        story("merge_equals_the_api_servers", merge::merge_equals_the_api_servers),
        story("every_injected_pod_is_accepted", accepted::every_injected_pod_is_accepted),
        story(
            "stored_pod_is_not_changed_by_reinjection",
            reinjection::stored_pod_is_not_changed_by_reinjection,
        ),
        story("every_field_is_accepted", fields::every_field_is_accepted),
        story(
            "pods_rejected_with_istio_are_accepted",
            rejected_with_istio::pods_rejected_with_istio_are_accepted,
        ),
        story(
            "user_mount_is_read_only_in_any_letter_case",
            mounts::user_mount_is_read_only_in_any_letter_case,
        ),
    ]
}

/// An API server with sequential requests.
pub(crate) struct Kubernetes {
    runtime: Runtime,
    client: Client,
}

impl Kubernetes {
    /// Creates an object; an error is the API server's rejection.
    pub(crate) fn post(&self, path: &str, object: &Value) -> Result<Value, String> {
        self.ask(Request::post(path).header("Content-Type", "application/json"), object)
    }

    pub(crate) fn put(&self, path: &str, object: &Value) -> Result<Value, String> {
        self.ask(Request::put(path).header("Content-Type", "application/json"), object)
    }

    pub(crate) fn patch(&self, path: &str, patch: &Value) -> Result<Value, String> {
        let kind = "application/strategic-merge-patch+json";
        self.ask(Request::patch(path).header("Content-Type", kind), patch)
    }

    fn ask(&self, request: axum::http::request::Builder, body: &Value) -> Result<Value, String> {
        let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
        let answer = self.runtime.block_on(self.client.request::<Value>(request));
        answer.map_err(|error| match error {
            kube::Error::Api(status) => status.message,
            // The API server answers an invalid merge with an internal error.
            other => panic!("no answer: {other}"),
        })
    }
}
