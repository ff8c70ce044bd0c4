//! DNS messages: parses queries, encodes answers.

use std::net::IpAddr;

use hickory_proto::op::{Header, Message, OpCode, Query as Question, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

/// Query with one question.
#[derive(Debug)]
pub struct Query<'a> {
    /// The whole message.
    pub bytes: &'a [u8],
    /// Queried name in lower case, without a dot at its end. `None` if a host's name cannot have
    /// this form.
    pub name: Option<String>,
    /// Queried family; `None` if the query is not for addresses.
    pub family: Option<Family>,
    question: &'a [u8],
    edns: Option<Edns>,
}

/// Address family of a query.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// Type A.
    V4,
    /// Type AAAA.
    V6,
}

/// Transport protocol of a query.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// Message that is not a valid query.
#[derive(Debug, Eq, PartialEq)]
pub enum InvalidQuery {
    /// A response, or a fragment without a header. It gets no answer.
    Ignored,
    /// The answer to a malformed query.
    Malformed(Vec<u8>),
}

#[derive(Clone, Copy, Debug)]
struct Edns {
    size: u16,
    version: u8,
    dnssec_ok: bool,
}

impl<'a> Query<'a> {
    /// Parses a message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, InvalidQuery> {
        if bytes.len() < HEADER || bytes[2] & RESPONSE != 0 {
            return Err(InvalidQuery::Ignored);
        }
        let malformed = || InvalidQuery::Malformed(header(bytes, ResponseCode::FormErr, [0; 8]));
        // A message may claim thousands of questions, and the parser reserves memory for them.
        if bytes[4..6] != [0, 1] {
            return Err(malformed());
        }
        let (question, name_and_type) = question(bytes).ok_or_else(malformed)?;
        let message = Message::from_vec(bytes).map_err(|_| malformed())?;
        let name = name_and_type.name();
        let is_lookup = message.metadata.op_code == OpCode::Query
            && name_and_type.query_class() == DNSClass::IN;
        let family = match name_and_type.query_type() {
            RecordType::A if is_lookup => Some(Family::V4),
            RecordType::AAAA if is_lookup => Some(Family::V6),
            _ => None,
        };
        let edns = message.edns.as_ref().map(|edns| Edns {
            size: edns.max_payload(),
            version: edns.version(),
            dnssec_ok: edns.flags().dnssec_ok,
        });
        Ok(Self { bytes, name: text(name), family, question, edns })
    }

    /// Returns the size of the longest answer that the client accepts.
    pub fn limit(&self, transport: Transport) -> usize {
        match transport {
            Transport::Udp => {
                usize::from(self.edns.map_or(0, |edns| edns.size)).clamp(SMALLEST_LIMIT, UDP_LIMIT)
            }
            Transport::Tcp => TCP_LIMIT,
        }
    }

    /// True if the query has a version of EDNS that does not exist yet.
    pub fn has_unknown_edns(&self) -> bool {
        self.edns.is_some_and(|edns| edns.version > 0)
    }

    /// Returns an answer without records.
    pub fn failure(&self, code: ResponseCode) -> Vec<u8> {
        let mut message = self.head(code);
        self.finish(&mut message, code, false);
        message
    }

    /// Returns the answer with these addresses. The first `expanded_from` labels of the queried
    /// name are an alias's target, if set. Addresses beyond the limit are left out, and the answer
    /// says so.
    pub fn addresses(
        &self,
        addresses: &[IpAddr],
        expanded_from: Option<usize>,
        limit: usize,
    ) -> Vec<u8> {
        let limit = limit - self.edns.map_or(0, |_| OPT);
        let mut message = self.head(ResponseCode::NoError);
        message[2] |= AUTHORITATIVE;
        let mut owner = QUESTION_NAME;
        let mut records: u16 = 0;
        let mut push = |message: &mut Vec<u8>, owner: u16, kind: RecordType, data: &[u8]| {
            let fits = message.len() + usize::from(RECORD_HEAD) + data.len() <= limit;
            if fits {
                message.extend((POINTER | owner).to_be_bytes());
                message.extend(u16::from(kind).to_be_bytes());
                message.extend(u16::from(DNSClass::IN).to_be_bytes());
                message.extend(TTL.to_be_bytes());
                message.extend(length(data).to_be_bytes());
                message.extend(data);
                records += 1;
            }
            fits
        };
        let mut fits = true;
        if let (Some(labels), false) = (expanded_from, addresses.is_empty()) {
            fits = push(&mut message, owner, RecordType::CNAME, &self.first_labels(labels));
            owner = QUESTION_NAME + length(self.question) + RECORD_HEAD;
        }
        let fits = fits
            && addresses.iter().all(|address| match address {
                IpAddr::V4(ip) => push(&mut message, owner, RecordType::A, &ip.octets()),
                IpAddr::V6(ip) => push(&mut message, owner, RecordType::AAAA, &ip.octets()),
            });
        message[6..8].copy_from_slice(&records.to_be_bytes());
        self.finish(&mut message, ResponseCode::NoError, !fits);
        message
    }

    /// True if the message is a response to this query that was sent under `id`.
    pub fn is_answered_by(&self, response: &[u8], id: u16) -> bool {
        response.len() >= HEADER
            && response[..2] == id.to_be_bytes()
            && response[2] & RESPONSE != 0
            && response[4..6] == [0, 1]
            && question(response)
                .is_some_and(|(question, _)| question.eq_ignore_ascii_case(self.question))
    }

    /// Returns the header and the question of an answer.
    fn head(&self, code: ResponseCode) -> Vec<u8> {
        let mut message = header(self.bytes, code, [0, 1, 0, 0, 0, 0, 0, 0]);
        message.extend(self.question);
        message
    }

    fn finish(&self, message: &mut Vec<u8>, code: ResponseCode, is_truncated: bool) {
        if is_truncated {
            message[2] |= TRUNCATED;
        }
        let Some(edns) = self.edns else { return };
        message[11] = 1;
        message.push(0);
        message.extend(u16::from(RecordType::OPT).to_be_bytes());
        message.extend(LARGEST_QUERY.to_be_bytes());
        message.extend([code.high(), 0, if edns.dnssec_ok { DNSSEC_OK } else { 0 }, 0, 0, 0]);
    }

    /// Returns the first labels of the queried name as a name.
    fn first_labels(&self, labels: usize) -> Vec<u8> {
        let end = (0..labels).fold(0, |at, _| at + 1 + usize::from(self.question[at]));
        let mut name = self.question[..end].to_vec();
        name.push(0);
        name
    }
}

