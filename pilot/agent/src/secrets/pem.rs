//! PEM text of keys and certificates.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{Error, PemObject};
use zeroize::Zeroizing;

/// Returns a DER value as PEM; the text is overwritten in memory when it is dropped.
pub(crate) fn encode(label: &str, der: &[u8]) -> Zeroizing<String> {
    // Reserved once: growing would leave copies of a key in freed memory.
    let capacity = 2 * (label.len() + FRAME) + der.len() / LINE * (TEXT_LINE + 1) + TEXT_LINE + 1;
    let mut text = Zeroizing::new(String::with_capacity(capacity));
    text.push_str("-----BEGIN ");
    text.push_str(label);
    text.push_str("-----\n");
    for line in der.chunks(LINE) {
        STANDARD.encode_string(line, &mut text);
        text.push('\n');
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
    text
}

/// Returns certificates as PEM, one after another.
pub(crate) fn certificates<'a>(
    certificates: impl IntoIterator<Item = &'a CertificateDer<'static>>,
) -> String {
    certificates.into_iter().map(|der| encode("CERTIFICATE", der).to_string()).collect()
}

/// Parses all certificates of a PEM text; other blocks are skipped.
pub(crate) fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| describe(&error))
}

/// Describes an error. The library's own messages quote the text, which may be a key.
pub(crate) fn describe(error: &Error) -> &'static str {
    match error {
        Error::MissingSectionEnd { .. } => "an END line is missing",
        Error::IllegalSectionStart { .. } => "a BEGIN line is invalid",
        Error::Base64Decode(_) => "the text between BEGIN and END is not base64",
        Error::NoItemsFound => "no PEM block of the expected kind",
        _ => "invalid PEM",
    }
}

/// Bytes of one line.
const LINE: usize = 48;
/// Characters of one line without its end.
const TEXT_LINE: usize = 64;
/// Characters of a boundary line besides its label.
const FRAME: usize = 17;

#[cfg(test)]
mod tests {
    use rustls_pki_types::PrivateKeyDer;

    use super::*;

    #[test]
    fn encoded_text_parses_and_is_never_reallocated() {
        for length in [0, 1, 47, 48, 49, 121, 167, 1_200] {
            let der: Vec<u8> = (0..=250).cycle().take(length).collect();
            let text = encode("EC PRIVATE KEY", &der);
            let PrivateKeyDer::Sec1(parsed) =
                PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap()
            else {
                panic!("not SEC 1");
            };
            assert_eq!(parsed.secret_sec1_der(), der);
            assert!(text.lines().all(|line| line.len() <= TEXT_LINE));
            let reserved = 2 * (14 + FRAME) + length / LINE * (TEXT_LINE + 1) + TEXT_LINE + 1;
            assert!(text.len() <= reserved, "{} > {reserved}", text.len());
        }
    }
}
