//! sprig's checksums, computed on the pod's original text.

use std::fmt::Write as _;

use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};

use super::arguments::{exactly, text};
use super::{FunctionResult, Table, on_plain, table};

pub(super) const TABLE: Table = table![
    ("adler32sum", |a| {
        on_plain(a, |a| Ok(adler32(text(&exactly::<1>("adler32sum", a)?[0])?).to_string().into()))
    }),
    ("sha1sum", |a| on_plain(a, |a| sum("sha1sum", a, &SHA1_FOR_LEGACY_USE_ONLY))),
    ("sha256sum", |a| on_plain(a, |a| sum("sha256sum", a, &SHA256))),
    ("sha512sum", |a| on_plain(a, |a| sum("sha512sum", a, &SHA512))),
];

fn sum(name: &str, arguments: &[gtmpl_ng::Value], algorithm: &'static Algorithm) -> FunctionResult {
    let [subject] = exactly(name, arguments)?;
    let mut hexadecimal = String::new();
    for byte in digest(algorithm, text(subject)?.as_bytes()).as_ref() {
        let _ = write!(hexadecimal, "{byte:02x}");
    }
    Ok(hexadecimal.into())
}

/// Returns the Adler-32 checksum of RFC 1950, section 8.2.
fn adler32(subject: &str) -> u32 {
    const BASE: u32 = 65_521;
    let (low, high) = subject.bytes().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(byte)) % BASE;
        (low, (high + low) % BASE)
    });
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use crate::template::functions::check;

    #[test]
    fn results_equal_sprig() {
        check(&[
            ("adler32sum `Wikipedia`", "300286872"),
            ("adler32sum ``", "1"),
            ("sha1sum `abc`", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("sha256sum `abc`", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            ("sha512sum `abc` | trunc 16", "ddaf35a193617aba"),
        ]);
    }
}
