//! Answers to the questions of the plugin, over a Unix socket in the run folder.
//!
//! Only root gets an answer. A question names a pod, and the agent enters no namespace because of it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use kube_access::names;
use local_files::remove_if_present;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::node_pods::{KnownPod, NodePods};
use crate::retry::until_ok;
use crate::run::create_run_dir;
use cni::question::{AgentAnswer, Question, SOCKET};

/// Answers questions for as long as the program runs, at a socket that is created again if it is
/// removed. There is no client before the API server is known.
pub async fn serve(run_dir: PathBuf, pods: Arc<NodePods>, client: Arc<OnceLock<Client>>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let socket = run_dir.join(SOCKET);
    loop {
        let listener = wait_for_socket(&run_dir).await;
        let mut look = tokio::time::interval(LOOK);
        // A later agent has its own socket in place of this one.
        while fs::symlink_metadata(&socket).is_ok() {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let stream = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!("accepting a question of the plugin: {error}");
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                },
                _ = look.tick() => continue,
            };
            let (pods, client) = (pods.clone(), client.get().cloned());
            tokio::spawn(async move {
                let _slot = slot;
                match timeout(TIME_LIMIT, converse(stream, &pods, client)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!("a question of the plugin: {error}"),
                    Err(_) => tracing::debug!("a question of the plugin: not answered in time"),
                }
            });
        }
        tracing::warn!("{}: it was removed, and is created again", socket.display());
    }
}

async fn wait_for_socket(run_dir: &Path) -> UnixListener {
    until_ok(|| async move {
        create_run_dir(run_dir).and_then(|()| Ok(bind(run_dir)?)).map_err(|error| {
            format!(
                "--cni-agent-run-dir {}: creating the socket: {error:#}; no question of the plugin is \
                 answered until then",
                run_dir.display()
            )
        })
    })
    .await
}

/// Creates the socket in the run folder, in place of one that a former process left.
fn bind(run_dir: &Path) -> io::Result<UnixListener> {
    let socket = run_dir.join(SOCKET);
    remove_if_present(&socket)?;
    let listener = UnixListener::bind(&socket)?;
    fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn converse(
    mut stream: UnixStream,
    pods: &NodePods,
    client: Option<Client>,
) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    if peer.uid() != 0 {
        return Err(io::Error::other(format!("rejected user {}", peer.uid())));
    }
    let (reader, mut writer) = stream.split();
    let mut line = String::new();
    BufReader::new(reader.take(MOST_BYTES)).read_line(&mut line).await?;
    let question: Question = serde_json::from_str(&line)?;
    let mut answer = serde_json::to_vec(&answer(&question, pods, client).await)?;
    answer.push(b'\n');
    writer.write_all(&answer).await
}

/// Answers from the watch, or else by a request: the kubelet may know a new pod before the watch.
async fn answer(question: &Question, pods: &NodePods, client: Option<Client>) -> AgentAnswer {
    let known = match (pods.find(question), client) {
        (Some(known), _) => Ok(known),
        (None, None) => Err("it has no access to the API server yet".to_owned()),
        (None, Some(client)) => get(question, client).await,
    };
    match known {
        Ok(KnownPod::Other(_)) => AgentAnswer::Pass,
        Ok(KnownPod::Captured(pod)) => match pod.request {
            Ok(request) => AgentAnswer::Capture(request),
            Err(error) => AgentAnswer::Error(error),
        },
        Err(error) => AgentAnswer::Unknown(error),
    }
}

async fn get(question: &Question, client: Client) -> Result<KnownPod, String> {
    names::label(&question.namespace)?;
    names::subdomain(&question.name)?;
    let api: Api<Pod> = Api::namespaced(client, &question.namespace);
    let answer = timeout(REQUEST_LIMIT, api.get(&question.name)).await;
    let answer = answer.map_err(|_| "the API server does not answer".to_owned())?;
    let pod = answer.map_err(|error| kube_access::with_causes(&error))?;
    let known = KnownPod::read(&pod);
    let uid = &known.identity().uid;
    if !question.uid.is_empty() && *uid != question.uid {
        return Err(format!("the pod of this name has UID {uid}, not {}", question.uid));
    }
    Ok(known)
}

/// Questions answered at a time.
const CONNECTIONS: usize = 64;
/// Time limit of a question; the plugin waits two seconds.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// Time limit of the request for a pod.
const REQUEST_LIMIT: Duration = Duration::from_millis(1500);
/// Interval of looks at the socket.
const LOOK: Duration = Duration::from_secs(1);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest question.
const MOST_BYTES: u64 = 4096;
