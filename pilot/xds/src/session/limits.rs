//! Limits of a stream, and the reasons to close it.

use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};

use crate::frame::FrameError;

/// Limits of a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Names that a client may subscribe to, per type.
    pub names: usize,
    /// Bytes of a name.
    pub name_bytes: usize,
    /// Bytes of the node's metadata.
    pub metadata_bytes: usize,
    /// Resource types.
    pub types: usize,
    /// Bytes of resources after which a response ends, where the rest may follow in others: a
    /// client that starts gets thousands of clusters.
    pub response_bytes: usize,
    /// Requests per second that acknowledge nothing.
    pub requests_per_second: u32,
    /// Requests that acknowledge nothing, at once.
    pub request_burst: u32,
    /// Time until the first request.
    pub first_request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            names: 50_000,
            name_bytes: 1 << 10,
            metadata_bytes: 1 << 20,
            types: 16,
            response_bytes: 1 << 20,
            requests_per_second: 100,
            request_burst: 1_000,
            first_request: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Checks the number of names of a type.
    pub(super) fn check_names(&self, type_url: &str, count: usize) -> Result<(), Close> {
        let limit = self.names;
        if count > limit {
            return Err(Close::Names { type_url: type_url.to_owned(), limit });
        }
        Ok(())
    }
}

/// Reason of the server to close a stream.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum Close {
    /// Too many names.
    #[error("the client names more than {limit} resources of {type_url}; subscribe to fewer")]
    Names {
        /// Type of the resources.
        type_url: String,
        /// The limit.
        limit: usize,
    },
    /// A name is too long.
    #[error("a resource name of {type_url} has {length} bytes; the limit is {limit}")]
    NameLength {
        /// Type of the resource.
        type_url: String,
        /// Length of the name.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The node's metadata is too large.
    #[error("the node's metadata has {length} bytes; the limit is {limit}")]
    Metadata {
        /// Size of the metadata.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// Too many resource types.
    #[error("the client subscribes to more than {limit} resource types")]
    Types {
        /// The limit.
        limit: usize,
    },
    /// Too many requests.
    #[error("the client sends more than {limit} requests a second besides acknowledgements")]
    Rate {
        /// The limit.
        limit: u32,
    },
    /// No request came.
    #[error("no request came within {} s of opening the stream", .limit.as_secs())]
    FirstRequest {
        /// The limit.
        limit: Duration,
    },
    /// The first request has no node.
    #[error("the first request of the stream has no node")]
    NoNode,
    /// A request cannot be decoded.
    #[error("a request cannot be decoded: {0}")]
    Undecodable(#[from] FrameError),
    /// The client does not read.
    #[error("the client did not read a response within {} s", .limit.as_secs())]
    NotReading {
        /// The limit.
        limit: Duration,
    },
}

impl Close {
    /// Returns the gRPC status that ends the stream.
    pub fn status(&self) -> Status {
        let code = match self {
            Self::NameLength { .. } | Self::NoNode | Self::Undecodable(_) => Code::InvalidArgument,
            Self::Names { .. } | Self::Metadata { .. } | Self::Types { .. } | Self::Rate { .. } => {
                Code::ResourceExhausted
            }
            Self::FirstRequest { .. } | Self::NotReading { .. } => Code::DeadlineExceeded,
        };
        Status::new(code, self.to_string())
    }
}

/// Token bucket of the requests that acknowledge nothing.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// Tokens in use, as the time until all are back.
    used: Duration,
    at: Duration,
}

impl Bucket {
    pub(super) const fn new() -> Self {
        Self { used: Duration::ZERO, at: Duration::ZERO }
    }

    pub(super) fn take(&mut self, now: Duration, limits: &Limits) -> Result<(), Close> {
        let limit = limits.requests_per_second.max(1);
        let token = Duration::from_secs(1) / limit;
        self.used = self.used.saturating_sub(now.saturating_sub(self.at));
        self.at = now;
        if self.used >= token * limits.request_burst {
            return Err(Close::Rate { limit });
        }
        self.used += token;
        Ok(())
    }
}
