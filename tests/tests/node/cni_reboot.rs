//! A node that loses its power, and starts before its API server and the node agent.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::{Context, Result, ensure};
use e2e::cluster::Cluster;
use e2e::wait;
use serde_json::{Value, json};

use crate::cni::{Agent, checking_pod, configurations, is_refused_without_agent, run_folder};
use crate::fixture::Fixture;

pub(crate) fn rebooted_node_starts_no_pod_without_capture(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster();
    let before = configurations(cluster)?;
    let visits = Visits::listen(cluster)?;
    let mut agent = Agent::start(cluster)?;
    let namespace = cluster.namespace("reboot", &[])?;
    let requested = ["web-0", "web-1", "web-2", "web-3"];
    for name in requested {
        namespace.apply(&visiting_pod(cluster, &visits, name, Capture::Requested)?.to_string())?;
    }
    namespace.apply(&visiting_pod(cluster, &visits, "foreign", Capture::Foreign)?.to_string())?;
    namespace.apply(&visiting_pod(cluster, &visits, "plain", Capture::None)?.to_string())?;
    for (name, capture) in [("static", Capture::Requested), ("static-plain", Capture::None)] {
        let mut pod = visiting_pod(cluster, &visits, name, capture)?;
        pod["metadata"]["namespace"] = namespace.name().into();
        fs::write(cluster.static_pods().join(name), pod.to_string())?;
    }
    let started = |names: &[&str]| names.iter().try_for_each(|name| visits.wait_for(name));
    let captured: Vec<_> = requested.iter().map(|name| format!("{name}/proxy")).collect();
    let captured: Vec<_> = captured.iter().map(String::as_str).collect();
    started(&captured)?;
    started(&["foreign/proxy", "plain/app", "static/proxy", "static-plain/app"])?;

    cluster.without_api_server(|| {
        cluster.reboot(|| {
            agent.process.kill()?;
            fs::remove_dir_all(run_folder(cluster)).context("emptying the run folder")?;
            write_again(cluster)?;
            visits.forget()
        })?;
        started(&["static/proxy", "static-plain/app"])
    })?;
    started(&captured)?;
    started(&["plain/app"])?;
    is_refused_without_agent(&namespace, "foreign")?;
    ensure!(!visits.all().contains("foreign/proxy"), "it has started without the agent");
    agent.process.start_again(cluster.folder())?;
    started(&["foreign/proxy"])?;

    let uncaptured: Vec<_> = visits.all().into_iter().filter(|path| is_uncaptured(path)).collect();
    ensure!(uncaptured.is_empty(), "not captured: {uncaptured:?}");
    for name in ["static", "static-plain"] {
        fs::remove_file(cluster.static_pods().join(name))?;
    }
    namespace.kubectl(&["delete", "pods", "--all", "--timeout=120s", "--grace-period=1"])?;
    agent.process.stop()?;
    // The plugin stays for the pods of other stories, which have started again with it.
    agent.succeeds(&["uninstall"])?;
    ensure!(configurations(cluster)? == before, "{:?}", configurations(cluster)?);
    namespace.delete()
}

/// Writes the network's own file anew, as a program of the network does when it starts.
fn write_again(cluster: &Cluster) -> Result<()> {
    let folder = cluster.network_configurations();
    let (file, new) = (folder.join("network.conflist"), folder.join("network.new"));
    fs::write(&new, fs::read(&file)?)?;
    fs::rename(&new, &file).context("replacing the network's file")
}

/// Request for capture in a pod's annotations.
#[derive(Clone, Copy, PartialEq)]
enum Capture {
    None,
    /// That of another injector, which the agent answers.
    Foreign,
    Requested,
}

/// A pod that visits a server all the time: as the user of the application, and as that of the proxy,
/// which is never captured. No Envoy listens in the pod, so no captured connection arrives.
fn visiting_pod(cluster: &Cluster, visits: &Visits, name: &str, capture: Capture) -> Result<Value> {
    let mut pod = checking_pod(cluster, name, capture == Capture::Requested)?;
    if capture == Capture::None {
        pod["metadata"]["annotations"] = json!({});
        pod["spec"]["initContainers"] = json!([]);
    }
    let container = |role: &str, user: u32| {
        let url = format!("http://{}/{name}/{role}", visits.address);
        let visit = format!(
            "trap exit TERM; while :; do wget -q -O /dev/null {url}; sleep 0.2 & wait; done"
        );
        json!({"name": role, "image": "busybox:1.37", "command": ["sh", "-c", visit],
            "securityContext": {"runAsUser": user, "runAsGroup": user}})
    };
    pod["spec"]["restartPolicy"] = "Always".into();
    pod["spec"]["containers"] = json!([container("app", 1000), container("proxy", 1337)]);
    Ok(pod)
}

fn is_uncaptured(path: &str) -> bool {
    path.ends_with("/app") && !path.contains("plain")
}

/// A server that keeps the paths of its requests.
struct Visits {
    address: SocketAddr,
    paths: Arc<Mutex<BTreeSet<String>>>,
}

impl Visits {
    /// Listens on the machine's address on the bridge, until the process ends.
    fn listen(cluster: &Cluster) -> Result<Self> {
        let listener = TcpListener::bind((cluster.address(), 0)).context("listening for pods")?;
        let (address, paths) = (listener.local_addr()?, Arc::default());
        let visits = Self { address, paths: Arc::clone(&paths) };
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // Pods end in the middle of a request.
                if let Ok(path) = answered(&connection) {
                    paths.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
                }
            }
        });
        Ok(visits)
    }

    /// Waits for a request for a path, which is without the first slash.
    fn wait_for(&self, path: &str) -> Result<()> {
        wait::until(&format!("there is a visit of {path}"), || {
            let all = self.all();
            ensure!(all.contains(path), "{all:?}");
            Ok(())
        })
    }

    fn all(&self) -> BTreeSet<String> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets the expected visits, and keeps the others. Those that had already arrived are counted
    /// first.
    fn forget(&self) -> Result<()> {
        let mut last = TcpStream::connect(self.address).context("visiting as the last one")?;
        last.write_all(b"GET /last HTTP/1.1\r\n\r\n")?;
        self.wait_for("last")?;
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        paths.retain(|path| is_uncaptured(path));
        Ok(())
    }
}

/// Reads a request, answers it, and returns its path.
fn answered(mut connection: &TcpStream) -> io::Result<String> {
    // A pod without power closes no connection.
    connection.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line)?;
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    Ok(line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned())
}
