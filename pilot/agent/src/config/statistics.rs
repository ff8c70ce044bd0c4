//! Settings of Envoy's statistics, from annotations and `ProxyConfig`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use mesh::proxy_config::ProxyConfig;
use mesh::statistics::{self as rules, is_tag, list};

use super::annotations::{
    EVICTION_INTERVAL, EXTRA_STAT_TAGS, FLUSH_INTERVAL, HISTOGRAM_BUCKETS, STATS_COMPRESSION,
    STATS_PREFIXES, STATS_REGEXPS, STATS_SUFFIXES,
};
use super::bootstrap_options::StatisticsOptions;
use super::error::ConfigError;
use super::services;
use crate::environment::parse_bool;

type Annotations = BTreeMap<String, String>;

/// Returns the settings. Inclusion annotations replace `proxyStatsMatcher` of `ProxyConfig`.
pub(super) fn statistics(
    config: &ProxyConfig,
    annotations: &Annotations,
    addresses: &[IpAddr],
) -> Result<StatisticsOptions, ConfigError> {
    let annotated = [STATS_PREFIXES, STATS_SUFFIXES, STATS_REGEXPS]
        .iter()
        .any(|key| annotations.contains_key(*key));
    let included = |key: &str, field: &str| -> Result<Vec<String>, ConfigError> {
        let field = format!("proxyStatsMatcher.{field}");
        let items = if annotated {
            list(annotations.get(key).map_or("", String::as_str))
        } else {
            config.texts_at(&field)
        };
        if items.contains(&"") {
            return Err(ConfigError::field(field, "an entry is empty; hint: remove it"));
        }
        Ok(items.into_iter().flat_map(|item| with_addresses(item, addresses)).collect())
    };
    let flush_interval = interval(annotations, FLUSH_INTERVAL)?.unwrap_or(Duration::from_secs(5));
    Ok(StatisticsOptions {
        prefixes: included(STATS_PREFIXES, "inclusionPrefixes")?,
        suffixes: included(STATS_SUFFIXES, "inclusionSuffixes")?,
        regexps: included(STATS_REGEXPS, "inclusionRegexps")?,
        extra_tags: extra_tags(config, annotations)?,
        buckets: buckets(annotations)?,
        flush_interval,
        eviction_interval: eviction_interval(annotations, flush_interval)?,
        compression: compression(config, annotations)?,
        statsd: match config.text_at("statsdUdpAddress") {
            "" => None,
            text => {
                let address = services::address("statsdUdpAddress", text)?;
                if address.host.parse::<IpAddr>().is_err() {
                    let problem = format!("{text:?} has no IP address, which Envoy needs for UDP");
                    return Err(ConfigError::field("statsdUdpAddress", problem));
                }
                Some(address)
            }
        },
    })
}

/// Replaces `{pod_ip}`: one item for each address.
fn with_addresses(item: &str, addresses: &[IpAddr]) -> Vec<String> {
    if !item.contains(POD_IP) {
        return vec![item.to_owned()];
    }
    addresses.iter().map(|address| item.replace(POD_IP, &address.to_string())).collect()
}

fn extra_tags(config: &ProxyConfig, annotations: &Annotations) -> Result<Vec<String>, ConfigError> {
    let annotated = annotations.get(EXTRA_STAT_TAGS);
    let mut tags = Vec::<String>::new();
    for tag in annotated.map(|text| list(text)).unwrap_or_default() {
        if !is_tag(tag) {
            let expected = format!("expected {}", rules::TAG);
            return Err(ConfigError::annotation(EXTRA_STAT_TAGS, tag, expected));
        }
        tags.push(tag.to_owned());
    }
    for tag in config.texts_at("extraStatTags") {
        if !is_tag(tag) {
            return Err(ConfigError::field(
                "extraStatTags",
                format!("{tag:?} is not valid: expected {}", rules::TAG),
            ));
        }
        tags.push(tag.to_owned());
    }
    tags.sort_unstable();
    tags.dedup();
    Ok(tags)
}

fn buckets(annotations: &Annotations) -> Result<BTreeMap<String, Vec<f64>>, ConfigError> {
    let Some(text) = annotations.get(HISTOGRAM_BUCKETS) else { return Ok(BTreeMap::new()) };
    rules::histogram_buckets(text).ok_or_else(|| {
        let expected = format!("expected {}", rules::HISTOGRAM_BUCKETS);
        ConfigError::annotation(HISTOGRAM_BUCKETS, text, expected)
    })
}