/// Returns the response code of a message, without the part in EDNS.
pub fn response_code(message: &[u8]) -> Option<ResponseCode> {
    message.get(3).map(|flags| ResponseCode::from(0, flags & CODE))
}

/// True if the message says that it lacks a part of the answer.
pub fn is_truncated(message: &[u8]) -> bool {
    message.get(2).is_some_and(|flags| flags & TRUNCATED != 0)
}

/// Returns the header of an answer: identifier and flags of the query, code, and these counts.
fn header(query: &[u8], code: ResponseCode, counts: [u8; 8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(TYPICAL_ANSWER);
    message.extend(&query[..2]);
    message.push(RESPONSE | query[2] & (OPERATION | RECURSION_DESIRED));
    message.push(RECURSION_AVAILABLE | query[3] & CHECKING_DISABLED | code.low());
    message.extend(counts);
    message
}

/// Returns the first question, as bytes and parsed.
fn question(bytes: &[u8]) -> Option<(&[u8], Question)> {
    let mut decoder = BinDecoder::new(bytes);
    Header::read(&mut decoder).ok()?;
    let question = Question::read(&mut decoder).ok()?;
    let raw = bytes.get(HEADER..decoder.index())?;
    // A pointer would lead into the header, whose copy differs.
    let name: usize = question.name().iter().map(|label| 1 + label.len()).sum();
    let is_plain = raw.len() == name + 1 + TYPE_AND_CLASS;
    is_plain.then_some((raw, question))
}

fn text(name: &Name) -> Option<String> {
    let is_plain = |label: &[u8]| label.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'.');
    let labels: Option<Vec<&str>> = name
        .iter()
        .map(|label| is_plain(label).then(|| str::from_utf8(label).ok()).flatten())
        .collect();
    labels.filter(|labels| !labels.is_empty()).map(|labels| labels.join(".").to_ascii_lowercase())
}

fn length(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX)
}

/// Largest datagram that the server receives; the answers say so.
pub const LARGEST_QUERY: u16 = 4096;
/// Seconds that a client may keep an answer.
const TTL: u32 = 30;
const HEADER: usize = 12;
const TYPE_AND_CLASS: usize = 4;
/// Owner, type, class, lifetime and length of data.
const RECORD_HEAD: u16 = 12;
/// Record of EDNS.
const OPT: usize = 11;
const QUESTION_NAME: u16 = 12;
const POINTER: u16 = 0xc000;
const RESPONSE: u8 = 0x80;
const OPERATION: u8 = 0x78;
const AUTHORITATIVE: u8 = 0x04;
const TRUNCATED: u8 = 0x02;
const RECURSION_DESIRED: u8 = 0x01;
const RECURSION_AVAILABLE: u8 = 0x80;
const CHECKING_DISABLED: u8 = 0x10;
const CODE: u8 = 0x0f;
const DNSSEC_OK: u8 = 0x80;
const SMALLEST_LIMIT: usize = 512;
/// Largest payload of an IPv4 datagram.
const UDP_LIMIT: usize = 65_507;
const TCP_LIMIT: usize = 65_535;
const TYPICAL_ANSWER: usize = 512;

#[cfg(test)]
mod tests;
