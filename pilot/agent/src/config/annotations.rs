//! Table of the annotations that the agent reads.

macro_rules! annotations {
    ($($name:ident = $key:literal, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: &str = $key;)*

        /// The whole table: keys with their meaning, for the reference page.
        pub const ANNOTATIONS: &[(&str, &str)] = &[$(($key, $meaning)),*];
    };
}

#[rustfmt::skip]
annotations! {
    PROXY_CONFIG = "proxy.istio.io/config", "Layer of `ProxyConfig`, above the variable `PROXY_CONFIG`";
    DISCOVERY_ADDRESS = "sidecar.istio.io/discoveryAddress", "`discoveryAddress`, above all layers";
    STATUS_PORT = "status.sidecar.istio.io/port", "Status port, above all layers; 0 for none";
    SCRAPE_TARGETS = "prometheus.istio.io/scrape-targets", "Targets of merged metrics: `port:path`, separated by commas";
    STATS_PREFIXES = "sidecar.istio.io/statsInclusionPrefixes", "Prefixes of statistics to keep, separated by commas; `{pod_ip}` stands for each address of the pod";
    STATS_SUFFIXES = "sidecar.istio.io/statsInclusionSuffixes", "Suffixes of statistics to keep, in the same form";
    STATS_REGEXPS = "sidecar.istio.io/statsInclusionRegexps", "Regular expressions of statistics to keep, in the same form";
    EXTRA_STAT_TAGS = "sidecar.istio.io/extraStatTags", "Additional tags of statistics, separated by commas";
    HISTOGRAM_BUCKETS = "sidecar.istio.io/statsHistogramBuckets", "Buckets of histograms: a JSON object from a prefix to a list of increasing bounds";
    FLUSH_INTERVAL = "sidecar.istio.io/statsFlushInterval", "Flush interval of statistics, such as `5s`";
    EVICTION_INTERVAL = "sidecar.istio.io/statsEvictionInterval", "Interval at which unused statistics are evicted, a multiple of the flush interval";
    STATS_COMPRESSION = "sidecar.istio.io/statsCompression", "`false`: the metrics listener does not compress";
}
