//! Whether proxies become native sidecars, as both programs are told.

use std::str::FromStr;

/// The value of `ENABLE_NATIVE_SIDECARS`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NativeSidecars {
    /// As Kubernetes allows, which every supported version does.
    Auto,
    /// Never.
    False,
    /// Always.
    True,
}

impl NativeSidecars {
    /// Whether the proxy becomes one where a pod does not say.
    pub fn by_default(self) -> bool {
        self != Self::False
    }
}

impl FromStr for NativeSidecars {
    type Err = String;

    /// Reads the word in any letter case; an empty one, as of a variable that is set to nothing,
    /// is `auto`.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word.to_ascii_lowercase().as_str() {
            "" | "auto" => Ok(Self::Auto),
            "false" => Ok(Self::False),
            "true" => Ok(Self::True),
            _ => Err("ENABLE_NATIVE_SIDECARS is auto, true or false".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_set_to_nothing_is_auto() {
        assert_eq!("".parse(), Ok(NativeSidecars::Auto));
        assert_eq!("False".parse(), Ok(NativeSidecars::False));
        assert!("yes".parse::<NativeSidecars>().unwrap_err().contains("auto, true or false"));
    }
}
