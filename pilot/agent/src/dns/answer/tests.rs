use std::fmt::Write as _;
use std::str::FromStr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query as Question};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};
use proptest::prelude::*;

use super::super::table::{Entry, ServiceDomain};
use super::*;

/// Host, registry, short name, namespace, addresses.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

const ROWS: &[Row] = &[
    ("web.shop.svc.cluster.local", "Kubernetes", "web", "shop", &["10.96.0.1"]),
    ("Dual.shop.svc.cluster.local.", "Kubernetes", "Dual", "shop", &["10.96.0.2", "fd00::2"]),
    (
        "db.data.svc.cluster.local",
        "Kubernetes",
        "db",
        "data",
        &["10.1.0.1", "10.1.0.2", "10.1.0.3"],
    ),
    ("db-0.db.data.svc.cluster.local", "Kubernetes", "db-0.db", "data", &["10.1.0.1"]),
    ("empty.shop.svc.cluster.local", "Kubernetes", "empty", "shop", &[]),
    ("far.shop.svc.remote.example", "Kubernetes", "far", "shop", &["10.2.0.1"]),
    ("entry.shop.svc.cluster.local", "External", "entry", "shop", &["10.3.0.1"]),
    ("example.com", "External", "", "", &["203.0.113.1", "10.0.0.0/8", "nonsense"]),
    ("six.example.com", "External", "", "", &["2001:db8::6"]),
    ("*.wild.example", "External", "", "", &["203.0.113.2", "2001:db8::2"]),
    ("*.inner.wild.example", "External", "", "", &["203.0.113.3"]),
    ("exact.wild.example", "External", "", "", &["203.0.113.4"]),
    ("single", "External", "", "", &["203.0.113.5"]),
    ("web.both", "External", "", "", &["203.0.113.6"]),
    ("web.both.svc.cluster.local", "Kubernetes", "web", "both", &["10.96.0.6"]),
];

#[test]
fn names_of_services() {
    check(&[
        ("web.shop.svc.cluster.local A", "10.96.0.1"),
        ("web.shop.svc.cluster.local. A", "10.96.0.1"),
        ("web.shop.svc A", "10.96.0.1"),
        ("web.shop A", "10.96.0.1"),
        ("web A", "10.96.0.1"),
        ("web.svc A", "forward"),
        ("web.shop.svc.cluster A", "forward"),
        ("db.data A", "10.1.0.1 10.1.0.2 10.1.0.3"),
        ("db A", "forward"),
        ("db.shop A", "forward"),
        ("db-0.db.data.svc.cluster.local A", "10.1.0.1"),
        ("db-0.db.data A", "10.1.0.1"),
        ("db-0.db A", "forward"),
        ("db-1.db.data.svc.cluster.local A", "forward"),
        (". A", "forward"),
    ]);
}

#[test]
fn hosts_of_other_domains_and_registries_have_one_name() {
    check(&[
        ("far.shop.svc.remote.example A", "10.2.0.1"),
        ("far.shop.svc A", "forward"),
        ("far.shop A", "forward"),
        ("far A", "forward"),
        ("entry.shop.svc.cluster.local A", "10.3.0.1"),
        ("entry.shop A", "forward"),
        ("entry A", "forward"),
    ]);
}

#[test]
fn host_is_preferred_to_short_name() {
    check(&[
        ("web.both A", "203.0.113.6"),
        ("web.both.svc A", "10.96.0.6"),
        ("web.both.svc.cluster.local A", "10.96.0.6"),
    ]);
}

#[test]
fn case_is_ignored_and_kept() {
    check(&[
        ("WEB.Shop.SVC.Cluster.Local A", "10.96.0.1"),
        ("dual A", "10.96.0.2"),
        ("eXample.Com.shop.svc.CLUSTER.local A", "CNAME eXample.Com. 203.0.113.1"),
    ]);
    let query = query("WeB.sHop", RecordType::A);
    let Decision::Answer(answer) = decide_about(&query.to_vec().unwrap()) else { panic!() };
    assert!(answer.windows(10).any(|bytes| bytes == b"\x03WeB\x04sHop\0"));
}

#[test]
fn first_search_domain_is_expanded() {
    check(&[
        ("example.com.shop.svc.cluster.local A", "CNAME example.com. 203.0.113.1"),
        ("example.com.svc.cluster.local A", "forward"),
        ("example.com.cluster.local A", "forward"),
        ("example.com.shop.svc.cluster.local.shop.svc.cluster.local A", "forward"),
        ("example.comshop.svc.cluster.local A", "forward"),
        ("web.shop.shop.svc.cluster.local A", "CNAME web.shop. 10.96.0.1"),
        ("web.shop.svc.shop.svc.cluster.local A", "CNAME web.shop.svc. 10.96.0.1"),
        (
            "web.shop.svc.cluster.local.shop.svc.cluster.local A",
            "CNAME web.shop.svc.cluster.local. 10.96.0.1",
        ),
        ("single.shop.svc.cluster.local A", "CNAME single. 203.0.113.5"),
        ("far.shop.shop.svc.cluster.local A", "forward"),
        ("shop.svc.cluster.local A", "forward"),
    ]);
}

