//! Question to the node agent about a pod that the plugin cannot decide.
//!
//! One connection to a Unix socket, one line of JSON in each direction. The question names a pod,
//! never a namespace to enter.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::{CniError, Code};
use crate::capture_request::CaptureRequest;
use crate::pod::PodIdentity;

/// Question about a pod.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID; empty if the runtime does not pass it.
    pub uid: String,
}

/// Answer of the node agent.
#[derive(Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentAnswer {
    /// The pod's traffic is captured.
    Capture(CaptureRequest),
    /// The pod is left as it is.
    Pass,
    /// The pod's traffic has to be captured, and cannot be; the text says why.
    Error(String),
    /// The agent does not know the pod; the text says why.
    Unknown(String),
}

/// Error of a question.
#[derive(Debug)]
pub enum AskError {
    /// The pod has to be captured, and cannot be.
    Rejected(CniError),
    /// The agent does not answer, or does not know the pod.
    Undecided(CniError),
}

impl From<AskError> for CniError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Rejected(error) | AskError::Undecided(error) => error,
        }
    }
}

/// Asks the node agent. Returns the request; `None` if the pod is left as it is.
pub fn ask(run_dir: &Path, pod: &PodIdentity) -> Result<Option<CaptureRequest>, AskError> {
    let socket = run_dir.join(SOCKET);
    let undecided = |what: String| {
        let message =
            format!("pod {pod}: it cannot be decided whether its traffic is captured: {what}");
        AskError::Undecided(CniError::new(Code::TryLater, message).hint(CHECK_AGENT))
    };
    match within_patience(&socket, pod) {
        Ok(AgentAnswer::Capture(request)) => Ok(Some(request)),
        Ok(AgentAnswer::Pass) => Ok(None),
        Ok(AgentAnswer::Error(error)) => {
            let message = format!("pod {pod}: the node agent: {error}");
            Err(AskError::Rejected(CniError::new(Code::TryLater, message)))
        }
        Ok(AgentAnswer::Unknown(error)) => Err(undecided(format!("the node agent: {error}"))),
        Err(error) => Err(undecided(format!(
            "the node agent does not answer at {}: {error}",
            socket.display()
        ))),
    }
}

/// Asks on a thread of its own: to connect can take as long as to read.
fn within_patience(socket: &Path, pod: &PodIdentity) -> io::Result<AgentAnswer> {
    let (sender, receiver) = mpsc::channel();
    let (socket, pod) = (socket.to_owned(), pod.clone());
    thread::Builder::new().spawn(move || {
        // The receiver is gone after the limit.
        let _ = sender.send(exchange(&socket, pod));
    })?;
    let seconds = PATIENCE.as_secs();
    let late = |_| Err(io::Error::other(format!("no answer within {seconds} seconds")));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(late)
}

fn exchange(socket: &Path, pod: PodIdentity) -> io::Result<AgentAnswer> {
    let mut stream = UnixStream::connect(socket)?;
    let PodIdentity { namespace, name, uid } = pod;
    let mut line = serde_json::to_vec(&Question { namespace, name, uid })?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(MOST_BYTES)).read_until(b'\n', &mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}

const CHECK_AGENT: &str =
    "check the pod istio-cni-node of this node (install-cni); the kubelet tries again";
/// File of the socket in the run folder.
pub const SOCKET: &str = "agent.sock";
/// Time limit of the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest answer.
const MOST_BYTES: u64 = 128 * 1024;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    #[test]
    fn answers_of_the_agent_are_parsed() {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let pod = PodIdentity { namespace: "a".into(), name: "b".into(), uid: "c".into() };
        for (answer, outcome) in [
            (r#"{"capture":{"args":["-i","*"],"env":{}}}"#, "captured"),
            (r#""pass""#, "left"),
            (r#"{"error":"invalid port"}"#, "rejected"),
            (r#"{"unknown":"no API server"}"#, "undecided"),
            ("x", "undecided"),
        ] {
            let served = thread::scope(|scope| {
                scope.spawn(|| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut question = String::new();
                    BufReader::new(&stream).read_line(&mut question).unwrap();
                    assert_eq!(question, "{\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"c\"}\n");
                    writeln!(stream, "{answer}").unwrap();
                });
                ask(folder.path(), &pod)
            });
            let found = match served {
                Ok(Some(_)) => "captured",
                Ok(None) => "left",
                Err(AskError::Rejected(_)) => "rejected",
                Err(AskError::Undecided(_)) => "undecided",
            };
            assert_eq!(found, outcome, "{answer}");
        }
    }

    #[test]
    fn silent_agent_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let pod = PodIdentity { namespace: "a".into(), name: "b".into(), uid: String::new() };
        let error = CniError::from(ask(folder.path(), &pod).unwrap_err());
        assert_eq!(error.code, Code::TryLater);
        assert!(error.message.starts_with("pod a/b: "), "{error}");
        assert!(error.details.contains("install-cni"), "{error}");
    }
}
