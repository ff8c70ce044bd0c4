//! Streamed body of a page, with a bounded buffer.

use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use thiserror::Error;
use tokio::sync::mpsc;

/// Body of a response.
pub(super) type PageBody = UnsyncBoxBody<Bytes, Incomplete>;

/// Writer of a page. The page is incomplete, and the reader sees a broken connection, unless
/// [`PageWriter::end`] is called.
#[derive(Debug)]
pub(super) struct PageWriter {
    pieces: mpsc::Sender<Piece>,
    /// Bytes that are not sent yet.
    pub(super) buffer: Vec<u8>,
}

/// The page broke off.
#[derive(Debug, Error)]
#[error("the page is incomplete")]
pub(super) struct Incomplete;

/// The reader has closed its connection.
#[derive(Debug)]
pub(super) struct ReaderGone;

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    End,
}

impl PageWriter {
    /// Returns a writer and the body that it writes.
    pub(super) fn new() -> (Self, PageBody) {
        let (pieces, read) = mpsc::channel(1);
        let frames = stream::unfold(Some(read), |read| async {
            let mut read = read?;
            match read.recv().await {
                Some(Piece::Data(data)) => Some((Ok(Frame::data(data)), Some(read))),
                Some(Piece::End) => None,
                None => Some((Err(Incomplete), None)),
            }
        });
        (Self { pieces, buffer: Vec::new() }, StreamBody::new(frames).boxed_unsync())
    }

    /// Sends the buffer once it is full, and waits for a slow reader.
    pub(super) async fn flush_if_full(&mut self) -> Result<(), ReaderGone> {
        if self.buffer.len() < PIECE { Ok(()) } else { self.flush().await }
    }

    /// Sends the rest and completes the page.
    pub(super) async fn end(mut self) -> Result<(), ReaderGone> {
        self.flush().await?;
        self.pieces.send(Piece::End).await.map_err(|_| ReaderGone)
    }

    async fn flush(&mut self) -> Result<(), ReaderGone> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let data = Bytes::from(std::mem::take(&mut self.buffer));
        self.pieces.send(Piece::Data(data)).await.map_err(|_| ReaderGone)
    }
}

/// Size of a piece in bytes.
pub(super) const PIECE: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn page_without_an_end_is_an_error() {
        let (mut writer, body) = PageWriter::new();
        writer.buffer.extend_from_slice(b"a 1\n");
        let (written, read) = tokio::join!(writer.end(), body.collect());
        written.unwrap();
        assert_eq!(read.unwrap().to_bytes(), "a 1\n");

        let (writer, body) = PageWriter::new();
        drop(writer);
        assert!(body.collect().await.is_err());
    }

    #[tokio::test]
    async fn writer_waits_for_its_reader() {
        let (mut writer, body) = PageWriter::new();
        for _ in 0..2 {
            writer.buffer.resize(PIECE, b'x');
            let flushed = futures::FutureExt::now_or_never(writer.flush_if_full());
            // The channel holds one piece.
            if flushed.is_none() {
                drop(body);
                writer.buffer.resize(PIECE, b'x');
                assert!(writer.flush_if_full().await.is_err());
                return;
            }
        }
        panic!("two pieces were taken without a reader");
    }
}