#[test]
fn name_of_the_host_itself_is_no_alias() {
    let rules = |search: &str| NameRules { search: Some(search.to_owned()), ..rules() };
    for (search, name, expected) in [
        ("shop.svc.cluster.local", "web.shop.svc.cluster.local", "10.96.0.1"),
        ("svc.cluster.local", "web.shop.svc.cluster.local", "10.96.0.1"),
        ("cluster.local", "web.shop.svc.cluster.local", "10.96.0.1"),
        ("svc.cluster.local", "web.svc.cluster.local", "CNAME web. 10.96.0.1"),
        ("shop", "web.shop", "10.96.0.1"),
        ("com", "example.com", "203.0.113.1"),
        ("wild.example", "exact.wild.example", "203.0.113.4"),
    ] {
        let found = answered(&query(name, RecordType::A), &rules(search));
        assert_eq!(found, expected, "{name} with search {search}");
    }
}

#[test]
fn without_search_domains_nothing_is_expanded() {
    let rules = NameRules { search: None, ..rules() };
    let query = query("example.com.shop.svc.cluster.local", RecordType::A);
    assert_eq!(answered(&query, &rules), "forward");
}

#[test]
fn wildcards_match_any_number_of_labels() {
    check(&[
        ("a.wild.example A", "203.0.113.2"),
        ("a.b.c.wild.example AAAA", "2001:db8::2"),
        ("wild.example A", "forward"),
        ("awild.example A", "forward"),
        ("exact.wild.example A", "203.0.113.4"),
        ("a.inner.wild.example A", "203.0.113.3"),
        ("a.b.inner.wild.example A", "203.0.113.3"),
        ("inner.wild.example A", "203.0.113.2"),
        ("a.wild.example.shop.svc.cluster.local A", "CNAME a.wild.example. 203.0.113.2"),
        (
            "a.inner.wild.example.shop.svc.cluster.local A",
            "CNAME a.inner.wild.example. 203.0.113.3",
        ),
        ("exact.wild.example.shop.svc.cluster.local A", "CNAME exact.wild.example. 203.0.113.4"),
        ("a.wild.example.svc.cluster.local A", "forward"),
    ]);
}

#[test]
fn other_family_of_a_known_name_is_empty() {
    check(&[
        ("web AAAA", ""),
        ("dual AAAA", "fd00::2"),
        ("six.example.com A", ""),
        ("six.example.com AAAA", "2001:db8::6"),
        ("a.inner.wild.example AAAA", ""),
        ("example.com.shop.svc.cluster.local AAAA", ""),
    ]);
}

#[test]
fn host_without_addresses_is_unknown() {
    check(&[("empty.shop.svc.cluster.local A", "forward"), ("empty AAAA", "forward")]);
}

#[test]
fn other_queries_are_forwarded() {
    check(&[
        ("web.shop.svc.cluster.local SRV", "forward"),
        ("web.shop.svc.cluster.local ANY", "forward"),
        ("web.shop.svc.cluster.local HTTPS", "forward"),
        ("web.shop.svc.cluster.local TXT", "forward"),
        ("1.0.96.10.in-addr.arpa PTR", "forward"),
        ("unknown.example A", "forward"),
        ("unknown.shop.svc.cluster.local AAAA", "forward"),
    ]);
    let mut chaos = query("web", RecordType::A);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(answered(&chaos, &rules()), "forward");
    let mut notify = query("web", RecordType::A);
    notify.metadata.op_code = OpCode::Notify;
    assert_eq!(answered(&notify, &rules()), "forward");
}

#[test]
fn label_with_a_dot_is_no_separator() {
    let name = Name::from_labels([&b"web.shop"[..]]).unwrap();
    let mut message = query("web", RecordType::A);
    message.queries[0].set_name(name);
    assert_eq!(answered(&message, &rules()), "forward");
}

#[test]
fn answer_is_authoritative_and_lives_30_seconds() {
    let query = query("web", RecordType::A);
    let Decision::Answer(answer) = decide_about(&query.to_vec().unwrap()) else { panic!() };
    let answer = Message::from_vec(&answer).unwrap();
    assert_eq!(answer.metadata.id, query.metadata.id);
    assert_eq!(answer.metadata.message_type, MessageType::Response);
    assert!(answer.metadata.authoritative);
    assert!(answer.metadata.recursion_desired && answer.metadata.recursion_available);
    assert!(!answer.metadata.truncation && !answer.metadata.authentic_data);
    assert_eq!(answer.queries, query.queries);
    assert_eq!(answer.answers[0].ttl, 30);
    assert_eq!(answer.edns, None);
}

