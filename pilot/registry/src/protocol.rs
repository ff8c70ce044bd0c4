//! Protocols of ports.

/// Application protocol of a service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/2 without TLS.
    Http2,
    /// gRPC over HTTP/2.
    Grpc,
    /// gRPC-Web over HTTP/1.1 or HTTP/2.
    GrpcWeb,
    /// TLS that the application terminates, with HTTP inside.
    Https,
    /// TLS that the application terminates.
    Tls,
    /// Any protocol over TCP, also one in which the server speaks first.
    Tcp,
    /// Mongo's protocol; handled as TCP.
    Mongo,
    /// Redis' protocol; handled as TCP.
    Redis,
    /// Protocol of `MySQL`, in which the server speaks first; handled as TCP.
    Mysql,
    /// Datagrams, which the proxy does not capture.
    Udp,
    /// Not declared: the proxy detects HTTP by its first bytes.
    Undeclared,
}

/// Class of a protocol, by which listeners are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolClass {
    /// Requests are routed.
    Http,
    /// Connections are forwarded.
    Tcp,
    /// HTTP if the first bytes are HTTP, else TCP.
    Detected,
    /// Not handled by the proxy.
    Udp,
}

impl Protocol {
    /// Class of the protocol.
    pub fn class(self) -> ProtocolClass {
        match self {
            Self::Http | Self::Http2 | Self::Grpc | Self::GrpcWeb => ProtocolClass::Http,
            Self::Https | Self::Tls | Self::Tcp | Self::Mongo | Self::Redis | Self::Mysql => {
                ProtocolClass::Tcp
            }
            Self::Undeclared => ProtocolClass::Detected,
            Self::Udp => ProtocolClass::Udp,
        }
    }

    /// True if the server expects HTTP/2.
    pub fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Grpc)
    }
}
