//! Captured queries that the name table answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};

use hickory_proto::op::Message;
use pilot_agent::dns::message::Transport::{Tcp, Udp};

use crate::client::{APP, framed, query, read, tcp, text, udp, with_size};
use crate::name_server::{Behaviour, NameServer};
use crate::pod::{Pod, Settings, names};

const V4: &str = "10.96.0.10:53";
const V6: &str = "[fd96::a]:53";

#[test]
fn captured_queries_are_answered_in_both_families() {
    for switches in [&[][..], &["--capture-all-dns"]] {
        let pod = Pod::create();
        let settings = Settings::new(&["10.96.0.10", "fd96::a"]);
        pod.capture(&settings.servers, switches);
        let servers = ["10.96.0.10", "fd96::a"]
            .map(|address| NameServer::start(&pod.world, address, Behaviour::Answers));
        let agent = pod.start(&settings);
        agent.publish(names);
        for (transport, server) in [(Udp, V4), (Udp, V6), (Tcp, V4), (Tcp, V6)] {
            for (asked, expected) in [
                ("web.shop.svc.cluster.local A", "10.96.1.1"),
                ("web AAAA", "fd96::1:1"),
                ("example.com AAAA", ""),
                ("example.com.shop.svc.cluster.local A", "example.com. 10.96.1.1"),
                ("other.example A", "198.51.100.1"),
                ("web.shop.svc.cluster.local TXT", ""),
            ] {
                let answer = pod.ask(transport, server, asked);
                assert_eq!(answer, expected, "{asked} {transport:?} {server} {switches:?}");
            }
        }
        assert_eq!(agent.metrics.requests.get(), 24);
        assert_eq!(agent.metrics.upstream_requests.get(), 8);
        assert_eq!(agent.metrics.upstream_failures.get(), 0);
        let forwarded = servers.map(|s| s.queries.load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(forwarded.iter().sum::<usize>(), 8);
    }
}

#[test]
fn queries_wait_for_the_first_name_table() {
    let pod = Pod::create();
    let settings = Settings::new(&["10.96.0.10"]);
    let _server = NameServer::start(&pod.world, "10.96.0.10", Behaviour::Answers);
    let agent = pod.start(&settings);
    assert_eq!(pod.ask(Udp, "127.0.0.1:15053", "web A"), "ServFail");
    assert_eq!(pod.ask(Tcp, "127.0.0.1:15053", "other.example A"), "ServFail");
    assert!(!agent.view.received());
    assert_eq!(agent.view.json(), "{\n  \"table\": {}\n}");
    agent.publish(names);
    assert!(agent.view.received());
    assert_eq!(pod.ask(Udp, "127.0.0.1:15053", "web A"), "10.96.1.1");
    let debug: serde_json::Value = serde_json::from_str(&agent.view.json()).unwrap();
    assert_eq!(debug["table"]["web.shop.svc.cluster.local"]["shortname"], "web");
}

#[test]
fn thousand_queries_are_answered() {
    let pod = Pod::create();
    let settings = Settings::new(&["10.96.0.10", "fd96::a"]);
    pod.capture(&settings.servers, &[]);
    let _servers = ["10.96.0.10", "fd96::a"]
        .map(|address| NameServer::start(&pod.world, address, Behaviour::Answers));
    let agent = pod.start(&settings);
    agent.publish(names);
    let ask = |server: &str, questions: &[&str; 2]| {
        let server: SocketAddr = server.parse().unwrap();
        let socket = udp(server);
        let mut buffer = [0; 4096];
        for batch in 0..25 {
            let ids: Vec<u16> = (batch * 20..).take(20).collect();
            for id in &ids {
                let asked = questions[usize::from(id % 2)];
                socket.send(&query(asked, *id).to_vec().unwrap()).unwrap();
            }
            let mut answered: Vec<u16> = (0..20)
                .map(|_| {
                    let length = socket.recv(&mut buffer).expect("an answer");
                    let answer = Message::from_vec(&buffer[..length]).unwrap();
                    assert!(!answer.answers.is_empty(), "{answer:?}");
                    answer.metadata.id
                })
                .collect();
            answered.sort_unstable();
            assert_eq!(answered, ids);
        }
    };
    pod.namespace
        .run_as(APP, || {
            ask(V4, &["web A", "other.example A"]);
            ask(V6, &["web AAAA", "example.com A"]);
        })
        .unwrap();
    assert_eq!(agent.metrics.requests.get(), 1000);
}

#[test]
fn pipelined_queries_share_a_connection() {
    let pod = Pod::create();
    let settings = Settings::new(&["10.96.0.10"]);
    let _server = NameServer::start(&pod.world, "10.96.0.10", Behaviour::Answers);
    let agent = pod.start(&settings);
    agent.publish(names);
    let mut ids: Vec<u16> = pod
        .namespace
        .run_as(APP, || {
            let mut stream = tcp("127.0.0.1:15053".parse().unwrap());
            let queries: Vec<u8> = (0..100)
                .flat_map(|id| {
                    let asked = if id % 2 == 0 { "web A" } else { "other.example A" };
                    framed(&query(asked, id).to_vec().unwrap())
                })
                .collect();
            stream.write_all(&queries).unwrap();
            let answers = (0..100).map(|_| Message::from_vec(&read(&mut stream)).unwrap());
            answers
                .map(|answer| {
                    let is_known = answer.metadata.id % 2 == 0;
                    assert_eq!(text(&answer), if is_known { "10.96.1.1" } else { "198.51.100.1" });
                    answer.metadata.id
                })
                .collect()
        })
        .unwrap();
    ids.sort_unstable();
    assert_eq!(ids, (0..100).collect::<Vec<u16>>());
}

#[test]
fn long_answers_are_truncated_over_udp_only() {
    let pod = Pod::create();
    let agent = pod.start(&Settings::new(&["10.96.0.10"]));
    agent.publish(names);
    let plain = query("big A", 7);
    for (asked, fits) in [
        (plain.clone(), 30),
        (with_size(plain.clone(), 1232), 75),
        (with_size(plain.clone(), 4096), 254),
    ] {
        let answer = pod.query(Udp, "127.0.0.1:15053", &asked);
        assert!(answer.metadata.truncation);
        assert_eq!(answer.answers.len(), fits);
    }
    let whole = pod.query(Tcp, "127.0.0.1:15053", &plain);
    assert!(!whole.metadata.truncation);
    assert_eq!(whole.answers.len(), 3000);
    let whole = pod.query(Udp, "127.0.0.1:15053", &with_size(plain, 65_535));
    assert!(!whole.metadata.truncation);
    assert_eq!(whole.answers.len(), 3000);
}

#[test]
fn garbage_does_not_stop_the_server() {
    let pod = Pod::create();
    let agent = pod.start(&Settings::new(&["10.96.0.10"]));
    agent.publish(names);
    let server: SocketAddr = "127.0.0.1:15053".parse().unwrap();
    let good = query("web A", 9).to_vec().unwrap();
    let answers: Vec<String> = pod
        .namespace
        .run_as(APP, || {
            let socket = udp(server);
            let mut unfinished = Vec::new();
            for end in 0..good.len() {
                socket.send(&good[..end]).unwrap();
                let mut stream = tcp(server);
                stream.write_all(&framed(&good)[..=end]).unwrap();
                // Half of the connections stay open.
                unfinished.extend((end % 2 == 0).then_some(stream));
            }
            socket.send(&vec![0xff; 60_000]).unwrap();
            let fresh = udp(server);
            fresh.send(&good).unwrap();
            let mut buffer = [0; 512];
            let length = fresh.recv(&mut buffer).unwrap();
            let mut stream = tcp(server);
            stream.write_all(&framed(&good)).unwrap();
            [buffer[..length].to_vec(), read(&mut stream)]
                .map(|answer| text(&Message::from_vec(&answer).unwrap()))
                .to_vec()
        })
        .unwrap();
    assert_eq!(answers, ["10.96.1.1", "10.96.1.1"]);
}

#[test]
fn idle_connections_do_not_block_new_ones() {
    let pod = Pod::create();
    let agent = pod.start(&Settings::new(&["10.96.0.10"]));
    agent.publish(names);
    let server: SocketAddr = "127.0.0.1:15053".parse().unwrap();
    let answer = pod.namespace.run_as(APP, || {
        let mut idle: Vec<_> = (0..64).map(|_| tcp(server)).collect();
        let mut stream = tcp(server);
        stream.write_all(&framed(&query("web A", 9).to_vec().unwrap())).unwrap();
        let answer = read(&mut stream);
        // The first one was closed, and the others are open.
        assert_eq!(idle[0].read(&mut [0]).unwrap(), 0);
        for other in &mut idle[1..] {
            other.set_nonblocking(true).unwrap();
            assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        answer
    });
    assert_eq!(text(&Message::from_vec(&answer.unwrap()).unwrap()), "10.96.1.1");
}

#[test]
fn server_does_not_forward_to_itself() {
    let pod = Pod::create();
    let mut settings = Settings::new(&["127.0.0.1", "::1"]);
    settings.listen = ["127.0.0.1:53", "[::1]:53"].map(|ip| ip.parse().unwrap()).to_vec();
    settings.owner = e2e::netns::Owner::ROOT;
    let agent = pod.start(&settings);
    for server in ["127.0.0.1:53", "[::1]:53"] {
        assert_eq!(pod.ask(Udp, server, "other.example A"), "ServFail");
    }
    assert_eq!(agent.metrics.upstream_requests.get(), 0);
    let own: IpAddr = "127.0.0.1".parse().unwrap();
    assert!(settings.servers.contains(&own));
}
