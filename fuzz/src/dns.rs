//! DNS messages of applications and of name servers.

use std::sync::LazyLock;

use hickory_proto::op::{Message, MessageType, ResponseCode};
use pilot_agent::dns::answer::{Decision, Knowledge, decide};
use pilot_agent::dns::message::{Query, Transport};
use pilot_agent::dns::search::NameRules;
use pilot_agent::dns::table::{Entry, ServiceDomain, Table};

/// Fuzzes a message, as a query and as the answer to another query.
pub fn messages(data: &[u8]) {
    let id = data.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    if Query::parse(QUERY).expect("a query").is_answered_by(data, id) {
        assert_eq!(data[12..QUERY.len()].to_ascii_lowercase(), QUERY[12..]);
    }
    for (transport, table) in
        [(Transport::Udp, Some(&*TABLE)), (Transport::Tcp, Some(&*TABLE)), (Transport::Udp, None)]
    {
        let knowledge = Knowledge { table, rules: &RULES, forwards_before_table: false };
        match decide(data, knowledge, transport, data.len()) {
            Decision::Answer(answer) => check(data, &answer),
            Decision::Forward(query) => {
                assert_eq!(query.bytes, data);
                check(data, &query.failure(ResponseCode::ServFail));
            }
            Decision::Ignore => assert!(data.len() < 12 || data[2] & 0x80 != 0),
        }
    }
}

fn check(query: &[u8], answer: &[u8]) {
    let parsed = Message::from_vec(answer).expect("answers are valid");
    assert_eq!(parsed.metadata.message_type, MessageType::Response);
    assert_eq!(answer[..2], query[..2]);
    if parsed.metadata.response_code != ResponseCode::FormErr {
        let query = Message::from_vec(query).expect("only valid queries have such answers");
        assert_eq!(parsed.queries, query.queries);
        assert_eq!(parsed.edns.is_some(), query.edns.is_some());
        let is_kept = |record: &hickory_proto::rr::Record| record.ttl == 30;
        assert!(parsed.answers.iter().all(is_kept));
    }
}

/// `web.shop`, type A.
const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03web\x04shop\0\0\x01\0\x01";

static RULES: LazyLock<NameRules> = LazyLock::new(|| NameRules {
    domain: ServiceDomain::new("shop.svc.cluster.local", "shop"),
    search: Some("shop.svc.cluster.local".to_owned()),
});

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let ips: Vec<String> =
        (0..60).flat_map(|n| [format!("10.0.0.{n}"), format!("fd00::{n}")]).collect();
    let entry = |host, registry, shortname, namespace| Entry {
        host,
        ips: &ips,
        registry,
        shortname,
        namespace,
    };
    Table::new([
        entry("web.shop.svc.cluster.local", "Kubernetes", "web", "shop"),
        entry("example.com", "External", "", ""),
        entry("*.example.com", "External", "", ""),
        entry("*.local", "External", "", ""),
    ])
});
