//! Capture request of a pod: arguments and environment of its init container, as the injector
//! writes them into an annotation.
//!
//! The request comes from the author of the pod. It selects what is captured in that pod and
//! nothing else: flags that choose a program, a file or another namespace are rejected, and names
//! of accounts are not looked up on the node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use istio_init::args::flags::{FLAGS, Flag};
use istio_init::args::{Args, Source};
use istio_init::config::host_evidence::HostEvidence;
use istio_init::config::{Config, InvalidConfig, NameServers, Outbound, PodEnvironment};
use istio_init::plan::{Plan, plan};
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Capture request of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// Arguments of the init container, without a program.
    #[serde(default)]
    pub args: Vec<String>,
    /// Environment variables of the init container that have a literal value.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// Facts about the pod's network namespace that a plan depends on.
#[derive(Clone, Debug)]
pub struct NetworkFacts {
    /// All addresses of all interfaces, in the kernel's order.
    pub addresses: Vec<IpAddr>,
    /// Name servers of the pod; `None` or none if they are unknown.
    pub name_servers: Option<Vec<IpAddr>>,
    /// Evidence of a node's network namespace, or the error of reading it.
    pub host: Result<HostEvidence, String>,
}

/// Error of a capture request.
#[derive(Debug, Error)]
pub enum InvalidRequest {
    /// The annotation is too long.
    #[error("it has {0} bytes, and at most {MOST_BYTES} are allowed")]
    TooLong(usize),
    /// The annotation is not a request in JSON.
    #[error("it is not a capture request: {0}")]
    Json(#[from] serde_json::Error),
    /// The rules would be too many.
    #[error(
        "{interfaces} interfaces with {ranges} ranges each are more than {MOST_RULES} pairs; hint: use \
         fewer"
    )]
    TooManyRules {
        /// Interfaces whose traffic counts as outbound.
        interfaces: usize,
        /// Ranges to capture.
        ranges: usize,
    },
    /// The arguments are not those of `istio-init`.
    #[error("its arguments are invalid: {0}")]
    Usage(String),
    /// A flag has another purpose than capture.
    #[error("{0} is not allowed in a capture request")]
    NotCapture(Source),
    /// Values are invalid.
    #[error(transparent)]
    Config(#[from] InvalidConfig),
}

impl CaptureRequest {
    /// Parses the value of the annotation.
    pub fn parse(annotation: &str) -> Result<Self, InvalidRequest> {
        if annotation.len() > MOST_BYTES {
            return Err(InvalidRequest::TooLong(annotation.len()));
        }
        if !annotation.trim_ascii_start().starts_with('{') {
            return Err(serde_json::Error::custom("it is no JSON object").into());
        }
        Ok(serde_json::from_str(annotation)?)
    }

    /// Returns the request unless it is longer than an annotation may be.
    pub fn within_limit(self) -> Result<Self, InvalidRequest> {
        let texts = self.args.iter().chain(self.env.iter().flat_map(|(name, value)| [name, value]));
        let bytes = texts.map(String::len).sum();
        if bytes > MOST_BYTES { Err(InvalidRequest::TooLong(bytes)) } else { Ok(self) }
    }

    /// Plans the rules of the request, as `istio-init` does for the same arguments in the pod.
    ///
    /// If the name servers are unknown and DNS is captured, queries to every server are.
    pub fn plan(&self, facts: &NetworkFacts) -> Result<Plan, InvalidRequest> {
        let words = std::iter::once("istio-init").chain(self.args.iter().map(String::as_str));
        let args = Args::parse(words.map(Into::into), &self.env)
            .map_err(|usage| InvalidRequest::Usage(first_line(&usage.to_string())))?;
        if let Some(source) = not_capture(&args) {
            return Err(InvalidRequest::NotCapture(source));
        }
        let resolv_conf = facts.name_servers.iter().flatten();
        let resolv_conf = resolv_conf
            .fold(String::new(), |text, server| text + "nameserver " + &server.to_string() + "\n");
        let pod = PodEnvironment {
            addresses: facts.addresses.clone(),
            resolv_conf: Ok(resolv_conf),
            host: facts.host.clone(),
            ..PodEnvironment::default()
        };
        let (mut config, _) = Config::read(&args, &pod)?;
        if let (interfaces, Outbound::Only(ranges)) =
            (config.virtual_interfaces.len(), &config.outbound)
            && interfaces.saturating_mul(ranges.len()) > MOST_RULES
        {
            return Err(InvalidRequest::TooManyRules { interfaces, ranges: ranges.len() });
        }
        // Of no server, `istio-init` captures no DNS. Here, the runtime has passed none.
        if args.is_on(Flag::RedirectDns) && config.dns.is_none() {
            config.dns = Some(NameServers::All);
        }
        Ok(plan(&config))
    }
}

