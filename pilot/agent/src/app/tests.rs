//! Probes of servers in the test process.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Starts a server that gives these answers, one per connection. Returns for each request the
/// client's address and the head.
fn server(answers: &'static [&'static str]) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer_all = move || {
        let answer = |answer: &&str| {
            let (mut stream, client) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head = lines.map(Result::unwrap).take_while(|line| !line.is_empty());
            let head: Vec<_> = [client.ip().to_string()].into_iter().chain(head).collect();
            stream.write_all(answer.as_bytes()).unwrap();
            head.join("\n")
        };
        answers.iter().map(answer).collect()
    };
    (port, thread::spawn(answer_all))
}

async fn probe(action: &str) -> Result<AppAnswer, ProbeError> {
    let table = format!(r#"{{"/app-health/web/livez":{action}}}"#);
    let dialer = Dialer::new("127.0.0.1".parse().unwrap(), false);
    let app = App::new(ProbeTable::parse(&table).unwrap(), dialer).unwrap();
    app.send("/app-health/web/livez", &HeaderMap::new()).await.unwrap()
}

#[tokio::test]
async fn redirect_within_the_application_is_followed() {
    let (port, asked) = server(&[
        "HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 418 Teapot\r\nContent-Length: 5\r\nContent-Type: text/x\r\n\r\nshort",
    ]);
    let answer = probe(&format!(r#"{{"httpGet":{{"path":"/first","port":{port}}}}}"#)).await;
    let content_type = Some(HeaderValue::from_static("text/x"));
    let status = StatusCode::IM_A_TEAPOT;
    let expected = AppAnswer { status, content_type, body: Bytes::from("short") };
    assert_eq!(answer.unwrap(), expected);
    let asked = asked.join().unwrap();
    assert!(asked[0].starts_with("127.0.0.6\nGET /first HTTP/1.1\n"), "{asked:?}");
    assert!(asked[1].starts_with("127.0.0.6\nGET /next HTTP/1.1\n"), "{asked:?}");
    assert!(asked[1].contains(&format!("host: 127.0.0.1:{port}")), "{asked:?}");
}

#[tokio::test]
async fn redirect_to_another_host_is_the_answer() {
    let (port, _) =
        server(&["HTTP/1.1 302 Found\r\nLocation: http://x.example/\r\nContent-Length: 0\r\n\r\n"]);
    let answer = probe(&format!(r#"{{"httpGet":{{"port":{port}}}}}"#)).await.unwrap();
    assert_eq!(answer.status, StatusCode::FOUND);
}

#[tokio::test]
async fn https_certificate_is_not_verified() {
    let issued = rcgen::generate_simple_self_signed(["other.example".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key.unwrap())
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let mut stream = acceptor.accept(stream).await.unwrap();
        // The request fits in one record.
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let get = format!(r#"{{"httpGet":{{"scheme":"HTTPS","port":{port}}},"timeoutSeconds":60}}"#);
    assert_eq!(probe(&get).await.unwrap().status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn endless_redirects_fail() {
    const AGAIN: &str = "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n";
    let (port, _) = server(&[AGAIN; 10]);
    let error = probe(&format!(r#"{{"httpGet":{{"port":{port}}}}}"#)).await.unwrap_err();
    assert_eq!(error.to_string(), "stopped after 10 redirects");
}

#[tokio::test]
async fn body_is_limited_to_10_kib() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // An answer before the request would be an error of the client.
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        lines.map(Result::unwrap).find(String::is_empty).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        // The client closes the connection after the first 10 KiB.
        while stream.write_all(&[b'x'; 1024]).is_ok() {}
    });
    let answer = probe(&format!(r#"{{"httpGet":{{"port":{port}}},"timeoutSeconds":60}}"#)).await;
    assert_eq!(answer.unwrap().body.len(), 10 * 1024);
}

#[tokio::test]
async fn silent_application_fails_at_the_timeout() {
    // The kernel completes the connections, but no process accepts them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = probe(&format!(r#"{{"grpc":{{"port":{port}}}}}"#)).await.unwrap_err();
    let probe = format!("health check of the gRPC service \"\" at port {port}");
    assert_eq!(error.to_string(), format!("{probe}: no answer within 1 s"));
}

#[tokio::test]
async fn port_without_listener_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = probe(&format!(r#"{{"tcpSocket":{{"port":{port}}}}}"#)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("connecting to 127.0.0.1:{port} failed"));
    assert!(error.source().unwrap().to_string().contains("refused"), "{error:?}");
}

#[tokio::test]
async fn server_without_http2_fails_the_health_check() {
    let (port, _) = server(&["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"]);
    let error = probe(&format!(r#"{{"grpc":{{"port":{port}}}}}"#)).await.unwrap_err();
    assert!(error.to_string().contains(&format!("at port {port}")), "{error:#}");
}
