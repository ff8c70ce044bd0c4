use std::fs;
use std::path::Path;

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::config::Paths;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    self_signed(CertificateParams::default())
}

fn self_signed(mut params: CertificateParams) -> Authority {
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Certificate for a name, valid from some hours before or after now, for two hours.
fn leaf(authority: &Authority, name: &str, from_hours: i64) -> ServerConfig {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.not_before = OffsetDateTime::now_utc() + time::Duration::hours(from_hours);
    params.not_after = params.not_before + time::Duration::hours(2);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    server(certificate.der(), &key)
}

fn server(certificate: &CertificateDer<'static>, key: &KeyPair) -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap()
}

/// Accepts one connection and holds it until the client is gone.
async fn serve(config: ServerConfig) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        if let Ok(mut tls) = TlsAcceptor::from(Arc::new(config)).accept(tcp).await {
            let _ = tokio::io::copy(&mut tls, &mut tokio::io::sink()).await;
        }
    });
    address
}

fn options(address: String, folder: &Path) -> ChannelOptions {
    ChannelOptions {
        address,
        server_name: Some("istiod.istio-system.svc".to_owned()),
        root: RootSource::File(folder.join("root-cert.pem")),
        token: Some(folder.join("istio-token")),
        cluster_id: "Kubernetes".to_owned(),
        headers: vec![("X-Mesh".to_owned(), "a".to_owned())],
        plaintext: false,
    }
}

/// Connects to a server with a certificate and returns the error.
async fn failure(authority: &Authority, root: &Authority, name: &str, from_hours: i64) -> String {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("root-cert.pem"), root.pem()).unwrap();
    let address = serve(leaf(authority, name, from_hours)).await;
    let error =
        ControlPlane::new(options(address, folder.path()), None).server().open().await.err();
    error.unwrap().to_string()
}

#[tokio::test]
async fn trusted_certificate_of_the_name_connects() {
    let (folder, authority) = (TempDir::new().unwrap(), authority());
    fs::write(folder.path().join("root-cert.pem"), authority.pem()).unwrap();
    let address = serve(leaf(&authority, "istiod.istio-system.svc", -1)).await;
    ControlPlane::new(options(address, folder.path()), None).server().open().await.unwrap();
}

#[tokio::test]
async fn certificate_errors_have_their_own_messages() {
    let (mesh, other) = (authority(), authority());
    let name = "istiod.istio-system.svc";
    let error = failure(&mesh, &other, name, -1).await;
    assert!(error.contains("is not trusted: no CA of /"), "{error}");
    let error = failure(&mesh, &mesh, "istiod-canary.istio-system.svc", -1).await;
    assert!(error.contains("istiod-canary.istio-system.svc"), "{error}");
    assert!(error.contains("ISTIOD_SAN"), "{error}");
    let error = failure(&mesh, &mesh, name, 1).await;
    assert!(error.contains("is valid from 20") && error.contains("check the clock"), "{error}");
    let error = failure(&mesh, &mesh, name, -3).await;
    assert!(error.contains("expired at 20"), "{error}");
}

#[tokio::test]
async fn missing_files_are_named() {
    let folder = TempDir::new().unwrap();
    let address = serve(leaf(&authority(), "a", -1)).await;
    let client = ControlPlane::new(options(address, folder.path()), None).server();
    let error = client.open().await.err().unwrap().to_string();
    assert!(error.contains("root-cert.pem does not exist"), "{error}");
    assert!(error.contains("XDS_ROOT_CA"), "{error}");
    let error = ChannelError::RootMissing { path: Paths::default().mesh_root }.to_string();
    assert!(error.contains("ConfigMap istio-ca-root-cert"), "{error}");
    let error = client.request(()).unwrap_err().to_string();
    assert!(error.contains("istio-token does not exist"), "{error}");
    fs::write(folder.path().join("root-cert.pem"), "nothing").unwrap();
    fs::write(folder.path().join("istio-token"), "\n").unwrap();
    let error = client.request(()).unwrap_err().to_string();
    assert!(error.ends_with("istio-token has no token"), "{error}");
}

#[test]
fn request_has_the_current_token_and_headers() {
    let folder = TempDir::new().unwrap();
    let client =
        ControlPlane::new(options("istiod:15012".to_owned(), folder.path()), None).server();
    for token in ["one", "two"] {
        fs::write(folder.path().join("istio-token"), format!("{token}\n")).unwrap();
        let request = client.request(()).unwrap();
        let value = request.metadata().get("authorization").unwrap();
        assert_eq!(value.to_str().unwrap(), format!("Bearer {token}"));
        assert!(!format!("{request:?}").contains(token));
        assert_eq!(request.metadata().get("clusterid").unwrap(), "Kubernetes");
        assert_eq!(request.metadata().get("x-mesh").unwrap(), "a");
    }
}

#[test]
fn addresses_are_split() {
    let split = |address| host_and_port(address).ok();
    assert_eq!(
        split("istiod.istio-system.svc:15012"),
        Some(("istiod.istio-system.svc".into(), 15012))
    );
    assert_eq!(split("[::1]:15012"), Some(("::1".into(), 15012)));
    for invalid in ["istiod", ":15012", "istiod:", "istiod:0", "user@istiod:1", "istiod:70000", ""]
    {
        assert_eq!(split(invalid), None, "{invalid}");
    }
}

#[tokio::test]
async fn changed_address_changes_the_verified_name() {
    let (folder, authority) = (TempDir::new().unwrap(), authority());
    fs::write(folder.path().join("root-cert.pem"), authority.pem()).unwrap();
    let by_host = |address: &str| ChannelOptions {
        server_name: None,
        ..options(address.replace("127.0.0.1", "localhost"), folder.path())
    };
    let first = by_host(&serve(leaf(&authority, "localhost", -1)).await);
    let second = by_host(&serve(leaf(&authority, "istiod.north", -1)).await);
    let client = ControlPlane::new(first.clone(), None);
    let before = client.server();
    assert!(client.clone().set(second.clone()) && !client.set(second.clone()));
    let error = client.server().open().await.err().unwrap().to_string();
    assert!(error.contains(&second.address) && error.contains("istiod.north"), "{error}");
    // A server keeps its address.
    assert_eq!(before.address(), first.address);
    before.open().await.unwrap();
}

#[tokio::test]
async fn certificate_of_a_ca_is_named_as_such() {
    let (folder, authority) = (TempDir::new().unwrap(), {
        let params = CertificateParams::new(["istiod.istio-system.svc".to_owned()]);
        self_signed(params.unwrap())
    });
    fs::write(folder.path().join("root-cert.pem"), authority.pem()).unwrap();
    let address = serve(server(authority.der(), authority.key())).await;
    let control_plane = ControlPlane::new(options(address.clone(), folder.path()), None);
    let error = control_plane.server().open().await.err().unwrap().to_string();
    let expected = format!("the certificate of {address} is that of a CA, not of a server: ");
    assert!(error.starts_with(&expected), "{error}");
}
