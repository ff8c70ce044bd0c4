//! Fields of an encoded message, read without copying or decoding the rest.

use prost::{DecodeError, Message};
use thiserror::Error;

use crate::service::Variant;

/// Type URL and nonce of a message, borrowed from its bytes. Absent fields are empty.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Header<'a> {
    /// Type of the resources.
    pub type_url: &'a str,
    /// Nonce of a response, or of the response that a request acknowledges.
    pub nonce: &'a str,
    /// True for a request that rejects a response (NACK).
    pub is_rejection: bool,
}

impl<'a> Header<'a> {
    /// Reads the header of a request.
    pub fn of_request(variant: Variant, frame: &'a [u8]) -> Result<Self, FrameError> {
        match variant {
            Variant::Delta => Self::scan(frame, 2, 6, Some(7)),
            Variant::StateOfTheWorld => Self::scan(frame, 4, 5, Some(6)),
        }
    }

    /// Reads the header of a response; both variants have the same field numbers.
    pub fn of_response(frame: &'a [u8]) -> Result<Self, FrameError> {
        Self::scan(frame, 4, 5, None)
    }

    fn scan(
        frame: &'a [u8],
        type_url: u64,
        nonce: u64,
        error: Option<u64>,
    ) -> Result<Self, FrameError> {
        let mut header = Self::default();
        for field in Fields::new(frame) {
            let field = field?;
            header.is_rejection |= Some(field.number) == error;
            // As in every protobuf reader, the last one counts.
            let target = match field.number {
                number if number == type_url => &mut header.type_url,
                number if number == nonce => &mut header.nonce,
                _ => continue,
            };
            *target = field.text()?;
        }
        Ok(header)
    }
}

/// Fields of an encoded message in their order, up to the first error.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = Field::split_off(&mut self.rest);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Field of an encoded message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    wire_type: u64,
    /// Value of a length-delimited field.
    value: Option<&'a [u8]>,
}

impl<'a> Field<'a> {
    fn split_off(rest: &mut &'a [u8]) -> Result<Self, FrameError> {
        let tag = varint(rest)?;
        let (number, wire_type) = (tag >> 3, tag & 7);
        let value = field_value(rest, number, wire_type)?;
        Ok(Self { number, wire_type, value })
    }

    /// Returns the value of a field of type `bytes`, or of an embedded message.
    pub(crate) fn bytes(self) -> Result<&'a [u8], FrameError> {
        let Self { number: field, wire_type, value } = self;
        value.ok_or(FrameError::WireType { field, wire_type })
    }

    /// Returns the value of a field of type `string`.
    pub(crate) fn text(self) -> Result<&'a str, FrameError> {
        let field = self.number;
        std::str::from_utf8(self.bytes()?).map_err(|_| FrameError::Text { field })
    }

    /// Decodes an embedded message.
    pub(crate) fn message<M: Message + Default>(self) -> Result<M, FrameError> {
        let field = self.number;
        M::decode(self.bytes()?).map_err(|error| FrameError::Message { field, error })
    }
}

/// Bytes that are no protobuf message.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum FrameError {
    /// The message ends within a field.
    #[error("the message is truncated")]
    Truncated,
    /// A variable-length integer has more than 64 bits.
    #[error("the message has a number of more than 64 bits")]
    Number,
    /// A field number is 0 or too large.
    #[error("the message has the invalid field number {field}")]
    Field {
        /// The number.
        field: u64,
    },
    /// A wire type is unknown, or another one than the field's.
    #[error("field {field} of the message has the invalid wire type {wire_type}")]
    WireType {
        /// Number of the field.
        field: u64,
        /// The wire type.
        wire_type: u64,
    },
    /// An embedded message cannot be decoded.
    #[error("field {field} of the message is invalid: {error}")]
    Message {
        /// Number of the field.
        field: u64,
        /// The reason.
        error: DecodeError,
    },
    /// Text is not UTF-8.
    #[error("field {field} of the message is not valid UTF-8")]
    Text {
        /// Number of the field.
        field: u64,
    },
}

/// Splits a field's value off; `None` if it is no length-delimited one.
fn field_value<'a>(
    rest: &mut &'a [u8],
    field: u64,
    wire_type: u64,
) -> Result<Option<&'a [u8]>, FrameError> {
    if field == 0 || field > MAX_FIELD {
        return Err(FrameError::Field { field });
    }
    match wire_type {
        0 => varint(rest).map(|_| None),
        1 => split(rest, 8).map(|_| None),
        2 => {
            let length = varint(rest)?;
            let length = usize::try_from(length).map_err(|_| FrameError::Truncated)?;
            split(rest, length).map(Some)
        }
        5 => split(rest, 4).map(|_| None),
        // Groups (3 and 4) occur in no message of xDS.
        _ => Err(FrameError::WireType { field, wire_type }),
    }
}

fn split<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], FrameError> {
    let (value, after) = rest.split_at_checked(length).ok_or(FrameError::Truncated)?;
    *rest = after;
    Ok(value)
}

fn varint(rest: &mut &[u8]) -> Result<u64, FrameError> {
    let mut value = 0;
    for (index, byte) in rest.iter().take(MAX_VARINT).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            // The tenth byte holds the 64th bit.
            if index == MAX_VARINT - 1 && *byte > 1 {
                return Err(FrameError::Number);
            }
            *rest = &rest[index + 1..];
            return Ok(value);
        }
    }
    Err(if rest.len() < MAX_VARINT { FrameError::Truncated } else { FrameError::Number })
}

