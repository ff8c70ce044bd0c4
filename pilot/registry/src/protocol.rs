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
    /// gRPC that browsers call as gRPC-Web: the proxy translates it.
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

/// Transport of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Protocol of a port of Kubernetes: by its `appProtocol` or else its name, then by its number.
    pub fn of_port(
        transport: Transport,
        app_protocol: Option<&str>,
        name: &str,
        number: u16,
    ) -> Self {
        if transport == Transport::Udp {
            return Self::Udp;
        }
        match app_protocol {
            Some("kubernetes.io/h2c") => return Self::Http2,
            Some("kubernetes.io/ws") => return Self::Http,
            Some("kubernetes.io/wss") => return Self::Https,
            _ => {}
        }
        let text = app_protocol.unwrap_or(name).to_ascii_lowercase();
        let word = match text.split_once('-') {
            _ if text.starts_with("grpc-web") => "grpc-web",
            Some((word, _)) => word,
            None => &text,
        };
        match BY_WORD.iter().find(|(known, _)| *known == word) {
            Some((_, protocol)) => *protocol,
            None if SERVER_FIRST_PORTS.contains(&number) => Self::Tcp,
            None => Self::Undeclared,
        }
    }

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
        matches!(self, Self::Http2 | Self::Grpc | Self::GrpcWeb)
    }
}

/// Protocols by the first word of a port's name or by its `appProtocol`: Istio's, and names of IANA
/// that no client of HTTP uses. On a port that is not declared, a proxy waits for the first bytes of
/// the client, and so for ever where the server speaks first.
const BY_WORD: &[(&str, Protocol)] = &[
    ("grpc", Protocol::Grpc),
    ("grpc-web", Protocol::GrpcWeb),
    ("http", Protocol::Http),
    ("http2", Protocol::Http2),
    ("https", Protocol::Https),
    ("mongo", Protocol::Mongo),
    ("mysql", Protocol::Mysql),
    ("redis", Protocol::Redis),
    ("tcp", Protocol::Tcp),
    ("tls", Protocol::Tls),
    ("udp", Protocol::Udp),
    // The server speaks first.
    ("ftp", Protocol::Tcp),
    ("imap", Protocol::Tcp),
    ("lmtp", Protocol::Tcp),
    ("mariadb", Protocol::Tcp),
    ("mysqlx", Protocol::Tcp),
    ("nntp", Protocol::Tcp),
    ("pop3", Protocol::Tcp),
    ("rfb", Protocol::Tcp),
    ("sftp", Protocol::Tcp),
    ("smtp", Protocol::Tcp),
    ("ssh", Protocol::Tcp),
    ("submission", Protocol::Tcp),
    ("telnet", Protocol::Tcp),
    ("vnc", Protocol::Tcp),
    // The client does.
    ("amqp", Protocol::Tcp),
    ("cassandra", Protocol::Tcp),
    ("kafka", Protocol::Tcp),
    ("ldap", Protocol::Tcp),
    ("memcached", Protocol::Tcp),
    ("nats", Protocol::Tcp),
    ("postgres", Protocol::Tcp),
    ("postgresql", Protocol::Tcp),
    ("zookeeper", Protocol::Tcp),
    ("amqps", Protocol::Tls),
    ("ftps", Protocol::Tls),
    ("imaps", Protocol::Tls),
    ("ldaps", Protocol::Tls),
    ("nntps", Protocol::Tls),
    ("pop3s", Protocol::Tls),
    ("smtps", Protocol::Tls),
];

/// Ports of SMTP, DNS, `MySQL` and `MongoDB`. A proxy that waits for the first bytes of the client
/// would block servers that speak first.
const SERVER_FIRST_PORTS: [u16; 4] = [25, 53, 3306, 27017];
