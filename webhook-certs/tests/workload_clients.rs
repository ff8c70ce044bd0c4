//! Handshakes of workloads with a listener of the control plane, in memory.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use mesh::spiffe::SpiffeId;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::server_names::ServerNames;
use webhook_certs::serving::tls_parameters::TlsParameters;
use webhook_certs::serving::workload_clients::{
    WorkloadClients, WorkloadIdentity, WorkloadIdentityError,
};
use webhook_certs::serving::{HTTP_2, Identity, ServingCertificate, restricted_server_config};
use webhook_certs::workload::authority::{ValidityLimit, WorkloadAuthority};
use webhook_certs::workload::signing_request::SigningRequest;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn authority(number: u64) -> Authority {
    let lifetime = Lifetime::starting(Timestamp::now(), DAY);
    Authority::create("test", number, lifetime, Entropy::draw().unwrap()).unwrap()
}

type ClientIdentity = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn workload(authority: &Authority) -> ClientIdentity {
    let key = KeyPair::generate().unwrap();
    let request = CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    let request = SigningRequest::parse(&request).unwrap();
    let roots = Bundle::new(authority.ca().clone(), []);
    let authority =
        WorkloadAuthority::from_authority(authority, roots, ValidityLimit::default()).unwrap();
    let identity = SpiffeId::parse("spiffe://cluster.local/ns/shop/sa/web").unwrap();
    let leaf = authority.issue(&request, &identity, DAY, Timestamp::now()).unwrap();
    (leaf.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into())
}

/// Protocol and client certificate of a handshake, at the server.
type Seen = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Performs a handshake that offers HTTP/2 and HTTP/1.1.
fn handshake(
    clients: &Arc<WorkloadClients>,
    identity: Option<ClientIdentity>,
) -> Result<Seen, rustls::Error> {
    let server_ca = authority(9);
    let names = ServerNames::parse(["istiod.istio-system.svc"]).unwrap();
    let lifetime = Lifetime::starting(Timestamp::now(), DAY);
    let leaf = server_ca.issue(&names, lifetime, Entropy::draw().unwrap()).unwrap();
    let certificate = ServingCertificate::new();
    certificate.set(Identity::from_leaf(&leaf).unwrap());
    let config = restricted_server_config(
        certificate,
        &TlsParameters::default(),
        Some(Arc::clone(clients) as _),
        &[HTTP_2],
    );
    let mut roots = RootCertStore::empty();
    roots.add(server_ca.ca().der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut client = match identity {
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key)?,
        None => builder.with_no_client_auth(),
    };
    client.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let name = ServerName::try_from("istiod.istio-system.svc").unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    let mut server = ServerConnection::new(config)?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut wire = wire.as_slice();
        while !wire.is_empty() {
            server.read_tls(&mut wire).unwrap();
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut wire = wire.as_slice();
        while !wire.is_empty() {
            client.read_tls(&mut wire).unwrap();
            client.process_new_packets()?;
        }
    }
    let protocol = server.alpn_protocol().map(<[u8]>::to_vec);
    let certificate = server.peer_certificates().map(|chain| chain[0].to_vec());
    Ok((protocol, certificate))
}

#[test]
fn listener_for_grpc_chooses_http2() {
    let (protocol, certificate) = handshake(&WorkloadClients::new(), None).unwrap();
    assert_eq!(protocol.as_deref(), Some(&b"h2"[..]));
    assert_eq!(certificate, None, "a client without a certificate is accepted");
}

#[test]
fn clients_are_verified_by_the_current_roots() {
    let (old, new) = (authority(1), authority(2));
    let clients = WorkloadClients::new();
    let accepts = |authority| handshake(&clients, Some(workload(authority)));
    assert!(accepts(&old).is_err(), "there are no roots yet");
    clients.set(&Bundle::new(old.ca().clone(), [])).unwrap();
    let (certificate, key) = workload(&old);
    let (_, seen) = handshake(&clients, Some((certificate.clone(), key))).unwrap();
    assert_eq!(seen.as_deref(), Some(certificate.as_ref()));
    let identity = WorkloadIdentity::from_der(&certificate).unwrap();
    assert_eq!(identity.id.to_string(), "spiffe://cluster.local/ns/shop/sa/web");
    let ca = WorkloadIdentity::from_der(old.ca().der());
    assert_eq!(ca, Err(WorkloadIdentityError::Uris { found: 0 }));
    assert!(accepts(&new).is_err());
    clients.set(&Bundle::new(new.ca().clone(), [old.ca().clone()])).unwrap();
    assert!(accepts(&old).is_ok() && accepts(&new).is_ok());
    clients.set(&Bundle::new(new.ca().clone(), [])).unwrap();
    assert!(accepts(&old).is_err() && accepts(&new).is_ok());
}
