//! Compression without a name and a time in its header.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder, write::GzEncoder};

/// Returns a writer that compresses large contents.
pub(crate) fn encoder<W: Write>(output: W) -> GzEncoder<W> {
    with_level(output, Compression::default())
}

/// Returns bytes compressed as well as possible, as Debian demands of documentation.
pub(crate) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = with_level(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn with_level<W: Write>(output: W, level: Compression) -> GzEncoder<W> {
    GzBuilder::new().operating_system(UNKNOWN_SYSTEM).write(output, level)
}

const UNKNOWN_SYSTEM: u8 = 255;
