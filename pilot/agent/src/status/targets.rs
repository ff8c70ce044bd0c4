//! Pages of the application's metrics, from `ISTIO_PROMETHEUS_ANNOTATIONS` and the annotation
//! `prometheus.istio.io/scrape-targets`.

use documents::notice;
use documents::unknown_keys::{Shape, unknown_keys};
use hyper::http::uri::PathAndQuery;
use mesh::proxy_ports;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::app::{Scheme, escape};
use crate::config::StatusOptions;
use crate::json_object::object;

/// One page of the application's metrics.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ScrapeTarget {
    /// Scheme of the page.
    pub scheme: Scheme,
    /// Port of the application.
    pub port: u16,
    /// Path of the page.
    pub path: PathAndQuery,
}

impl ScrapeTarget {
    /// Returns the pages to scrape: the targets of the annotation, which may change, else those of the
    /// variable, which the injector wrote, else its port and path.
    pub fn parse_all(options: &StatusOptions) -> Result<Vec<Self>, TargetError> {
        let raw = match &options.prometheus_annotations {
            Some(text) => object(text)
                .and_then(|object| RawScrape::deserialize(Value::Object(object)))
                .map_err(TargetError::Json)?,
            None => RawScrape::default(),
        };
        // Istio's rule: a word that is not a Boolean does not disable scraping.
        if matches!(raw.scrape.to_ascii_lowercase().as_str(), "false" | "f" | "0") {
            return Ok(Vec::new());
        }
        let scheme = scheme(&raw.scheme)
            .ok_or_else(|| TargetError::new(SCHEME, TargetProblem::Scheme(raw.scheme.clone())))?;
        let parse = |source, port: &str, path: &str| {
            Self::parse(scheme, port.trim(), path.trim(), options.port)
                .map_err(|problem| TargetError::new(source, problem))
        };
        if let Some(targets) = options.scrape_targets.as_deref().filter(|text| !is_blank(text)) {
            let targets = targets.split(',').map(str::trim).filter(|target| !target.is_empty());
            let targets: Vec<_> = targets.collect();
            check_number(targets.len())?;
            return targets
                .into_iter()
                .map(|target| {
                    let (port, path) = target.split_once(':').unwrap_or((target, ""));
                    parse(TARGETS, port, path)
                })
                .collect();
        }
        if !raw.targets.is_empty() {
            check_number(raw.targets.len())?;
            let targets = raw.targets.iter();
            return targets.map(|target| parse(TARGETS, &target.port, &target.path)).collect();
        }
        if options.prometheus_annotations.is_none() {
            return Ok(Vec::new());
        }
        let port = if is_blank(&raw.port) { DEFAULT_PORT } else { &raw.port };
        parse(PORT, port, &raw.path).map(|target| vec![target])
    }

    /// Returns a warning for each unknown field of the variable.
    pub fn unknown_fields(options: &StatusOptions) -> Vec<String> {
        let text = options.prometheus_annotations.as_deref();
        let Some(Ok(fields)) = text.map(object) else { return Vec::new() };
        let unknown = unknown_keys(&Value::Object(fields), FIELDS).into_iter().map(notice::unknown);
        unknown
            .map(|(field, problem)| format!("ISTIO_PROMETHEUS_ANNOTATIONS: {field}: {problem}"))
            .collect()
    }

    fn parse(
        scheme: Scheme,
        port: &str,
        path: &str,
        status_port: u16,
    ) -> Result<Self, TargetProblem> {
        let number = port.parse::<u16>().ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| TargetProblem::Port(port.to_owned()))?;
        let owner = proxy_ports::owner(number);
        if let Some(owner) = owner.or((number == status_port).then_some(STATUS_PORT)) {
            return Err(TargetProblem::Reserved { port: number, owner });
        }
        let path = match path {
            "" => DEFAULT_PATH.to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("/{path}"),
        };
        let valid = PathAndQuery::try_from(escape(path.as_bytes()));
        Ok(Self { scheme, port: number, path: valid.map_err(|_| TargetProblem::Path(path))? })
    }
}

