use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03Web\x04shop\0\0\x01\0\x01";

#[test]
fn addresses_are_encoded_with_compression() {
    let query = Query::parse(QUERY).unwrap();
    assert_eq!(query.name.as_deref(), Some("web.shop"));
    assert_eq!(query.family, Some(Family::V4));
    let answer = query.addresses(&[Ipv4Addr::new(10, 0, 0, 1).into()], None, 512);
    let expected = b"\x12\x34\x85\x80\0\x01\0\x01\0\0\0\0\x03Web\x04shop\0\0\x01\0\x01\
                     \xc0\x0c\0\x01\0\x01\0\0\0\x1e\0\x04\x0a\0\0\x01";
    assert_eq!(answer, expected);
}

#[test]
fn alias_is_encoded_once() {
    let query = Query::parse(QUERY).unwrap();
    let answer = query.addresses(&[Ipv6Addr::LOCALHOST.into()], Some(1), 512);
    let expected = b"\x12\x34\x85\x80\0\x01\0\x02\0\0\0\0\x03Web\x04shop\0\0\x01\0\x01\
                     \xc0\x0c\0\x05\0\x01\0\0\0\x1e\0\x05\x03Web\0\
                     \xc0\x26\0\x1c\0\x01\0\0\0\x1e\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01";
    assert_eq!(answer, expected);
}

#[test]
fn response_matches_by_id_and_question() {
    let query = Query::parse(QUERY).unwrap();
    let response = query.failure(ResponseCode::NoError);
    assert!(query.is_answered_by(&response, 0x1234));
    assert!(!query.is_answered_by(&response, 0x1235));
    assert!(!query.is_answered_by(QUERY, 0x1234), "a query is no response");
    for end in 0..response.len() {
        assert!(!query.is_answered_by(&response[..end], 0x1234), "{end}");
    }
    for (at, value, is_same) in
        [(13, b'w', true), (13, b'v', false), (23, 28, false), (25, 3, false), (5, 0, false)]
    {
        let mut other = response.clone();
        other[at] = value;
        assert_eq!(query.is_answered_by(&other, 0x1234), is_same, "{at}");
    }
}
