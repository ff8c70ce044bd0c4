//! Environment variables of the agent: lookup, typed values, and warnings about those without
//! effect.

pub mod variables;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use documents::{excerpt, suggest};
use go_duration::DurationError;

use variables::{Effect, FAMILIES, Family, VARIABLES, Variable};

/// Environment of the agent. An empty value counts as unset.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    texts: BTreeMap<String, String>,
    /// Names of the variables that are not UTF-8.
    invalid: Vec<String>,
}

impl Environment {
    /// Takes the variables of a process. Variables that are not UTF-8 count as unset; see
    /// [`check_text`](Self::check_text).
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut environment = Self::default();
        for (name, value) in variables {
            match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => {
                    environment.texts.insert(name, value);
                }
                (name, _) => {
                    let name = name.unwrap_or_else(|name| name.to_string_lossy().into_owned());
                    environment.invalid.push(name);
                }
            }
        }
        environment.texts.retain(|_, value| !value.is_empty());
        environment
    }

    /// Fails if a variable that the agent uses is not UTF-8.
    pub fn check_text(&self) -> Result<(), NotText> {
        let used = self.invalid.iter().find(|name| is_used(name));
        used.map_or(Ok(()), |name| Err(NotText { variable: name.clone() }))
    }

    /// Returns the value of a variable; `None` if it is unset.
    pub fn get(&self, variable: &Variable) -> Option<&str> {
        self.texts.get(variable.name).map(String::as_str)
    }

    /// Returns the value of a variable that need not be in the table.
    pub fn named(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// Returns the value of a variable, or its default.
    pub fn text(&self, variable: &Variable) -> &str {
        self.get(variable).unwrap_or(variable.default)
    }

    /// Parses a switch, in the spellings of Go's `strconv.ParseBool`.
    pub fn switch(&self, variable: &'static Variable) -> Result<bool, EnvironmentError> {
        parse_bool(self.text(variable)).ok_or_else(|| self.wrong(variable, "true or false"))
    }

    /// Parses a duration that is not negative.
    pub fn duration(&self, variable: &'static Variable) -> Result<Duration, EnvironmentError> {
        go_duration::non_negative(self.text(variable)).map_err(|error| {
            self.wrong(
                variable,
                match error {
                    DurationError::TooLong { .. } => "a duration of at most 2562047h",
                    _ => "a duration such as 5s",
                },
            )
        })
    }

    /// Parses a port.
    pub fn port(&self, variable: &'static Variable) -> Result<u16, EnvironmentError> {
        let port = self.text(variable).parse().ok().filter(|port| *port != 0);
        port.ok_or_else(|| self.wrong(variable, "a port (1–65535)"))
    }

    /// Parses any other value. `expected` describes the accepted ones.
    pub fn parse<T: FromStr>(
        &self,
        variable: &'static Variable,
        expected: &'static str,
    ) -> Result<Option<T>, EnvironmentError> {
        let parse = |text: &str| text.parse().map_err(|_| self.wrong(variable, expected));
        self.get(variable).map(parse).transpose()
    }

    /// Returns the error for an invalid value of a variable.
    pub fn wrong(&self, variable: &'static Variable, expected: &'static str) -> EnvironmentError {
        EnvironmentError {
            variable: variable.name.to_owned(),
            value: excerpt::shorten(self.text(variable)).into_owned(),
            expected,
        }
    }

    /// Returns the variables of a family, without the prefix, sorted by name.
    pub fn family(&self, family: &Family) -> impl Iterator<Item = (&str, &str)> {
        let all = self.texts.iter();
        all.filter_map(|(name, value)| Some((name.strip_prefix(family.prefix)?, value.as_str())))
            .filter(|(name, _)| !name.is_empty())
    }

    /// Returns a message for each variable that is set and has no effect.
    pub fn notices(&self) -> Vec<Notice> {
        // Those that the agent uses are errors.
        let invalid = self.invalid.iter().filter(|name| !is_used(name));
        let invalid = invalid.filter(|name| variables::is_known(name) || is_ours(name));
        let invalid = invalid.map(|name| Notice {
            is_warning: true,
            message: format!("{name} has no effect: its name or value is not UTF-8 text"),
        });
        let notices = self.texts.iter().filter_map(|(name, value)| {
            let message = match VARIABLES.iter().find(|variable| variable.name == name) {
                Some(Variable { effect: Effect::Used, .. }) => return None,
                Some(Variable { effect: Effect::Expected(reason), .. }) => {
                    let message = format!("{name} has no effect: {reason}");
                    return Some(Notice { is_warning: false, message });
                }
                Some(Variable { default, .. }) if default == value => return None,
                Some(Variable { effect: Effect::Missing(reason), .. }) => {
                    format!("{name} has no effect: {reason}")
                }
                None if FAMILIES.iter().any(|family| family.prefix == name) => {
                    format!("{name} has no effect: the part after the prefix is missing")
                }
                None if !is_ours(name) => {
                    let near = misspelt(name)?;
                    format!("{name} is an unknown variable and has no effect; did you mean {near}?")
                }
                None => {
                    let names: Vec<_> = VARIABLES.iter().map(|variable| variable.name).collect();
                    let hint = suggest::did_you_mean(name, &names);
                    format!("{name} is an unknown variable and has no effect{hint}")
                }
            };
            Some(Notice { is_warning: true, message })
        });
        invalid.chain(notices).collect()
    }
}