const MAX_FIELD: u64 = (1 << 29) - 1;
const MAX_VARINT: usize = 10;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::messages::{
        Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
        Resource, Status,
    };

    fn packed() -> impl Strategy<Value = Any> {
        (".{0,20}", prop::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(type_url, value)| Any { type_url, value: value.into() })
    }

    fn status() -> impl Strategy<Value = Status> {
        (any::<i32>(), ".{0,20}").prop_map(|(code, message)| Status { code, message })
    }

    fn delta_request() -> impl Strategy<Value = DeltaDiscoveryRequest> {
        let names = || prop::collection::vec(".{0,20}", 0..4);
        let node = prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
        let versions = prop::collection::btree_map(".{0,9}", ".{0,9}", 0..4);
        let fields = (node, ".{0,60}", names(), names(), versions, ".{0,20}");
        (fields, prop::option::of(status())).prop_map(|(fields, error_detail)| {
            let (node, type_url, subscribe, unsubscribe, versions, response_nonce) = fields;
            DeltaDiscoveryRequest {
                node: node.map(Bytes::from),
                type_url,
                resource_names_subscribe: subscribe,
                resource_names_unsubscribe: unsubscribe,
                initial_resource_versions: versions,
                response_nonce,
                error_detail,
            }
        })
    }

    fn delta_response() -> impl Strategy<Value = DeltaDiscoveryResponse> {
        let resource = (".{0,9}", prop::option::of(packed()), ".{0,9}").prop_map(
            |(version, resource, name)| Resource { version, resource, name, aliases: vec![] },
        );
        (prop::collection::vec(resource, 0..4), ".{0,60}", ".{0,20}", ".{0,9}").prop_map(
            |(resources, type_url, nonce, removed)| DeltaDiscoveryResponse {
                system_version_info: String::new(),
                resources,
                type_url,
                nonce,
                removed_resources: vec![removed],
            },
        )
    }

    #[test]
    fn error_detail_makes_a_rejection() {
        let error = Some(Status { code: 13, message: "invalid".to_owned() });
        let delta = DeltaDiscoveryRequest { error_detail: error.clone(), ..Default::default() };
        let sotw = DiscoveryRequest { error_detail: error, ..Default::default() };
        for (variant, frame) in [
            (Variant::Delta, delta.encode_to_vec()),
            (Variant::StateOfTheWorld, sotw.encode_to_vec()),
        ] {
            assert!(Header::of_request(variant, &frame).unwrap().is_rejection);
        }
    }

    proptest! {
        #[test]
        fn delta_request_has_its_header(request in delta_request()) {
            let frame = request.encode_to_vec();
            let header = Header::of_request(Variant::Delta, &frame).unwrap();
            prop_assert_eq!(header.type_url, request.type_url);
            prop_assert_eq!(header.nonce, request.response_nonce);
        }

        #[test]
        fn delta_response_has_its_header(response in delta_response()) {
            let frame = response.encode_to_vec();
            let header = Header::of_response(&frame).unwrap();
            prop_assert_eq!(header.type_url, response.type_url);
            prop_assert_eq!(header.nonce, response.nonce);
        }

        #[test]
        fn sotw_messages_have_their_headers(
            resources in prop::collection::vec(packed(), 0..4),
            type_url in ".{0,60}",
            nonce in ".{0,20}",
        ) {
            let frame = DiscoveryResponse {
                version_info: "1".to_owned(),
                resources,
                type_url: type_url.clone(),
                nonce: nonce.clone(),
            }
            .encode_to_vec();
            let expected =
                Header { type_url: &type_url, nonce: &nonce, is_rejection: false };
            prop_assert_eq!(Header::of_response(&frame).unwrap(), expected);
            let request = DiscoveryRequest {
                node: Some(frame.into()),
                type_url: type_url.clone(),
                response_nonce: nonce.clone(),
                ..DiscoveryRequest::default()
            };
            let frame = request.encode_to_vec();
            let header = Header::of_request(Variant::StateOfTheWorld, &frame).unwrap();
            prop_assert_eq!(header, expected);
        }

        /// A frame that prost decodes has the same header here, unless it contains groups.
        #[test]
        fn arbitrary_bytes_agree_with_prost(frame in prop::collection::vec(any::<u8>(), 0..40)) {
            let decoded = DeltaDiscoveryResponse::decode(&*frame);
            match (Header::of_response(&frame), decoded) {
                (Ok(header), Ok(decoded)) => {
                    prop_assert_eq!(header.type_url, decoded.type_url);
                    prop_assert_eq!(header.nonce, decoded.nonce);
                }
                (Err(FrameError::WireType { wire_type: 3, .. }) | Ok(_), _) | (_, Err(_)) => {}
                (Err(error), Ok(_)) => prop_assert!(false, "{error}"),
            }
        }

        #[test]
        fn truncated_frame_never_panics(response in delta_response()) {
            let frame = response.encode_to_vec();
            for length in 0..frame.len() {
                let cut = &frame[..length];
                // A cut between two fields leaves a valid message.
                let decoded = DeltaDiscoveryResponse::decode(cut);
                prop_assert_eq!(Header::of_response(cut).is_ok(), decoded.is_ok());
            }
        }
    }

    #[test]
    fn broken_frames_are_rejected_with_their_reason() {
        let header = Header::of_response;
        assert_eq!(header(&[0x22, 5, b'a']), Err(FrameError::Truncated));
        assert_eq!(header(&[0x22, 1, 0xff]), Err(FrameError::Text { field: 4 }));
        assert_eq!(header(&[0x00]), Err(FrameError::Field { field: 0 }));
        assert_eq!(header(&[0x20, 1]), Err(FrameError::WireType { field: 4, wire_type: 0 }));
        assert_eq!(header(&[0xff; 11]), Err(FrameError::Number));
    }

    #[test]
    fn last_of_repeated_headers_counts() {
        let header = Header::of_response(b"\x22\x01a\x22\x01b").unwrap();
        assert_eq!(header.type_url, "b");
    }
}
