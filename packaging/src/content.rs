//! Content of a packed file.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;

use crate::digest::{Digest, DigestWriter};
use crate::error::{Error, Result};

/// Bytes, or a file of this machine.
#[derive(Debug, Clone)]
pub enum Content {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// A file.
    File(PathBuf),
}

impl Content {
    /// Returns the number of bytes.
    pub(crate) fn size(&self) -> Result<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::File(path) => Ok(fs::metadata(path).map_err(Error::read(path))?.len()),
        }
    }

    /// Returns a reader of the bytes.
    pub(crate) fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(match self {
            Self::Bytes(bytes) => Box::new(bytes.as_slice()),
            Self::File(path) => Box::new(File::open(path).map_err(Error::read(path))?),
        })
    }

    /// Returns the digest and the number of bytes.
    pub(crate) fn digest(&self) -> Result<(Digest, u64)> {
        let mut writer = DigestWriter::new(io::sink());
        let copied = io::copy(&mut self.reader()?, &mut writer);
        copied.map_err(Error::pack("a digest"))?;
        let (digest, size, _) = writer.finish();
        Ok((digest, size))
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes())
    }
}
