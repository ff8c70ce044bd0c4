//! DNS messages on a TCP stream, each after its length in two bytes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Reads a message; `None` at the end of the stream.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 2];
    if stream.read(&mut length[..1]).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[1..]).await?;
    let length = usize::from(u16::from_be_bytes(length));
    // The buffer grows with what arrives, not with what the length claims.
    let mut message = Vec::new();
    stream.take(length as u64).read_to_end(&mut message).await?;
    if message.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(message))
}

/// Writes a message.
pub async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len());
    let length = length.map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    // One write, so that small messages travel in one segment.
    let framed = [&length.to_be_bytes(), message].concat();
    stream.write_all(&framed).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_read_back_one_after_the_other() {
        let (largest, too_large) = (vec![7; 65_535], vec![7; 65_536]);
        let mut stream = Vec::new();
        for message in [&b"one"[..], b"", &largest] {
            write(&mut stream, message).await.unwrap();
        }
        let mut rest = &stream[..];
        assert_eq!(read(&mut rest).await.unwrap().unwrap(), b"one");
        assert_eq!(read(&mut rest).await.unwrap().unwrap(), b"");
        assert_eq!(read(&mut rest).await.unwrap().unwrap(), largest);
        assert_eq!(read(&mut rest).await.unwrap(), None);
        assert!(write(&mut stream, &too_large).await.is_err());
    }

    #[tokio::test]
    async fn truncated_frame_is_an_error() {
        let mut stream = Vec::new();
        write(&mut stream, b"a query").await.unwrap();
        for end in 1..stream.len() {
            let kind = read(&mut &stream[..end]).await.unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::UnexpectedEof, "{end}");
        }
    }
}