/// Message about a variable without effect.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// True for a warning, false for a message of level debug.
    pub is_warning: bool,
    /// The variable, and the reason.
    pub message: String,
}

/// Invalid value of a variable.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{variable} has the invalid value {value:?}: expected {expected}")]
pub struct EnvironmentError {
    /// Name of the variable.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// Accepted values.
    pub expected: &'static str,
}

/// Variable that the agent uses and cannot read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{variable}: the value is not UTF-8 text; hint: encode the manifest that sets it as UTF-8")]
pub struct NotText {
    /// Name of the variable.
    pub variable: String,
}

/// True if the agent uses the variable. A name that is not text itself is no variable of its.
fn is_used(name: &str) -> bool {
    !name.contains(char::REPLACEMENT_CHARACTER) && variables::is_used(name)
}

/// Parses a switch as Go's `strconv.ParseBool` does.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// True if the name looks like a setting of the agent, and neither belongs to a family nor comes
/// from the kubelet, which writes variables for every Service of the namespace.
fn is_ours(name: &str) -> bool {
    let prefixes =
        ["ISTIO_", "PILOT_", "XDS_", "OUTRIGGER_", "SECRET_", "DNS_FORWARD_", "DNS_PROXY_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) && !is_foreign(name)
}

/// Returns the variable whose name is so similar to that of an unknown one that it is meant. Short
/// names differ from names of other programs by two letters, as `POD_IP` from `POD_UID`.
fn misspelt(name: &str) -> Option<&'static str> {
    const SHORTEST: usize = 6;
    if name.len() < SHORTEST || is_foreign(name) {
        return None;
    }
    let used = VARIABLES.iter().filter(|variable| variable.effect == Effect::Used);
    let names: Vec<_> = used.map(|variable| variable.name).collect();
    let edits = if name.len() < 2 * SHORTEST { 1 } else { 2 };
    let begun = || {
        let rest = |long: &&str| long.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
        names.iter().copied().find(|long| name.len() >= 2 * SHORTEST && rest(long))
    };
    suggest::within(name, &names, edits).or_else(begun)
}

/// True if the variable belongs to a family or may come from the kubelet.
fn is_foreign(name: &str) -> bool {
    name.contains("_SERVICE_")
        || name.ends_with("_PORT")
        || name.contains("_PORT_")
        || FAMILIES.iter().any(|family| name.starts_with(family.prefix))
}

