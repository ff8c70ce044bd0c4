//! Environment of the program: one variable of Istio's with its meaning, and advice about others.

use std::ffi::OsString;
use std::num::NonZeroU32;

/// Settings and warnings from the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// New streams a second; `None` for no limit.
    pub streams_per_second: Option<NonZeroU32>,
    /// Warnings about variables without effect.
    pub warnings: Vec<String>,
}

impl Environment {
    /// Parses variables. An error names the variable.
    pub fn parse(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut variables: Vec<_> = variables.into_iter().collect();
        variables.sort_unstable();
        for (name, value) in variables {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
            if name == MAX_REQUESTS {
                let number: u32 = value.trim().parse().map_err(|_| {
                    format!("{name} has the invalid value {value:?}: expected a whole number")
                })?;
                parsed.streams_per_second = NonZeroU32::new(number);
            } else if let Some((_, reason)) = WITHOUT_EFFECT.iter().find(|(of, _)| *of == name) {
                parsed.warnings.push(format!("{name} has no effect: {reason}"));
            } else if name.starts_with("PILOT_") && !is_of_a_service(name) {
                parsed.warnings.push(format!(
                    "{name} has no effect: this program does not read it; hint: pilot-discovery \
                     discovery --help lists the flags"
                ));
            }
        }
        Ok(parsed)
    }
}

/// True for the variables by which the kubelet tells a pod of Services, such as one named `pilot-x`.
fn is_of_a_service(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.contains("_PORT_")
}

/// Limit of new streams.
pub const MAX_REQUESTS: &str = "PILOT_MAX_REQUESTS_PER_SECOND";

/// Variables of Istio's without effect, with the reason or with the flag to use.
pub const WITHOUT_EFFECT: [(&str, &str); 20] = [
    ("CLUSTER_ID", "use --clusterID"),
    ("ENABLE_DEBUG_ON_HTTP", "use an empty --httpAddr to switch the debug pages off"),
    ("MAX_WORKLOAD_CERT_TTL", "use --maxCertLifetime"),
    ("PILOT_DEBOUNCE_AFTER", NO_DEBOUNCE),
    ("PILOT_DEBOUNCE_MAX", NO_DEBOUNCE),
    ("PILOT_ENABLE_CDS_CACHE", CACHE),
    ("PILOT_ENABLE_EDS_DEBOUNCE", NO_DEBOUNCE),
    ("PILOT_ENABLE_RDS_CACHE", CACHE),
    ("PILOT_ENABLE_XDS_CACHE", CACHE),
    ("PILOT_PUSH_THROTTLE", "a proxy gets its next response when it has acknowledged the last one"),
    ("PILOT_SEND_UNHEALTHY_ENDPOINTS", "unready endpoints are sent with publishNotReadyAddresses"),
    ("PILOT_TRACE_SAMPLING", "proxies get no settings of tracing from this program"),
    ("PILOT_XDS_CACHE_INDEX_CLEAR_INTERVAL", CACHE),
    ("PILOT_XDS_CACHE_SIZE", CACHE),
    ("PILOT_XDS_SEND_TIMEOUT", "a proxy that reads nothing for 30 s loses its stream"),
    ("REVISION", "use --revision"),
    ("TOKEN_AUDIENCES", "use --tokenAudiences"),
    ("UNSAFE_ENABLE_ADMIN_ENDPOINTS", "no page changes anything"),
    ("XDS_AUTH", "the listener with TLS authenticates all callers"),
    ("XDS_AUTH_PLAINTEXT", "use --allowPlaintextGRPC"),
];

const NO_DEBOUNCE: &str = "changes are published at once, and those made while a proxy has not acknowledged become one \
     response";
const CACHE: &str = "resources are kept as long as a connected proxy has them";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(variables: &[(&str, &str)]) -> Result<Environment, String> {
        Environment::parse(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn variables_without_effect_cause_warnings() {
        let warnings = |name: &str| parse(&[(name, "1s")]).unwrap().warnings;
        for (name, reason) in WITHOUT_EFFECT {
            assert_eq!(warnings(name), [format!("{name} has no effect: {reason}")]);
        }
        assert!(warnings("PILOT_UNHEARD_OF")[0].contains("does not read it"));
        for name in ["HOME", "PILOT_SERVICE_HOST", "PILOT_X_PORT_80_TCP", "PILOT_PORT"] {
            assert_eq!(warnings(name), [""; 0], "{name}");
        }
    }

    #[test]
    fn limit_of_new_streams_is_a_number() {
        let limit = |value| parse(&[(MAX_REQUESTS, value)]).map(|it| it.streams_per_second);
        assert_eq!(limit("25"), Ok(NonZeroU32::new(25)));
        assert_eq!(limit("0"), Ok(None));
        let error = limit("many").unwrap_err();
        assert!(error.starts_with("PILOT_MAX_REQUESTS_PER_SECOND "), "{error}");
    }
}