#[test]
fn addresses_are_rotated() {
    let table = table();
    let message = query("db.data", RecordType::A).to_vec().unwrap();
    let firsts: Vec<String> = (0..4)
        .map(|rotation| {
            let decision =
                decide(&message, knowledge(Some(&table), &rules()), Transport::Udp, rotation);
            let Decision::Answer(answer) = decision else { panic!("{decision:?}") };
            Message::from_vec(&answer).unwrap().answers[0].data.to_string()
        })
        .collect();
    assert_eq!(firsts, ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.1"]);
}

#[test]
fn query_before_the_first_table_fails_or_is_forwarded() {
    let rules = rules();
    let message = query("web", RecordType::A).to_vec().unwrap();
    let knowledge = knowledge(None, &rules);
    let Decision::Answer(answer) = decide(&message, knowledge, Transport::Udp, 0) else { panic!() };
    let answer = Message::from_vec(&answer).unwrap();
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    let knowledge = Knowledge { forwards_before_table: true, ..knowledge };
    let decision = decide(&message, knowledge, Transport::Udp, 0);
    assert!(matches!(decision, Decision::Forward(_)), "{decision:?}");
}

#[test]
fn answers_keep_to_the_limit_of_the_client() {
    let ips: Vec<String> = (0..6000u32).map(|n| format!("10.9.{}.{}", n / 256, n % 256)).collect();
    let six: Vec<String> = (0..200u32).map(|n| format!("fd00::{n:x}")).collect();
    let ips = [ips, six].concat();
    let entry = Entry { host: "big.example", ips: &ips, registry: "External", ..Entry::default() };
    let table = Table::new([entry]);
    let rules = rules();
    let sizes = [None, Some(100), Some(512), Some(1232), Some(4096), Some(65_535)];
    for (size, (name, kind, record)) in sizes.into_iter().flat_map(|size| {
        let expanded = "big.example.shop.svc.cluster.local";
        [
            (size, ("big.example", RecordType::A, 16)),
            (size, ("big.example", RecordType::AAAA, 28)),
            (size, (expanded, RecordType::A, 16)),
            (size, (expanded, RecordType::AAAA, 28)),
        ]
    }) {
        let mut message = query(name, kind);
        message.edns = size.map(edns);
        let bytes = message.to_vec().unwrap();
        for (transport, limit) in [
            (Transport::Udp, usize::from(size.unwrap_or(0).max(512)).min(65_507)),
            (Transport::Tcp, 65_535),
        ] {
            let decision = decide(&bytes, knowledge(Some(&table), &rules), transport, 3);
            let Decision::Answer(answer) = decision else { panic!("{decision:?}") };
            let parsed = Message::from_vec(&answer).unwrap();
            assert!(answer.len() <= limit, "{} > {limit}", answer.len());
            let sent = parsed.answers.iter().filter(|record| record.record_type() == kind).count();
            let is_cut = parsed.metadata.truncation;
            assert_eq!(is_cut, sent < if kind == RecordType::A { 6000 } else { 200 });
            assert!(!is_cut || limit - answer.len() < record, "room is left");
            assert_eq!(parsed.edns.is_some(), size.is_some());
        }
    }
}

#[test]
fn dnssec_flag_and_edns_version_are_answered() {
    let mut message = query("web", RecordType::A);
    message.edns = Some(edns(1232));
    message.edns.as_mut().unwrap().set_dnssec_ok(true);
    let answer = |message: &Message| {
        let bytes = message.to_vec().unwrap();
        let Decision::Answer(answer) = decide_about(&bytes) else { panic!() };
        Message::from_vec(&answer).unwrap()
    };
    let parsed = answer(&message);
    assert!(parsed.edns.as_ref().unwrap().flags().dnssec_ok);
    assert_eq!(parsed.edns.as_ref().unwrap().max_payload(), 4096);
    message.edns.as_mut().unwrap().set_version(1);
    let parsed = answer(&message);
    assert_eq!(u16::from(parsed.metadata.response_code), u16::from(ResponseCode::BADVERS));
    assert_eq!(parsed.edns.unwrap().version(), 0);
}

#[test]
fn malformed_queries_are_rejected_and_responses_ignored() {
    let good = query("web", RecordType::A).to_vec().unwrap();
    for end in 0..good.len() {
        match decide_about(&good[..end]) {
            Decision::Ignore => assert!(end < 12, "{end}"),
            Decision::Answer(answer) => {
                let answer = Message::from_vec(&answer).unwrap();
                assert_eq!(answer.metadata.response_code, ResponseCode::FormErr, "{end}");
                assert_eq!(answer.metadata.id, 7);
            }
            Decision::Forward(query) => panic!("{end}: {query:?}"),
        }
    }
    let mut response = good.clone();
    response[2] |= 0x80;
    assert!(matches!(decide_about(&response), Decision::Ignore));
    for questions in [0, 2, 255] {
        let mut many = good.clone();
        many[5] = questions;
        let Decision::Answer(answer) = decide_about(&many) else { panic!("{questions}") };
        assert_eq!(answer[3] & 0xf, 1, "FORMERR");
    }
    // The name points into the header.
    let pointer = [&good[..12], &[0xc0, 0x00, 0, 1, 0, 1]].concat();
    let Decision::Answer(answer) = decide_about(&pointer) else { panic!() };
    assert_eq!(answer[3] & 0xf, 1, "FORMERR");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        holds(&bytes);
    }

    #[test]
    fn damaged_queries_are_handled(
        name in "[a-zA-Z0-9*_-]{1,20}(\\.[a-z]{1,20}){0,5}(\\.shop\\.svc\\.cluster\\.local)?",
        kind in 0u16..300,
        size in prop::option::of(any::<u16>()),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        end in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut message = query(&name, RecordType::from(kind));
        message.edns = size.map(edns);
        let mut bytes = message.to_vec().unwrap();
        if let Some((at, value)) = damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len()));
        }
        holds(&bytes);
    }
}

