//! File system layer of an image.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::documents::Descriptor;
use crate::content::Content;
use crate::digest::{Digest, DigestWriter};
use crate::error::{Error, Result};
use crate::file_tree::FileTree;
use crate::gzip;

/// Compression of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None: quick to write and to import.
    None,
    /// gzip
    Gzip,
}

/// A layer in a file.
pub(super) struct Layer {
    pub(super) descriptor: Descriptor,
    /// Digest of the archive before compression.
    pub(super) diff_id: Digest,
    pub(super) content: Content,
}

impl Layer {
    /// Writes a layer to `path`. Files have no time, so that equal files give equal layers.
    pub(super) fn write(files: &FileTree, compression: Compression, path: &Path) -> Result<Self> {
        let file = BufWriter::new(File::create(path).map_err(Error::write(path))?);
        let output = DigestWriter::new(file);
        let (diff_id, media_type, output) = match compression {
            Compression::None => {
                let mut archive = DigestWriter::new(output);
                files.write_tar(0, &mut archive)?;
                let (diff_id, _, output) = archive.finish();
                (diff_id, "application/vnd.oci.image.layer.v1.tar", output)
            }
            Compression::Gzip => {
                let mut archive = DigestWriter::new(gzip::encoder(output));
                files.write_tar(0, &mut archive)?;
                let (diff_id, _, encoder) = archive.finish();
                let output = encoder.finish().map_err(Error::write(path))?;
                (diff_id, "application/vnd.oci.image.layer.v1.tar+gzip", output)
            }
        };
        let (digest, size, mut file) = output.finish();
        file.flush().map_err(Error::write(path))?;
        let descriptor = Descriptor::new(media_type, digest, size);
        Ok(Self { descriptor, diff_id, content: Content::File(path.to_owned()) })
    }
}