/// Returns the source of the first flag that is set and has another purpose than capture.
fn not_capture(args: &Args) -> Option<Source> {
    FLAGS.iter().filter(|spec| REJECTED.contains(&spec.flag)).find_map(|spec| {
        let value = args.flag(spec.flag);
        (value.text != spec.default).then_some(value.source)
    })
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Annotation with the capture request.
pub const ANNOTATION: &str = "sidecar.outrigger.io/capture";

/// Flags that choose another action, a program or another namespace.
const REJECTED: [Flag; 5] = [
    Flag::AllowHostNetwork,
    Flag::Backend,
    Flag::CleanupOnly,
    Flag::DryRun,
    Flag::ForceIptablesBinary,
];

/// Longest annotation.
const MOST_BYTES: usize = 64 * 1024;
/// Most pairs of an interface and a range.
const MOST_RULES: usize = 100_000;

#[cfg(test)]
mod tests {
    use istio_init::plan::Rule;

    use super::*;

    fn facts() -> NetworkFacts {
        NetworkFacts {
            addresses: vec!["10.0.0.7".parse().unwrap()],
            name_servers: None,
            host: Ok(HostEvidence::default()),
        }
    }

    fn refusal(annotation: &str) -> String {
        let request = CaptureRequest::parse(annotation);
        request.and_then(|request| request.plan(&facts())).unwrap_err().to_string()
    }

    #[test]
    fn arguments_of_the_validation_container_are_accepted() {
        let request = CaptureRequest::parse(
            r#"{"args":["istio-iptables","-p","15001","-z","15006","-u","1337","-m","REDIRECT",
                "-i","*","-b","*","-d","15020","--run-validation","--skip-rule-apply",
                "--native-nftables","--log_output_level=default:info"],
                "env":{"ISTIO_META_DNS_CAPTURE":"true","OTHER":"x"}}"#,
        )
        .unwrap();
        assert!(request.plan(&facts()).unwrap().rules.len() > 10);
    }

    #[test]
    fn flags_for_other_purposes_are_rejected() {
        for args in [
            r#""--allow-host-network""#,
            r#""--backend","iptables""#,
            r#""--cleanup-only""#,
            r#""-n""#,
            r#""--force-iptables-binary","legacy""#,
        ] {
            let message = refusal(&format!(r#"{{"args":[{args}]}}"#));
            assert!(message.ends_with("is not allowed in a capture request"), "{message}");
        }
        let message = refusal(r#"{"env":{"ALLOW_HOST_NETWORK":"true"}}"#);
        assert_eq!(message, "ALLOW_HOST_NETWORK is not allowed in a capture request");
    }

    #[test]
    fn invalid_requests_name_what_is_wrong() {
        for text in ["x", "", "[]", r#"[["-u","1337"],{}]"#, "7"] {
            assert!(refusal(text).starts_with("it is not a capture request: "), "{text}");
        }
        assert!(refusal(r#"{"argv":[]}"#).contains("unknown field `argv`"));
        assert!(refusal(r#"{"args":["-Q"]}"#).starts_with("its arguments are invalid: "));
        let message = refusal(r#"{"args":["-d","80-"]}"#);
        assert!(message.starts_with("--istio-local-exclude-ports: `80-` "), "{message}");
        let message = refusal(r#"{"args":["-u","istio-proxy"]}"#);
        assert!(message.starts_with("--proxy-uid: `istio-proxy` "), "{message}");
        let long = format!(r#"{{"args":["{}"]}}"#, "a".repeat(MOST_BYTES));
        assert!(refusal(&long).starts_with("it has 65"));
    }

    #[test]
    fn dns_is_captured_to_known_servers_or_to_all() {
        let request = CaptureRequest::parse(r#"{"args":["--redirect-dns","-i","*"]}"#).unwrap();
        let all = request.plan(&facts()).unwrap();
        let of = |servers: &[&str]| {
            let servers = servers.iter().map(|server| server.parse().unwrap()).collect();
            let facts = NetworkFacts { name_servers: Some(servers), ..facts() };
            request.plan(&facts).unwrap()
        };
        let text = r#"{"args":["--redirect-dns","--capture-all-dns","-i","*"]}"#;
        let expected = CaptureRequest::parse(text).unwrap().plan(&facts()).unwrap().rules;
        let without = CaptureRequest::parse(r#"{"args":["-i","*"]}"#).unwrap();
        assert!(expected.len() > without.plan(&facts()).unwrap().rules.len());
        let verdicts = |rules: &[Rule]| {
            rules.iter().map(|rule| (rule.matches.clone(), rule.verdict)).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&all.rules), verdicts(&expected));
        assert_eq!(verdicts(&of(&[]).rules), verdicts(&expected));
        assert_ne!(all, of(&["10.0.0.10"]));
        assert_ne!(of(&["10.0.0.10"]), of(&["10.0.0.11"]));
    }
}