/// Checks what holds for every message.
fn holds(bytes: &[u8]) {
    let (table, rules) = (table(), rules());
    for (transport, table) in [(Transport::Udp, Some(&table)), (Transport::Tcp, None)] {
        if let Decision::Answer(answer) = decide(bytes, knowledge(table, &rules), transport, 1) {
            let parsed = Message::from_vec(&answer).unwrap();
            assert_eq!(answer[..2], bytes[..2]);
            assert_eq!(parsed.metadata.message_type, MessageType::Response);
            if parsed.metadata.response_code != ResponseCode::FormErr {
                let end = answer.len().min(bytes.len()).min(17);
                assert_eq!(answer[12..end], bytes[12..end]);
                assert_eq!(parsed.queries, Message::from_vec(bytes).unwrap().queries);
            }
        }
    }
}

/// Checks rows of a query, `NAME TYPE`, and the expected answer: `forward`, or the records' data.
fn check(rows: &[(&str, &str)]) {
    for (asked, expected) in rows {
        let (name, kind) = asked.split_once(' ').unwrap();
        let message = query(name, RecordType::from_str(kind).unwrap());
        assert_eq!(answered(&message, &rules()), *expected, "{asked}");
    }
}

fn answered(message: &Message, rules: &NameRules) -> String {
    let bytes = message.to_vec().unwrap();
    let table = table();
    match decide(&bytes, knowledge(Some(&table), rules), Transport::Udp, 0) {
        Decision::Forward(query) => {
            assert_eq!(query.bytes, bytes);
            "forward".to_owned()
        }
        Decision::Answer(answer) => records(&Message::from_vec(&answer).unwrap()),
        Decision::Ignore => "ignored".to_owned(),
    }
}

/// Returns the data of an answer, whose records form a chain from the queried name.
fn records(answer: &Message) -> String {
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
    let mut text = String::new();
    let mut owner = answer.queries[0].name().clone();
    for record in &answer.answers {
        assert!(record.name.eq_case(&owner), "{} is not of {owner}", record.name);
        if let RData::CNAME(target) = &record.data {
            owner = target.0.clone();
            let _ = write!(text, "CNAME {owner} ");
        } else {
            let _ = write!(text, "{} ", record.data);
        }
    }
    text.trim_end().to_owned()
}

fn decide_about(message: &[u8]) -> Decision<'_> {
    decide(message, knowledge(Some(&table()), &rules()), Transport::Udp, 0)
}

fn knowledge<'a>(table: Option<&'a Table>, rules: &'a NameRules) -> Knowledge<'a> {
    Knowledge { table, rules, forwards_before_table: false }
}

fn rules() -> NameRules {
    NameRules {
        domain: ServiceDomain::new("shop.svc.cluster.local", "shop"),
        search: Some("shop.svc.cluster.local".to_owned()),
    }
}

fn table() -> Table {
    let ips: Vec<Vec<String>> =
        ROWS.iter().map(|row| row.4.iter().map(|ip| (*ip).to_owned()).collect()).collect();
    let entries = ROWS.iter().zip(&ips).map(|((host, registry, shortname, namespace, _), ips)| {
        Entry { host, ips, registry, shortname, namespace }
    });
    Table::new(entries)
}

fn query(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    let labels = name.split('.').filter(|label| !label.is_empty()).map(str::as_bytes);
    message.add_query(Question::query(Name::from_labels(labels).unwrap(), kind));
    message
}

fn edns(size: u16) -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(size);
    edns
}
