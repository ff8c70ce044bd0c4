//! Metrics of certificates and SDS.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of certificates and SDS, with the names of Istio's agent where it has them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    failed_requests: Family<FailureLabels, Counter>,
    expiry: Family<ResourceLabels, Gauge<i64, AtomicI64>>,
    file_failures: Counter,
    answers: Family<AnswerLabels, Counter>,
    streams: Gauge,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct RequestLabels {
    request_type: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct FailureLabels {
    request_type: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct ResourceLabels {
    resource_name: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct AnswerLabels {
    resource_name: &'static str,
    answer: &'static str,
}

impl Metrics {
    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let Self { requests, failed_requests, expiry, file_failures, answers, streams } = self;
        registry.register(
            "istio_agent_num_outgoing_requests",
            "Requests for a workload certificate",
            requests.clone(),
        );
        registry.register(
            "istio_agent_num_failed_outgoing_requests",
            "Failed requests for a workload certificate, by reason",
            failed_requests.clone(),
        );
        registry.register(
            "istio_agent_cert_expiry_seconds",
            "Seconds until the certificate expires; negative afterwards",
            expiry.clone(),
        );
        registry.register(
            "istio_agent_num_file_secret_failures",
            "Times that files with certificates, keys or roots became unusable",
            file_failures.clone(),
        );
        registry.register(
            "istio_agent_sds_answers",
            "Answers of Envoy to secrets, by ACK and NACK",
            answers.clone(),
        );
        registry.register("istio_agent_sds_streams", "Open SDS streams", streams.clone());
    }

    pub(super) fn requested(&self) {
        self.requests.get_or_create(&RequestLabels { request_type: CSR }).inc();
    }

    pub(super) fn request_failed(&self, reason: &'static str) {
        self.failed_requests.get_or_create(&FailureLabels { request_type: CSR, reason }).inc();
    }

    pub(super) fn set_expiry(&self, seconds: i64) {
        self.expiry.get_or_create(&ResourceLabels { resource_name: "default" }).set(seconds);
    }

    pub(super) fn file_failed(&self) {
        self.file_failures.inc();
    }

    /// Counts an answer. Names of files come from the control plane and are no label.
    pub(super) fn answered(&self, name: &str, is_rejected: bool) {
        let resource_name = match name {
            "default" => "default",
            "ROOTCA" => "ROOTCA",
            _ => "file",
        };
        let answer = if is_rejected { "nack" } else { "ack" };
        self.answers.get_or_create(&AnswerLabels { resource_name, answer }).inc();
    }

    pub(super) fn stream_opened(&self) {
        self.streams.inc();
    }

    pub(super) fn stream_closed(&self) {
        self.streams.dec();
    }
}

const CSR: &str = "csr";
