//! `pilot-agent request`: sends a request to the pod's loopback address, and fails if the answer is
//! a failure.

use anyhow::Result;

use crate::arguments::Request;
use crate::http::ask_loopback;

/// Prints the answer.
#[expect(clippy::print_stdout, reason = "the answer is what was asked for")]
pub(crate) async fn run(request: &Request) -> Result<()> {
    let path = format!("/{}", request.path.trim_start_matches('/'));
    let answer = ask_loopback(&request.method, request.port, &path).await?;
    println!("{}", answer.trim_end());
    Ok(())
}
