//! Codecs for gRPC: whole frames as bytes, and single messages.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Codec that passes frames on without decoding them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameCodec;

impl Codec for FrameCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for FrameCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, frame: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(frame.len());
        buffer.put(frame);
        Ok(())
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        // Splits the frame off the receive buffer; nothing is copied.
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// Codec that encodes messages `E` and decodes messages `D`.
#[derive(Debug)]
pub struct MessageCodec<E, D>(PhantomData<fn(E) -> D>);

impl<E, D> Default for MessageCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> Codec for MessageCodec<E, D>
where
    E: Message + 'static,
    D: Message + Default + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<E: Message, D> Encoder for MessageCodec<E, D> {
    type Item = E;
    type Error = Status;

    fn encode(&mut self, message: E, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<E, D: Message + Default> Decoder for MessageCodec<E, D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        // gRPC's code for a message that cannot be parsed.
        D::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
