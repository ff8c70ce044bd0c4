//! Frames of an xDS stream.

use pilot_xds::frame::Header;
use pilot_xds::messages::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use pilot_xds::service::Variant;
use prost::Message as _;

/// Fuzzes a frame in each direction and variant: the header is that of the decoded message.
pub fn frames(data: &[u8]) {
    let delta_request = DeltaDiscoveryRequest::decode(data).ok();
    let request = DiscoveryRequest::decode(data).ok();
    let delta_response = DeltaDiscoveryResponse::decode(data).ok();
    let response = DiscoveryResponse::decode(data).ok();
    for (header, decoded) in [
        (
            Header::of_request(Variant::Delta, data),
            delta_request.map(|message| (message.type_url, message.response_nonce)),
        ),
        (
            Header::of_request(Variant::StateOfTheWorld, data),
            request.map(|message| (message.type_url, message.response_nonce)),
        ),
        (
            Header::of_response(data),
            delta_response.map(|message| (message.type_url, message.nonce)),
        ),
        (Header::of_response(data), response.map(|message| (message.type_url, message.nonce))),
    ] {
        if let (Ok(header), Some((type_url, nonce))) = (header, decoded) {
            assert_eq!((header.type_url, header.nonce), (&*type_url, &*nonce));
        }
    }
}
