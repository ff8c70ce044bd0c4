//! The cluster's DNS server, which resolves only Services.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::kubectl::Kubectl;

/// A thread that answers on the bridge in place of the cluster's DNS server.
#[derive(Debug)]
pub(crate) struct Dns {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Dns {
    /// Answers queries on port 53 of `address` with the API server's Services.
    pub(crate) fn start(address: Ipv4Addr, kubectl: Kubectl) -> Result<Self> {
        let socket = UdpSocket::bind((address, 53))
            .with_context(|| format!("binding {address}:53 for the cluster's DNS"))?;
        socket.set_read_timeout(Some(BETWEEN_LOOKS)).context("setting the DNS read timeout")?;
        let ending = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ending);
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                answer_one(&socket, |name| service_address(&kubectl, name));
            }
        });
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

fn answer_one(socket: &UdpSocket, find: impl Fn(&str) -> Option<Ipv4Addr>) {
    let mut buffer = [0; LARGEST_QUERY];
    let Ok((length, client)): Result<(usize, SocketAddr), _> = socket.recv_from(&mut buffer) else {
        return;
    };
    if let Some(answer) = answer(&buffer[..length], find) {
        // The client retries.
        let _ = socket.send_to(&answer, client);
    }
}

/// Returns the address of `SERVICE.NAMESPACE.svc.cluster.local`.
fn service_address(kubectl: &Kubectl, name: &str) -> Option<Ipv4Addr> {
    let (service, namespace) = name.strip_suffix(".svc.cluster.local")?.split_once('.')?;
    let output = "--output=jsonpath={.spec.clusterIP}";
    let found = kubectl.must(["get", "service", service, "--namespace", namespace, output]);
    found.ok()?.parse().ok()
}

/// Returns an answer as in RFC 1035: one question, and at most one address.
fn answer(query: &[u8], find: impl Fn(&str) -> Option<Ipv4Addr>) -> Option<Vec<u8>> {
    let (name, after_name) = question_name(query)?;
    let question = query.get(HEADER..after_name + 4)?;
    let is_address = question.ends_with(&[0, 1, 0, 1]);
    let found = find(&name);
    let code: u8 = if found.is_some() { NO_ERROR } else { NO_SUCH_NAME };
    let addresses: Vec<Ipv4Addr> = found.filter(|_| is_address).into_iter().collect();

    let mut message = query.get(..2)?.to_vec();
    message.extend([0x84 | (query[2] & RECURSION_DESIRED), RECURSION_AVAILABLE | code]);
    message.extend([0, 1, 0, u8::try_from(addresses.len()).ok()?, 0, 0, 0, 0]);
    message.extend(question);
    for address in addresses {
        // A pointer to the question's name, type A, class IN, five seconds.
        message.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
        message.extend(address.octets());
    }
    Some(message)
}

fn question_name(query: &[u8]) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join(".").to_ascii_lowercase(), at));
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).into_owned());
        at += length;
    }
}

const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
const LARGEST_QUERY: usize = 512;
const HEADER: usize = 12;
const RECURSION_DESIRED: u8 = 1;
const RECURSION_AVAILABLE: u8 = 0x80;
const NO_ERROR: u8 = 0;
const NO_SUCH_NAME: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03Web\x00\x00\x01\x00\x01";

    #[test]
    fn known_name_resolves_to_its_address() {
        let found = |name: &str| (name == "web").then_some(Ipv4Addr::new(10, 96, 0, 7));
        let answer = answer(QUERY, found).unwrap();
        assert_eq!(answer[..8], *b"\x12\x34\x85\x80\x00\x01\x00\x01");
        assert!(answer.ends_with(&[10, 96, 0, 7]));
    }

    #[test]
    fn unknown_name_does_not_exist() {
        let answer = answer(QUERY, |_| None).unwrap();
        assert_eq!(answer[..8], *b"\x12\x34\x85\x83\x00\x01\x00\x00");
    }

    #[test]
    fn truncated_query_has_no_answer() {
        assert_eq!(answer(&QUERY[..14], |_| None), None);
    }
}