fn interval(annotations: &Annotations, key: &'static str) -> Result<Option<Duration>, ConfigError> {
    let Some(text) = annotations.get(key).filter(|text| !text.is_empty()) else { return Ok(None) };
    let expected = || ConfigError::annotation(key, text, format!("expected {}", rules::INTERVAL));
    rules::interval(text).map(Some).ok_or_else(expected)
}

fn eviction_interval(
    annotations: &Annotations,
    flush: Duration,
) -> Result<Option<Duration>, ConfigError> {
    let Some(interval) = interval(annotations, EVICTION_INTERVAL)? else { return Ok(None) };
    if interval.as_nanos().is_multiple_of(flush.as_nanos()) {
        return Ok(Some(interval));
    }
    let text = annotations.get(EVICTION_INTERVAL).map_or("", String::as_str);
    let problem = format!("expected a multiple of the flush interval {flush:?}");
    Err(ConfigError::annotation(EVICTION_INTERVAL, text, problem))
}

fn compression(config: &ProxyConfig, annotations: &Annotations) -> Result<bool, ConfigError> {
    match annotations.get(STATS_COMPRESSION) {
        None => Ok(config.switch_at("statsCompression").unwrap_or(true)),
        Some(text) => parse_bool(text).ok_or_else(|| {
            ConfigError::annotation(STATS_COMPRESSION, text, "expected true or false")
        }),
    }
}

const POD_IP: &str = "{pod_ip}";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolve(
        entries: &[(&str, &str)],
        layer: &serde_json::Value,
    ) -> Result<StatisticsOptions, String> {
        let annotations =
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut config = ProxyConfig::default();
        config.overlay(layer).unwrap();
        let addresses = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        statistics(&config, &annotations, &addresses).map_err(|error| error.to_string())
    }

    #[test]
    fn annotations_replace_the_stats_matcher() {
        let layer =
            json!({"proxyStatsMatcher": {"inclusionPrefixes": ["a"], "inclusionSuffixes": ["b"]}});
        let below = resolve(&[], &layer).unwrap();
        assert_eq!((below.prefixes, below.suffixes), (vec!["a".to_owned()], vec!["b".to_owned()]));
        let above = resolve(&[(STATS_PREFIXES, "x, {pod_ip}_y,,")], &layer).unwrap();
        assert_eq!(above.prefixes, ["x", "10.0.0.1_y", "fd00::1_y"]);
        assert!(above.suffixes.is_empty());
    }

    #[test]
    fn empty_entry_of_the_stats_matcher_is_named() {
        for field in ["inclusionPrefixes", "inclusionSuffixes", "inclusionRegexps"] {
            let error = resolve(&[], &json!({"proxyStatsMatcher": {field: ["a", ""]}}));
            let start = format!("ProxyConfig field proxyStatsMatcher.{field}: ");
            assert!(error.as_ref().is_err_and(|error| error.starts_with(&start)), "{error:?}");
        }
    }

    #[test]
    fn tags_of_annotation_and_config_are_united() {
        let layer = json!({"extraStatTags": ["b", "a"]});
        let options = resolve(&[(EXTRA_STAT_TAGS, "c,b")], &layer).unwrap();
        assert_eq!(options.extra_tags, ["a", "b", "c"]);
    }

    #[test]
    fn invalid_annotation_is_named() {
        for (key, value) in [
            (EXTRA_STAT_TAGS, "a(b"),
            (HISTOGRAM_BUCKETS, "[]"),
            (HISTOGRAM_BUCKETS, r#"{"a": [3, 2]}"#),
            (HISTOGRAM_BUCKETS, r#"{"a": []}"#),
            (HISTOGRAM_BUCKETS, r#"{"": [1]}"#),
            (FLUSH_INTERVAL, "0s"),
            (FLUSH_INTERVAL, "soon"),
            (EVICTION_INTERVAL, "7s"),
            (STATS_COMPRESSION, "gzip"),
        ] {
            let error = resolve(&[(key, value)], &json!({})).unwrap_err();
            let start = format!("annotation {key} has the invalid value ");
            assert!(error.starts_with(&start) && error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn intervals_and_buckets_are_parsed() {
        let options = resolve(
            &[
                (FLUSH_INTERVAL, "10s"),
                (EVICTION_INTERVAL, "1m"),
                (HISTOGRAM_BUCKETS, r#"{"cluster": [0.5, 1, 10]}"#),
            ],
            &json!({"statsCompression": false, "statsdUdpAddress": "[::1]:8125"}),
        );
        let options = options.unwrap();
        assert_eq!(options.eviction_interval, Some(Duration::from_secs(60)));
        assert_eq!(options.buckets["cluster"], [0.5, 1.0, 10.0]);
        assert!(!options.compression);
        assert_eq!(options.statsd.map(|address| address.host), Some("::1".to_owned()));
    }
}
