//! Messages of SDS and of the certificate service.

use std::fmt;

use bytes::Bytes;
use pilot_xds::messages::Any;
use pilot_xds::type_urls;
use prost::Message;
use zeroize::Zeroizing;

/// Secret of SDS: a certificate with its key, or trusted roots.
#[derive(Clone, Eq, Message, PartialEq)]
pub struct Secret {
    /// Name of the resource.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Certificate with its key.
    #[prost(message, optional, tag = "2")]
    pub certificate: Option<TlsCertificate>,
    /// Trusted roots.
    #[prost(message, optional, tag = "4")]
    pub validation: Option<ValidationContext>,
}

impl Secret {
    /// Returns the encoded secret; its bytes are overwritten in memory when they are dropped.
    pub fn to_any(&self) -> Any {
        Any { type_url: type_urls::SECRET.to_owned(), value: encode(self) }
    }
}

/// Certificate chain and private key, as PEM.
#[derive(Clone, Eq, Message, PartialEq)]
#[prost(skip_debug)]
pub struct TlsCertificate {
    /// The chain, leaf first.
    #[prost(message, optional, tag = "1")]
    pub chain: Option<DataSource>,
    /// The private key.
    #[prost(message, optional, tag = "2")]
    pub key: Option<DataSource>,
}

impl fmt::Debug for TlsCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsCertificate").finish_non_exhaustive()
    }
}

/// Trusted roots and revoked certificates.
#[derive(Clone, Eq, Message, PartialEq)]
pub struct ValidationContext {
    /// Root certificates as PEM.
    #[prost(message, optional, tag = "1")]
    pub trusted_ca: Option<DataSource>,
    /// Certificate revocation lists as PEM.
    #[prost(message, optional, tag = "7")]
    pub crl: Option<DataSource>,
}

/// Bytes, or the path of a file that Envoy reads.
#[derive(Clone, Eq, Message, PartialEq)]
#[prost(skip_debug)]
pub struct DataSource {
    /// Path of a file.
    #[prost(string, tag = "1")]
    pub filename: String,
    /// The bytes, if no file is named.
    #[prost(bytes = "bytes", tag = "2")]
    pub inline_bytes: Bytes,
}

impl DataSource {
    /// Returns inline bytes.
    pub fn inline(bytes: impl Into<Bytes>) -> Self {
        Self { filename: String::new(), inline_bytes: bytes.into() }
    }

    /// Returns the bytes of a key, overwritten in memory when the last clone is dropped.
    pub fn key(key: Zeroizing<String>) -> Self {
        Self::inline(Bytes::from_owner(key))
    }
}

impl fmt::Debug for DataSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DataSource").finish_non_exhaustive()
    }
}

/// Request of `istio.v1.auth.IstioCertificateService/CreateCertificate`.
#[derive(Clone, Eq, Message, PartialEq)]
pub struct CertificateRequest {
    /// Certificate signing request as PEM.
    #[prost(string, tag = "1")]
    pub csr: String,
    /// Requested lifetime in seconds.
    #[prost(int64, tag = "3")]
    pub validity_duration: i64,
}

/// Response of the certificate service.
#[derive(Clone, Eq, Message, PartialEq)]
pub struct CertificateResponse {
    /// PEM texts: the leaf, intermediates, and the roots together in the last entry.
    #[prost(string, repeated, tag = "1")]
    pub cert_chain: Vec<String>,
}

/// Encodes a message into bytes that are overwritten in memory when they are dropped.
pub fn encode(message: &impl Message) -> Bytes {
    // Reserved once: growing would leave copies of a key in freed memory.
    let mut encoded = Zeroizing::new(Vec::with_capacity(message.encoded_len()));
    message.encode_raw(&mut *encoded);
    Bytes::from_owner(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_keys() {
        let key = DataSource::key(Zeroizing::new("PRIVATE".to_owned()));
        let certificate = TlsCertificate { chain: None, key: Some(key) };
        let secret = Secret { certificate: Some(certificate), ..Secret::default() };
        assert!(!format!("{secret:?}{:?}", secret.clone().certificate).contains("PRIVATE"));
        assert!(secret.to_any().value.windows(7).any(|window| window == b"PRIVATE"));
    }
}
