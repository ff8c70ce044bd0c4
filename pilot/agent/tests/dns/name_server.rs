//! Name servers outside the pod, well-behaved or not.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use e2e::netns::Namespace;
use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use pilot_agent::dns::frame;
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime;
use tokio::sync::oneshot;

use crate::cluster_dns;

/// A name server on port 53 that runs until the value is dropped.
pub(crate) struct NameServer {
    pub(crate) queries: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Behaviour of a name server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Behaviour {
    /// Answers every A query with 198.51.100.1.
    Answers,
    /// Answers as the cluster's DNS.
    Cluster,
    /// Answers nothing.
    Drops,
    /// Refuses every query.
    Refuses,
    /// Sends forged answers with 192.0.2.66, then the right one.
    Forges,
    /// Sends forged answers only.
    OnlyForges,
    /// Answers each query when the next one arrives.
    Lags,
    /// Answers with 100 addresses by TCP, and with none and the flag by UDP.
    Truncates,
}

impl NameServer {
    pub(crate) fn start(world: &Arc<Namespace>, address: &str, behaviour: Behaviour) -> Self {
        let address: IpAddr = address.parse().unwrap();
        let world = Arc::clone(world);
        let (stop, stopped) = oneshot::channel();
        let (started, start) = mpsc::channel();
        let queries = Arc::<AtomicUsize>::default();
        let seen = Arc::clone(&queries);
        let thread = thread::spawn(move || {
            let serve = || {
                let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let udp = UdpSocket::bind((address, 53)).await.unwrap();
                    let tcp = TcpListener::bind((address, 53)).await.unwrap();
                    started.send(()).unwrap();
                    tokio::select! {
                        () = serve_udp(&udp, behaviour, &seen) => {}
                        () = serve_tcp(&tcp, behaviour, &seen) => {}
                        _ = stopped => {}
                    }
                });
            };
            world.run(serve).unwrap();
        });
        start.recv().expect("the name server starts");
        Self { queries, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

async fn serve_udp(socket: &UdpSocket, behaviour: Behaviour, queries: &AtomicUsize) {
    let late = Mutex::<Option<(SocketAddr, Vec<u8>)>>::default();
    let mut buffer = [0; 4096];
    loop {
        let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
        queries.fetch_add(1, Ordering::Relaxed);
        let query = Message::from_vec(&buffer[..length]).unwrap();
        let mut sent: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
        match behaviour {
            Behaviour::Drops => {}
            Behaviour::Lags => {
                let answer = (client, good(&query, 1));
                sent.extend(late.lock().unwrap().replace(answer));
            }
            Behaviour::Forges | Behaviour::OnlyForges => {
                sent.extend(forged(&query).into_iter().map(|answer| (client, answer)));
                if behaviour == Behaviour::Forges {
                    sent.push((client, good(&query, 1)));
                }
            }
            Behaviour::Truncates => {
                let mut answer = response(&query);
                answer.metadata.truncation = true;
                sent.push((client, answer.to_vec().unwrap()));
            }
            Behaviour::Answers => sent.push((client, good(&query, 1))),
            Behaviour::Cluster => {
                sent.push((client, cluster_dns::answer(&query, response(&query))));
            }
            Behaviour::Refuses => sent.push((client, refused(&query))),
        }
        for (client, answer) in sent {
            // The client of a late answer is gone.
            let _ = socket.send_to(&answer, client).await;
        }
    }
}

async fn serve_tcp(listener: &TcpListener, behaviour: Behaviour, queries: &AtomicUsize) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let Ok(Some(query)) = frame::read(&mut stream).await else { continue };
        queries.fetch_add(1, Ordering::Relaxed);
        let query = Message::from_vec(&query).unwrap();
        let answer = match behaviour {
            Behaviour::Answers | Behaviour::Lags => good(&query, 1),
            Behaviour::Cluster => cluster_dns::answer(&query, response(&query)),
            Behaviour::Truncates => good(&query, 100),
            Behaviour::Refuses => refused(&query),
            Behaviour::Forges | Behaviour::OnlyForges => forged(&query).remove(0),
            // Closes the connection.
            Behaviour::Drops => continue,
        };
        // The client may be gone.
        let _ = frame::write(&mut stream, &answer).await;
    }
}

fn response(query: &Message) -> Message {
    let mut answer = Message::response(query.metadata.id, query.metadata.op_code);
    answer.metadata.recursion_available = true;
    answer.add_queries(query.queries.iter().cloned());
    answer.edns.clone_from(&query.edns);
    answer
}

fn good(query: &Message, addresses: u8) -> Vec<u8> {
    let mut answer = response(query);
    let asked = &query.queries[0];
    for n in (1..=addresses).filter(|_| asked.query_type() == RecordType::A) {
        let data = RData::A(A::new(198, 51, 100, n));
        answer.add_answer(Record::from_rdata(asked.name().clone(), 5, data));
    }
    answer.to_vec().unwrap()
}

fn refused(query: &Message) -> Vec<u8> {
    let mut answer = response(query);
    answer.metadata.response_code = ResponseCode::Refused;
    answer.to_vec().unwrap()
}

/// Answers with another identifier, another question, without a question, and a query.
fn forged(query: &Message) -> Vec<Vec<u8>> {
    let data = RData::A(A::new(192, 0, 2, 66));
    let mut lie = response(query);
    lie.add_answer(Record::from_rdata(query.queries[0].name().clone(), 5, data));
    let mut other_id = lie.clone();
    other_id.metadata.id ^= 1;
    let mut other_name = lie.clone();
    other_name.queries[0].set_name(Name::from_ascii("forged.example.").unwrap());
    let mut no_question = lie.clone();
    no_question.queries.clear();
    let mut no_response = lie;
    no_response.metadata.message_type = MessageType::Query;
    [other_id, other_name, no_question, no_response].iter().map(|m| m.to_vec().unwrap()).collect()
}
