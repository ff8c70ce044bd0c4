//! Names of network interfaces.

use std::fmt;
use std::str::FromStr;

use super::input_error::ValueError;

/// Name of a network interface, or with a final `+` or `*` a prefix of names.
///
/// The kernel accepts more characters. The accepted ones have no special meaning to
/// `iptables-restore` or `nft`, so a plan can be written as text safely.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName {
    name: String,
    is_prefix: bool,
}

impl InterfaceName {
    /// Returns the loopback interface.
    pub fn loopback() -> Self {
        Self { name: "lo".to_owned(), is_prefix: false }
    }

    /// Returns the name, or the part that all names share.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if this is a prefix of names.
    pub fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// True if the name matches.
    pub fn matches(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.name) } else { name == self.name }
    }
}

impl FromStr for InterfaceName {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        let not_a_name = || ValueError::new("is not an interface name");
        let (name, is_prefix) = match text.strip_suffix(['+', '*']) {
            Some("") => {
                return Err(ValueError::new("means every interface")
                    .hint("leave the capture flags empty instead"));
            }
            Some(prefix) => (prefix, true),
            None => (text, false),
        };
        if text.len() > LONGEST {
            return Err(not_a_name().hint(format!("use at most {LONGEST} characters")));
        }
        let mut bytes = name.bytes();
        let starts_well =
            bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !starts_well
            || !bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.-@".contains(&byte))
        {
            return Err(not_a_name().hint("use letters, digits and `_ . - @`, such as eth0"));
        }
        Ok(Self { name: name.to_owned(), is_prefix })
    }
}

/// Writes iptables' syntax.
impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.is_prefix { "+" } else { "" })
    }
}

const LONGEST: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_names_and_prefixes_match() {
        let all: InterfaceName = "eth+".parse().unwrap();
        assert!(all.matches("eth0") && all.matches("eth") && !all.matches("net1"));
        assert_eq!("eth*".parse(), Ok(all));
        let one: InterfaceName = " eth0.10".parse().unwrap();
        assert!(one.matches("eth0.10") && !one.matches("eth0.1"));
    }

    #[test]
    fn interface_names_exclude_syntax_characters() {
        for text in [
            "",
            "+",
            "-j",
            "eth0 -j ACCEPT",
            "eth0;",
            "\"lo\"",
            "a/b",
            "a:b",
            "*",
            "e*h",
            "0123456789abcdef",
        ] {
            assert!(text.parse::<InterfaceName>().is_err(), "{text}");
        }
    }
}
