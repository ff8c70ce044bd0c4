//! Keys of the annotations that the agent reads.

pub(crate) const PROXY_CONFIG: &str = "proxy.istio.io/config";
pub(crate) const DISCOVERY_ADDRESS: &str = "sidecar.istio.io/discoveryAddress";
pub(crate) const STATUS_PORT: &str = "status.sidecar.istio.io/port";
pub(crate) const SCRAPE_TARGETS: &str = "prometheus.istio.io/scrape-targets";
pub(crate) const STATS_PREFIXES: &str = "sidecar.istio.io/statsInclusionPrefixes";
pub(crate) const STATS_SUFFIXES: &str = "sidecar.istio.io/statsInclusionSuffixes";
pub(crate) const STATS_REGEXPS: &str = "sidecar.istio.io/statsInclusionRegexps";
pub(crate) const EXTRA_STAT_TAGS: &str = "sidecar.istio.io/extraStatTags";
pub(crate) const HISTOGRAM_BUCKETS: &str = "sidecar.istio.io/statsHistogramBuckets";
pub(crate) const FLUSH_INTERVAL: &str = "sidecar.istio.io/statsFlushInterval";
pub(crate) const EVICTION_INTERVAL: &str = "sidecar.istio.io/statsEvictionInterval";
pub(crate) const STATS_COMPRESSION: &str = "sidecar.istio.io/statsCompression";

/// Annotations with their meaning, for the reference page.
pub(crate) const ANNOTATIONS: &[(&str, &str)] = &[
    (PROXY_CONFIG, "Layer of `ProxyConfig`, above `PROXY_CONFIG`"),
    (DISCOVERY_ADDRESS, "`discoveryAddress`, above all layers"),
    (STATUS_PORT, "Status port, above all layers; 0 for none"),
    (SCRAPE_TARGETS, "Targets of merged metrics: `port:path`, separated by commas"),
    (
        STATS_PREFIXES,
        "Prefixes of statistics to keep, separated by commas; `{pod_ip}` stands for each address of the pod",
    ),
    (STATS_SUFFIXES, "Suffixes of statistics to keep, as above"),
    (STATS_REGEXPS, "Regular expressions of statistics to keep, as above"),
    (EXTRA_STAT_TAGS, "Additional tags of statistics, separated by commas"),
    (
        HISTOGRAM_BUCKETS,
        "Buckets of histograms: a JSON object of a prefix and a list of increasing bounds",
    ),
    (FLUSH_INTERVAL, "Flush interval of statistics, such as `5s`"),
    (
        EVICTION_INTERVAL,
        "Interval at which unused statistics are evicted: a multiple of the flush interval",
    ),
    (STATS_COMPRESSION, "`false`: the metrics listener does not compress"),
];