#[cfg(test)]
mod tests {
    use super::variables::*;
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::new(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn empty_value_counts_as_unset() {
        let environment = environment(&[("ENVOY_STATUS_PORT", ""), ("POD_NAME", "")]);
        assert_eq!(environment.port(ENVOY_STATUS_PORT), Ok(15021));
        assert_eq!(environment.get(POD_NAME), None);
    }

    #[test]
    fn invalid_value_names_variable_and_expectation() {
        let environment = environment(&[
            ("ENVOY_STATUS_PORT", "0"),
            ("SECRET_TTL", "a day"),
            ("ISTIO_DELTA_XDS", "yes"),
            ("DNS_FORWARD_TIMEOUT", "9999999999h"),
        ]);
        let error = environment.duration(DNS_FORWARD_TIMEOUT).unwrap_err().to_string();
        assert!(error.ends_with("expected a duration of at most 2562047h"), "{error}");
        let error = environment.port(ENVOY_STATUS_PORT).unwrap_err().to_string();
        assert_eq!(
            error,
            r#"ENVOY_STATUS_PORT has the invalid value "0": expected a port (1–65535)"#
        );
        assert!(environment.duration(SECRET_TTL).is_err());
        assert!(environment.switch(ISTIO_DELTA_XDS).is_err());
    }

    #[test]
    fn variables_without_effect_are_reported() {
        let environment = environment(&[
            ("GOMEMLIMIT", "1073741824"),
            ("ISTIO_DELTA_XD", "true"),
            ("ISTIO_META_ANYTHING", "x"),
            ("XDS_HEADER_", "x"),
            ("ISTIO_INGRESSGATEWAY_SERVICE_HOST", "10.0.0.1"),
            ("ISTIO_INGRESSGATEWAY_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("CREDENTIAL_FETCHER_TYPE", "GoogleComputeEngine"),
            ("PATH", "/bin"),
        ]);
        let notices = environment.notices();
        let told: Vec<_> =
            notices.iter().map(|notice| (notice.is_warning, notice.message.as_str())).collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].0 && told[0].1.starts_with("CREDENTIAL_FETCHER_TYPE has no effect: "));
        assert!(!told[1].0 && told[1].1.starts_with("GOMEMLIMIT has no effect: "));
        assert!(told[2].0 && told[2].1.contains("ISTIO_DELTA_XDS"), "{told:?}");
        assert!(told[3].0 && told[3].1.starts_with("XDS_HEADER_ has no effect: "), "{told:?}");
    }

    #[test]
    fn variable_that_is_not_text_is_reported() {
        use std::os::unix::ffi::OsStringExt as _;
        let bytes = |text: &[u8]| OsString::from_vec(text.to_vec());
        let environment = Environment::new([
            (bytes(b"DD_SITE"), bytes(b"\xff")),
            (bytes(b"ISTIO_META_\xff"), bytes(b"x")),
            (bytes(b"OTHER"), bytes(b"\xff")),
        ]);
        let told: Vec<_> = environment.notices().into_iter().map(|told| told.message).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("DD_SITE has no effect: "), "{told:?}");
        assert_eq!(environment.check_text(), Ok(()));
        for name in ["POD_NAME", "ISTIO_META_ZONE", "XDS_HEADER_X"] {
            let environment = Environment::new([(name.into(), bytes(b"\xff"))]);
            let error = environment.check_text().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}: the value is not UTF-8")), "{error}");
        }
    }

    #[test]
    fn misspelt_variables_get_a_suggestion() {
        for (name, near) in [
            ("CA_ADR", Some("CA_ADDR")),
            ("FILE_DEBOUNCE", Some("FILE_DEBOUNCE_DURATION")),
            ("DISABLE_ENVOYX", Some("DISABLE_ENVOY")),
            ("PROXY_CONFIGX", Some("PROXY_CONFIG")),
            ("SECRET_TTLX", Some("SECRET_TTL")),
            ("NODE_NAME", None),
            ("POD_IP", None),
            ("HOSTNAME", None),
            ("SERVICE", None),
            ("CA_ADDR_PORT", None),
        ] {
            let told = environment(&[(name, "x")]).notices();
            match near {
                Some(near) => assert!(
                    told[0].is_warning
                        && told[0].message.ends_with(&format!("did you mean {near}?")),
                    "{told:?}"
                ),
                None => assert!(told.is_empty(), "{told:?}"),
            }
        }
    }

    #[test]
    fn table_is_sorted_and_without_repetition() {
        let names: Vec<_> = VARIABLES.iter().map(|variable| variable.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names.len(), sorted.len());
    }

    #[test]
    fn defaults_of_used_variables_can_be_parsed() {
        let environment = Environment::default();
        for variable in VARIABLES.iter().filter(|variable| variable.effect == Effect::Used) {
            match variable.default {
                "true" | "false" => assert!(environment.switch(variable).is_ok()),
                text if text.ends_with(['s', 'h'])
                    && text.starts_with(|c: char| c.is_ascii_digit()) =>
                {
                    assert!(environment.duration(variable).is_ok(), "{}", variable.name);
                }
                _ => {}
            }
        }
    }
}
