//! TLS: trusted authorities and client certificates. The certificates in `fixtures` are valid from 2020 to 2120;
//! the keys of their authorities were destroyed.

use crate::options;
use crate::server::{Act, Server};
use bookahead_client::{Client, ClientError, Identity, Options};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(fixture(name)).unwrap()
}

/// Config of a server that requires a client certificate.
fn acceptor() -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let mut authorities = RootCertStore::empty();
    authorities.add(certificate("authority.pem")).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider.clone());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(
            vec![certificate("server.pem")],
            PrivateKeyDer::from_pem_file(fixture("server.key.pem")).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn server() -> Server {
    Server::start_tls([Act::answer(200, &json!({"resources": []}))], acceptor()).await
}

fn identity() -> Identity {
    Identity { certificate: fixture("peer.pem"), key: fixture("peer.key.pem") }
}

#[tokio::test]
async fn a_server_whose_authority_is_trusted_is_spoken_to() {
    let mut server = server().await;
    let trusting = Options { ca: Some(fixture("authority.pem")), identity: Some(identity()), ..options() };
    let client = Client::new(&server.url, trusting).unwrap();
    assert!(client.resources().await.unwrap().resources.is_empty());
    assert_eq!(server.heard().await.line, "GET /v1/resources");
}

#[tokio::test]
async fn a_server_whose_authority_is_not_trusted_is_not_even_asked_and_not_tried_again() {
    for ca in [Some(fixture("other-authority.pem")), None] {
        let mut server = server().await;
        let Ok(client) = Client::new(&server.url, Options { ca: ca.clone(), ..options() }) else {
            assert!(ca.is_none(), "a system may have no authorities at all");
            continue;
        };
        let error = client.cancel_job(bookahead_protocol::JobId(1)).await.unwrap_err();
        assert!(error.was_not_sent() && !error.may_pass(), "{error}");
        assert!(error.to_string().contains("check the certificates"), "{error}");
        assert!(server.heard_nothing_more());
    }
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_of_ours_says_so() {
    let server = server().await;
    let client =
        Client::new(&server.url, Options { ca: Some(fixture("authority.pem")), ..options() }).unwrap();
    let error = client.resources().await.unwrap_err();
    // The server closes the connection at once, so the client may see that before the alert.
    let told = matches!(error, ClientError::CannotConnect { .. }) && error.to_string().contains("identity");
    assert!(told || matches!(error, ClientError::Broken { .. }), "{error}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let missing = Options { ca: Some(fixture("nowhere.pem")), ..options() };
    let empty = Options { ca: Some(fixture("server.key.pem")), ..options() };
    let swapped = Identity { certificate: fixture("peer.pem"), key: fixture("server.key.pem") };
    let swapped = Options { ca: Some(fixture("authority.pem")), identity: Some(swapped), ..options() };
    for (wrong, name) in [(missing, "nowhere.pem"), (empty, "server.key.pem"), (swapped, "peer.pem")] {
        let error = Client::new("https://127.0.0.1:1", wrong.clone()).unwrap_err();
        assert!(matches!(error, ClientError::BadFile { .. }) && error.to_string().contains(name), "{error}");
        assert!(Client::new("http://127.0.0.1:1", wrong).is_ok(), "without TLS they are not read");
    }
}

#[tokio::test]
async fn an_address_that_others_chose_is_outside_also_if_a_name_leads_to_it() {
    let mut server = Server::start([Act::answer(200, &json!({"resources": []}))]).await;
    let outside = Options { outside_only: true, ..options() };
    let error = Client::new(&server.url, outside.clone()).unwrap_err();
    assert!(matches!(&error, ClientError::BadUrl { why, .. } if why.contains("private network")), "{error}");
    // The name is fine until it is resolved.
    let named = server.url.replace("127.0.0.1", "localhost");
    let error = Client::new(&named, outside).unwrap().resources().await.unwrap_err();
    assert!(error.was_not_sent() && error.to_string().contains("private network"), "{error}");
    assert!(server.heard_nothing_more());
    let inside = Client::new(&named, options()).unwrap();
    assert!(inside.resources().await.unwrap().resources.is_empty());
}

#[tokio::test]
async fn a_server_without_tls_is_not_said_to_have_a_wrong_certificate() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 1_000]).await;
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    let client = Client::new(&url, Options { ca: Some(fixture("authority.pem")), ..options() }).unwrap();
    let error = client.resources().await.unwrap_err().to_string();
    assert!(error.contains("does not speak TLS; try http://"), "{error}");
    assert!(!error.contains("certificate"), "{error}");
}
