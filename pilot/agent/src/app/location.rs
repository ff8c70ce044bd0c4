//! Value of the header `Location`, as Go's `net/url` divides it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderValue;

/// URI reference without its fragment (RFC 3986, section 4.1). Characters that a URL cannot have
/// are escaped.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Scheme, in lower case.
    pub(super) scheme: Option<String>,
    /// `//[USER@]HOST[:PORT]` of the reference.
    pub(super) authority: Option<Authority>,
    /// Path, or the rest of a URL like `mailto:x`.
    pub(super) path: String,
    /// Query with its question mark; empty without one.
    pub(super) query: String,
}

/// Server of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Authority {
    /// `Authorization` header of its user and password.
    pub(super) authorization: Option<HeaderValue>,
    /// Host, without brackets.
    pub(super) host: String,
    /// Port; `None` for that of the scheme.
    pub(super) port: Option<u16>,
}

impl Reference {
    /// Parses the value of the header. Returns `None` for text that is no URL.
    pub(super) fn parse(location: &[u8]) -> Option<Self> {
        if location.iter().any(u8::is_ascii_control) {
            return None;
        }
        let text = escape(location);
        let (text, fragment) = text.split_once('#').unwrap_or((&text, ""));
        let (scheme, text) = split_scheme(text)?;
        let (text, query) = text.find('?').map_or((text, ""), |at| text.split_at(at));
        let (authority, path) = match text.strip_prefix("//") {
            // Without a scheme, three slashes begin a path.
            Some(rest) if scheme.is_some() || !rest.starts_with('/') => {
                let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
                (Some(authority), path)
            }
            _ => (None, text),
        };
        let first_segment = path.split('/').next().unwrap_or_default();
        let has_colon = scheme.is_none() && authority.is_none() && first_segment.contains(':');
        if has_colon || !is_escaped(path) || !is_escaped(fragment) {
            return None;
        }
        let authority = authority.filter(|text| scheme.is_some() || !text.is_empty());
        Some(Self {
            scheme: scheme.map(str::to_ascii_lowercase),
            authority: match authority {
                Some(text) => Some(Authority::parse(text)?),
                None => None,
            },
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }
}

impl Authority {
    fn parse(text: &str) -> Option<Self> {
        let (authorization, text) = match text.rsplit_once('@') {
            Some((user, server)) => (Some(basic_authorization(user)?), server),
            None => (None, text),
        };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.rsplit_once(']')?,
            None => text.rfind(':').map_or((text, ""), |at| text.split_at(at)),
        };
        let is_host_byte = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || byte >= 0x80
                || b"-._~!$&'()*+,;=:[]<>\"".contains(&byte)
        };
        if !unescape(host)?.iter().copied().all(is_host_byte) {
            return None;
        }
        let port = match port {
            "" | ":" => None,
            _ => {
                let digits = port.strip_prefix(':')?;
                // `u16::from_str` accepts a sign.
                let digits = Some(digits).filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
                Some(digits?.parse().ok()?)
            }
        };
        Some(Self { authorization, host: host.to_owned(), port })
    }
}

/// Returns the header for `USER[:PASSWORD]`. Returns `None` for text that is neither.
fn basic_authorization(text: &str) -> Option<HeaderValue> {
    let is_user_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let is_valid = text.bytes().all(is_user_byte);
    let text = [&*unescape(user).filter(|_| is_valid)?, b":", &*unescape(password)?].concat();
    let mut header = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(text))).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Splits the scheme off. Returns `None` for a text that begins with a colon.
fn split_scheme(text: &str) -> Option<(Option<&str>, &str)> {
    let is_scheme = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    match text.split_once(':') {
        Some(("", _)) => None,
        Some((name, rest)) if is_scheme(name) => Some((Some(name), rest)),
        _ => Some((None, text)),
    }
}

/// Escapes characters that a URL cannot have. A percent sign stays.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut escaped = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.extend(['%', hex(byte >> 4), hex(byte & 15)]);
        }
    }
    escaped
}

fn hex(digit: u8) -> char {
    char::from_digit(digit.into(), 16).unwrap_or('0').to_ascii_uppercase()
}

/// Returns true if each percent sign begins an escape.
fn is_escaped(text: &str) -> bool {
    unescape(text).is_some()
}

fn unescape(text: &str) -> Option<Cow<'_, [u8]>> {
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default();
    let mut bytes = Cow::Borrowed(first.as_bytes());
    for part in parts {
        let digits = part.get(..2).filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let bytes = bytes.to_mut();
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colon_after_the_first_segment_is_no_scheme() {
        for (text, scheme) in [
            ("bad?u=https://b", None),
            ("/bad://x", None),
            ("./a:b", None),
            ("mailto:x", Some("mailto")),
            ("HTTP:x", Some("http")),
        ] {
            let reference = Reference::parse(text.as_bytes()).unwrap();
            assert_eq!(reference.scheme.as_deref(), scheme, "{text}");
        }
        assert_eq!(
            [":x", "1a:b", "a b:c"].map(|text| Reference::parse(text.as_bytes())),
            [None, None, None]
        );
    }

    #[test]
    fn user_of_an_authority_becomes_a_header() {
        for (text, header) in [
            ("//user:word@a/", "Basic dXNlcjp3b3Jk"),
            ("//us%65r:w:o@a/", "Basic dXNlcjp3Om8="),
            ("//user@a/", "Basic dXNlcjo="),
        ] {
            let authority = Reference::parse(text.as_bytes()).unwrap().authority.unwrap();
            assert_eq!(authority.authorization.unwrap(), header, "{text}");
        }
        for text in ["//us[er@a/", "//user:%zz@a/"] {
            assert_eq!(Reference::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn authority_has_host_and_port() {
        for (text, host, port) in [
            ("http://web.example", "web.example", None),
            ("//web.example:/x", "web.example", None),
            ("//user:word@[fd00::1]:81/x", "fd00::1", Some(81)),
            ("http:///x", "", None),
        ] {
            let authority = Reference::parse(text.as_bytes()).unwrap().authority.unwrap();
            assert_eq!((&*authority.host, authority.port), (host, port), "{text}");
        }
        for text in ["//a:65536/", "//a:+1/", "//a:b/", "//[::1]81", "//[", "//a b/", "//a%20b/"] {
            assert_eq!(Reference::parse(text.as_bytes()), None, "{text}");
        }
    }
}
