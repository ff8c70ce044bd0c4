//! SHA-256 of contents.

use std::fmt;
use std::io::{self, Write};

use ring::digest::{Context, SHA256};

/// A SHA-256 digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut writer = DigestWriter::new(io::sink());
        writer.context.update(bytes);
        writer.finish().0
    }

    fn from_context(context: Context) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    /// Writes the 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A writer that computes the digest and the size of what it passes on.
pub(crate) struct DigestWriter<W> {
    inner: W,
    context: Context,
    size: u64,
}

impl<W: Write> DigestWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, context: Context::new(&SHA256), size: 0 }
    }

    pub(crate) fn finish(self) -> (Digest, u64, W) {
        (Digest::from_context(self.context), self.size, self.inner)
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(bytes)?;
        self.context.update(&bytes[..length]);
        self.size += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_sha256_in_hexadecimal() {
        assert_eq!(
            Digest::from_bytes(b"{}").to_string(),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
    }
}
