//! Messages for errors of the PEM parser.

use rustls_pki_types::pem::Error;

/// Describes an error without quoting the text, which may hold a key.
pub(crate) fn describe(error: &Error) -> String {
    match error {
        Error::NoItemsFound => "no such section in it".to_owned(),
        Error::MissingSectionEnd { end_marker } => match label(end_marker) {
            Some(label) => format!("there is no line `-----END {label}-----`"),
            None => "a section has no line `-----END LABEL-----`".to_owned(),
        },
        Error::IllegalSectionStart { .. } => {
            "a line begins with `-----BEGIN` and is not of the form `-----BEGIN LABEL-----`"
                .to_owned()
        }
        Error::Base64Decode(_) => "a section is not in base64".to_owned(),
        other => other.to_string(),
    }
}

/// Label of the section; `None` if newlines are missing, since the marker then contains the key.
fn label(marker: &[u8]) -> Option<&str> {
    let is_label = |&byte: &u8| byte.is_ascii_uppercase() || byte == b' ';
    std::str::from_utf8(marker).ok().filter(|label| label.as_bytes().iter().all(is_label))
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::PrivateKeyDer;
    use rustls_pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn messages_do_not_quote_the_text() {
        for (text, reason) in [
            ("", "no such section in it"),
            ("c2VjcmV0", "no such section in it"),
            (
                "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n",
                "there is no line `-----END PRIVATE KEY-----`",
            ),
            (
                "-----BEGIN PRIVATE KEY-----\n\u{1}secret\n-----END PRIVATE KEY-----\n",
                "a section is not in base64",
            ),
            (
                "-----BEGIN PRIVATE KEY----- c2VjcmV0 -----END PRIVATE KEY-----\n",
                "a section has no line `-----END LABEL-----`",
            ),
            (
                "-----BEGIN PRIVATE KEY----- c2VjcmV0\n",
                "a line begins with `-----BEGIN` and is not of the form `-----BEGIN LABEL-----`",
            ),
        ] {
            let error = PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap_err();
            assert_eq!(describe(&error), reason, "{text:?}");
        }
    }
}