/// Invalid configuration of the application's metrics.
#[derive(Debug, Error)]
pub enum TargetError {
    /// Value of another form.
    #[error("ISTIO_PROMETHEUS_ANNOTATIONS: not a JSON object with scrape, path, port and targets")]
    Json(#[source] serde_json::Error),
    /// Too many targets, each of which has a connection during a scrape.
    #[error(
        "annotation {TARGETS}: {0} targets, and {MOST_TARGETS} are the limit; hint: merge pages"
    )]
    TooMany(usize),
    /// Invalid target.
    #[error("annotation {source_name}: {problem}")]
    Target {
        /// Annotation that names the target.
        source_name: &'static str,
        /// Reason of the rejection.
        problem: TargetProblem,
    },
}

impl TargetError {
    /// Names the annotation of the invalid part.
    fn new(source_name: &'static str, problem: TargetProblem) -> Self {
        let is_path = source_name == PORT && matches!(problem, TargetProblem::Path(_));
        Self::Target { source_name: if is_path { PATH } else { source_name }, problem }
    }
}

/// Invalid page of the application's metrics.
#[derive(Debug, Error)]
pub enum TargetProblem {
    /// Invalid port.
    #[error("{0:?} is not a port (1–65535)")]
    Port(String),
    /// Port of the proxy: scraping it would recurse, or not be about the application.
    #[error("{port} is a port of the proxy ({owner}); use a port of the application")]
    Reserved {
        /// The port.
        port: u16,
        /// Its owner.
        owner: &'static str,
    },
    /// Unknown scheme.
    #[error("{0:?} is not http or https")]
    Scheme(String),
    /// Invalid path.
    #[error("{0:?} is not a path of a URL")]
    Path(String),
}

/// Value of the variable, with the field names of Istio.
#[derive(Debug, Default, Deserialize)]
#[serde(expecting = "an object with scrape, path, port and targets")]
struct RawScrape {
    #[serde(default)]
    scrape: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    port: String,
    /// Not a field of Istio's.
    #[serde(default)]
    scheme: String,
    #[serde(default)]
    targets: Vec<RawTarget>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with port and path")]
struct RawTarget {
    #[serde(default)]
    port: String,
    #[serde(default)]
    path: String,
}

fn check_number(targets: usize) -> Result<(), TargetError> {
    if targets > MOST_TARGETS { Err(TargetError::TooMany(targets)) } else { Ok(()) }
}

/// Parses a scheme; as for Prometheus, none is HTTP.
fn scheme(text: &str) -> Option<Scheme> {
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "http" => Some(Scheme::Http),
        "https" => Some(Scheme::Https),
        _ => None,
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Three megabytes of buffers.
const MOST_TARGETS: usize = 64;
const TARGETS: &str = "prometheus.istio.io/scrape-targets";
const PORT: &str = "prometheus.io/port";
const PATH: &str = "prometheus.io/path";
const SCHEME: &str = "prometheus.io/scheme";
const FIELDS: Shape = Shape::Keys(
    "scrape path port scheme",
    &[("targets", Shape::List(&Shape::Keys("port path", &[])))],
);
const STATUS_PORT: &str = "the agent's status port";
const DEFAULT_PORT: &str = "80";
const DEFAULT_PATH: &str = "/metrics";

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variable: Option<&str>, annotation: Option<&str>) -> StatusOptions {
        StatusOptions {
            port: 15099,
            app_probers: None,
            prometheus_annotations: variable.map(str::to_owned),
            scrape_targets: annotation.map(str::to_owned),
            probe_localhost: false,
            metrics_on_loopback_only: false,
        }
    }

    fn parse(variable: Option<&str>, annotation: Option<&str>) -> Result<Vec<String>, String> {
        let targets = ScrapeTarget::parse_all(&options(variable, annotation))
            .map_err(|error| error.to_string())?;
        let text = |target: &ScrapeTarget| {
            let secure = if target.scheme == Scheme::Https { "https " } else { "" };
            format!("{secure}{}{}", target.port, target.path)
        };
        Ok(targets.iter().map(text).collect())
    }

