//! Suppressed messages.

use super::message::Message;

/// Messages of one code about some objects: `IST0103=Pod shop/*`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Suppression {
    code: String,
    /// Kind and name of the objects; `*` stands for any text.
    resource: String,
}

impl Suppression {
    /// Parses `CODE=RESOURCE`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((code, resource)) if !code.is_empty() && !resource.is_empty() => {
                Ok(Self { code: code.to_owned(), resource: resource.to_owned() })
            }
            _ => Err("want CODE=RESOURCE, for example 'IST0103=Pod web.shop'".to_owned()),
        }
    }

    /// True if the message is suppressed. The object may stand as `Pod shop/web` or `Pod web.shop`.
    pub fn applies(&self, message: &Message) -> bool {
        let origin = &message.origin;
        let names = match origin.namespace.as_str() {
            "" => [origin.to_string(), origin.to_string()],
            namespace => {
                [origin.to_string(), format!("{} {}.{namespace}", origin.kind, origin.name)]
            }
        };
        self.code == message.kind.code && names.iter().any(|name| matches(&self.resource, name))
    }
}

/// True if the object's own annotation suppresses the message.
pub fn is_suppressed_by_object(message: &Message) -> bool {
    let mut codes = message.origin.suppressed.split(',').map(str::trim);
    codes.any(|code| code == "*" || code == message.kind.code)
}

/// True if the text matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    (0..=text.len()).any(|at| text.is_char_boundary(at) && matches(rest, &text[at..]))
}

/// Annotation of an object with the codes of messages to suppress.
pub const SUPPRESS: &str = "galley.istio.io/analyze-suppress";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_text() {
        assert!(matches("Pod *.shop", "Pod web.shop"));
        assert!(matches("*", "") && matches("*b*", "abc") && matches("a", "a"));
        assert!(!matches("Pod *.shop", "Pod web.shop2") && !matches("*b", "abc"));
        assert!(Suppression::parse("IST0103").is_err() && Suppression::parse("=a").is_err());
    }
}
