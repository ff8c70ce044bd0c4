//! DNS client in a pod.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use e2e::netns::Owner;
use e2e::wait;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use pilot_agent::dns::message::Transport;

use crate::pod::Pod;

/// The application's user.
pub(crate) const APP: Owner = Owner { uid: 1000, gid: 1000 };

impl Pod {
    /// Asks a name server for `NAME TYPE` as the application, and returns the answer as text.
    pub(crate) fn ask(&self, transport: Transport, server: &str, asked: &str) -> String {
        text(&self.query(transport, server, &query(asked, 7)))
    }

    /// Sends a query to a name server as the application, and returns the answer.
    pub(crate) fn query(&self, transport: Transport, server: &str, query: &Message) -> Message {
        let server: SocketAddr = server.parse().unwrap();
        let query = query.to_vec().unwrap();
        let exchange = || match transport {
            Transport::Udp => by_udp(server, &query),
            Transport::Tcp => by_tcp(server, &query),
        };
        Message::from_vec(&self.namespace.run_as(APP, exchange).unwrap()).unwrap()
    }
}

/// Returns a query for `NAME TYPE`.
pub(crate) fn query(asked: &str, id: u16) -> Message {
    let (name, kind) = asked.split_once(' ').unwrap();
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    let mut name = Name::from_ascii(name).unwrap();
    name.set_fqdn(true);
    message.add_query(Query::query(name, kind.parse::<RecordType>().unwrap()));
    message
}

/// Adds EDNS with this size to a query.
pub(crate) fn with_size(mut query: Message, size: u16) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(size);
    query.edns = Some(edns);
    query
}

/// Returns the data of an answer, or its code.
pub(crate) fn text(answer: &Message) -> String {
    if answer.metadata.response_code != ResponseCode::NoError {
        return format!("{:?}", answer.metadata.response_code);
    }
    let data: Vec<String> = answer.answers.iter().map(|record| record.data.to_string()).collect();
    data.join(" ")
}

/// Connects a socket, whose receiver takes answers from this server only.
pub(crate) fn udp(server: SocketAddr) -> UdpSocket {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(wait::TIMEOUT)).unwrap();
    socket
}

/// Reads a message from a TCP connection.
pub(crate) fn read(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("the length of an answer");
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer).expect("an answer");
    answer
}

/// Connects to a server.
pub(crate) fn tcp(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&server, wait::TIMEOUT).expect("a TCP connection");
    stream.set_read_timeout(Some(wait::TIMEOUT)).unwrap();
    stream
}

/// Returns a message after its length.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&u16::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

fn by_udp(server: SocketAddr, query: &[u8]) -> Vec<u8> {
    let socket = udp(server);
    socket.send(query).unwrap();
    let mut answer = vec![0; 65_535];
    let length = socket.recv(&mut answer).expect("an answer");
    answer.truncate(length);
    answer
}

fn by_tcp(server: SocketAddr, query: &[u8]) -> Vec<u8> {
    let mut stream = tcp(server);
    stream.write_all(&framed(query)).unwrap();
    read(&mut stream)
}