    #[test]
    fn targets_come_from_variable_and_annotation() {
        let targets =
            r#"{"targets":[{"port":"81","path":"/a"},{"port":"82","path":""}],"port":"1"}"#;
        for (variable, annotation, expected) in [
            (None, None, &[][..]),
            (Some("{}"), None, &["80/metrics"]),
            (Some("null"), None, &["80/metrics"]),
            (Some(r#"{"path":null,"port":null,"targets":null}"#), None, &["80/metrics"]),
            (Some(r#"{"scrape":"true","path":"/m?x=y","port":"8080"}"#), None, &["8080/m?x=y"]),
            (Some(r#"{"scrape":"true","path":"m","port":""}"#), Some(" "), &["80/m"]),
            (Some(r#"{"path":"/a b?m[]={j=\"x\"}"}"#), None, &["80/a%20b?m[]=%7Bj=%22x%22%7D"]),
            (Some(r#"{"port":"8443","scheme":"HTTPS"}"#), None, &["https 8443/metrics"]),
            (Some(r#"{"port":"8080","scheme":"http"}"#), None, &["8080/metrics"]),
            (Some(r#"{"scheme":"https","targets":[{"port":"81"}]}"#), None, &["https 81/metrics"]),
            (Some(r#"{"scrape":"false","port":"8080"}"#), Some("81"), &[]),
            (Some(targets), None, &["81/a", "82/metrics"]),
            (Some(targets), Some("90:/b"), &["90/b"]),
            (Some(r#"{"port":"8080"}"#), Some("90:/b, 91 : b,"), &["90/b", "91/b"]),
            (None, Some("90"), &["90/metrics"]),
        ] {
            let found = parse(variable, annotation).unwrap();
            assert_eq!(found, expected, "{variable:?} {annotation:?}");
        }
    }

    #[test]
    fn unknown_fields_of_the_variable_are_told() {
        let text = r#"{"prot":"1","targets":[{"port":"81","pth":"/a"}],"path":"/a"}"#;
        assert_eq!(
            ScrapeTarget::unknown_fields(&options(Some(text), None)),
            [
                "ISTIO_PROMETHEUS_ANNOTATIONS: prot: unknown key; did you mean port?",
                "ISTIO_PROMETHEUS_ANNOTATIONS: targets[0].pth: unknown key; did you mean path?",
            ]
        );
    }

    #[test]
    fn number_of_targets_is_limited() {
        let list = |number| vec!["81"; number].join(",");
        assert_eq!(parse(None, Some(&list(64))).unwrap().len(), 64);
        let error = parse(None, Some(&list(65))).unwrap_err();
        assert!(error.contains("scrape-targets: 65 targets, and 64 are the limit"), "{error}");
    }

    #[test]
    fn reserved_port_is_rejected_by_annotation() {
        for port in [15000, 15001, 15004, 15006, 15008, 15020, 15021, 15053, 15090, 15099] {
            let error = parse(Some(&format!(r#"{{"port":"{port}"}}"#)), None).unwrap_err();
            let expected =
                format!("annotation prometheus.io/port: {port} is a port of the proxy (");
            assert!(error.starts_with(&expected), "{error}");
            let error = parse(None, Some(&format!("80,{port}:/x"))).unwrap_err();
            let expected =
                format!("annotation prometheus.istio.io/scrape-targets: {port} is a port");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn invalid_value_is_named() {
        for (variable, annotation, expected) in [
            (Some("x"), None, "ISTIO_PROMETHEUS_ANNOTATIONS: not a JSON object"),
            (Some("[]"), None, "ISTIO_PROMETHEUS_ANNOTATIONS: not a JSON object"),
            (Some(r#"{"port":"0"}"#), None, "annotation prometheus.io/port: \"0\" is not a port"),
            (Some(r#"{"scheme":"h2c"}"#), None, "annotation prometheus.io/scheme: \"h2c\" is not"),
            (None, Some("x:/a"), "annotation prometheus.istio.io/scrape-targets: \"x\" is not"),
        ] {
            let error = parse(variable, annotation).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let long = format!(r#"{{"path":"/{}"}}"#, "a".repeat(1 << 16));
        let error = parse(Some(&long), None).unwrap_err();
        assert!(error.starts_with("annotation prometheus.io/path: \"/aa"), "{error}");
    }
}
