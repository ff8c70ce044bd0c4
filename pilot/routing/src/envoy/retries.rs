//! Repetition of requests. A request that an application may have had runs once: RFC 9110, section
//! 9.2.2, allows proxies to repeat requests of safe methods only.
//!
//! The proxy of a server marks its own answers to requests that no application has had, and that of
//! the client repeats requests by the mark. It removes the mark of all answers.

use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use envoy_types::pb::envoy::config::accesslog::v3::{
    AccessLogFilter, AndFilter, HeaderFilter, OrFilter, ResponseFlagFilter,
};
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::retry_policy::{
    RetryHostPredicate, retry_host_predicate,
};
use envoy_types::pb::envoy::config::route::v3::{HeaderMatcher, RetryPolicy};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    LocalReplyConfig, ResponseMapper,
};
use envoy_types::pb::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

use super::message::{any, number};

/// Header of a server's proxy on answers to requests that may be repeated.
pub(super) const UNREACHED: &str = "x-outrigger-unreached";

/// Conditions under which no server has processed a request.
const UNSENT: &str = "connect-failure,refused-stream,reset-before-request";
/// Flags of answers to requests that were not sent: the connection failed, or there is none to make.
const NOT_SENT: [&str; 3] = ["UF", "UH", "NC"];
/// Flags of answers to requests that were sent, on a connection that ended before an answer.
const UNANSWERED: [&str; 2] = ["UC", "UR"];
/// Methods that change nothing. Applications that end in a rolling update close connections on which
/// requests are under way, and nobody knows whether they were read.
const SAFE_METHODS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];
/// Number of endpoints that a retry draws until it has one that was not tried. With 5, as in Istio,
/// one retry of 6 falls on the dead one of two endpoints, which has the fewest requests.
const HOST_SELECTIONS: i64 = 30;

/// Retries of a client's proxy. Hosts outside of the mesh have no proxy that could mark an answer, so
/// their marks mean nothing.
pub(super) fn client_retries(is_outside: bool) -> RetryPolicy {
    let marked = header(UNREACHED, HeaderMatchSpecifier::PresentMatch(true));
    let previous = RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(retry_host_predicate::ConfigType::TypedConfig(any(
            &PreviousHostsPredicate {},
        ))),
    };
    RetryPolicy {
        retry_on: if is_outside {
            UNSENT.to_owned()
        } else {
            format!("{UNSENT},retriable-headers")
        },
        num_retries: number(2),
        retry_host_predicate: vec![previous],
        host_selection_retry_max_attempts: HOST_SELECTIONS,
        retriable_headers: (!is_outside).then_some(marked).into_iter().collect(),
        ..RetryPolicy::default()
    }
}

/// Retries of a server's proxy: the application may close a connection before a request is sent, or
/// refuse a stream, which it then has not processed (RFC 9113, section 8.7).
pub(super) fn server_retries() -> RetryPolicy {
    RetryPolicy {
        retry_on: "reset-before-request,refused-stream".to_owned(),
        num_retries: number(2),
        ..RetryPolicy::default()
    }
}

/// Marks on the answers of a server's proxy.
pub(super) fn server_marks() -> LocalReplyConfig {
    let is_safe =
        filter(FilterSpecifier::OrFilter(OrFilter { filters: SAFE_METHODS.map(method).into() }));
    let unanswered = filter(FilterSpecifier::AndFilter(AndFilter {
        filters: vec![flags(&UNANSWERED), is_safe],
    }));
    LocalReplyConfig {
        mappers: [flags(&NOT_SENT), unanswered].map(marked).into(),
        ..LocalReplyConfig::default()
    }
}

fn marked(filter: AccessLogFilter) -> ResponseMapper {
    let value = HeaderValue {
        key: UNREACHED.to_owned(),
        value: "true".to_owned(),
        ..HeaderValue::default()
    };
    let mark = HeaderValueOption {
        header: Some(value),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..HeaderValueOption::default()
    };
    ResponseMapper { filter: Some(filter), headers_to_add: vec![mark], ..ResponseMapper::default() }
}

fn flags(flags: &[&str]) -> AccessLogFilter {
    let flags = flags.iter().map(ToString::to_string).collect();
    filter(FilterSpecifier::ResponseFlagFilter(ResponseFlagFilter { flags }))
}

fn method(name: &str) -> AccessLogFilter {
    let exact = MatchPattern::Exact(name.to_owned());
    let exact = StringMatcher { match_pattern: Some(exact), ..StringMatcher::default() };
    let header = header(":method", HeaderMatchSpecifier::StringMatch(exact));
    filter(FilterSpecifier::HeaderFilter(HeaderFilter { header: Some(header) }))
}

fn filter(specifier: FilterSpecifier) -> AccessLogFilter {
    AccessLogFilter { filter_specifier: Some(specifier) }
}

fn header(name: &str, specifier: HeaderMatchSpecifier) -> HeaderMatcher {
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(specifier),
        ..HeaderMatcher::default()
    }
}
