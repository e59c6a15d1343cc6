//! An identity provider for tests: a real server on loopback that publishes keys, replaces them, and fails in the
//! ways of real providers.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, LOCATION};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bookahead_service::http::listener::Listener;
use bookahead_service::http::serve::{Bounds, serve};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use rustls::ServerConfig;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Failures of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Status(u16),
    Garbage,
    Hang,
    /// The keys, followed by endless spaces.
    TooLarge,
    Redirect,
    OtherIssuer,
    /// Names a key URL on another machine, without TLS.
    KeysElsewhere,
    /// Publishes a secret among its keys.
    Oct,
    NoKeys,
}

impl Fault {
    pub(super) const ALL: [Fault; 10] = [
        Fault::Status(500),
        Fault::Status(404),
        Fault::Garbage,
        Fault::Hang,
        Fault::TooLarge,
        Fault::Redirect,
        Fault::OtherIssuer,
        Fault::KeysElsewhere,
        Fault::Oct,
        Fault::NoKeys,
    ];
}

/// The secret that a provider with [`Fault::Oct`] publishes.
pub(super) const PUBLISHED_SECRET: [u8; 32] = [9; 32];

pub(super) struct IdentityProvider {
    pub(super) issuer: String,
    published: Arc<Mutex<Published>>,
    /// Stops the server when dropped.
    _stop: oneshot::Sender<()>,
}

struct Published {
    issuer: String,
    keys: Vec<Value>,
    fault: Option<Fault>,
    /// How often the configuration was fetched.
    asked: usize,
}

impl IdentityProvider {
    pub(super) async fn start(signers: &[&Signer]) -> IdentityProvider {
        IdentityProvider::start_at(([127, 0, 0, 1], 0).into(), None, signers).await
    }

    pub(super) async fn start_at(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        signers: &[&Signer],
    ) -> IdentityProvider {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let issuer = format!("{scheme}://localhost:{port}/realms/hpc");
        let published =
            Published { issuer: issuer.clone(), keys: public_keys(signers), fault: None, asked: 0 };
        let published = Arc::new(Mutex::new(published));
        let router = Router::new()
            .route("/realms/hpc/.well-known/openid-configuration", get(configuration))
            .route("/keys", get(keys))
            .with_state(published.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let listeners = vec![Listener::Tcp(listener, tls)];
        tokio::spawn(serve(Bounds::default(), listeners, router, async { drop(stopped.await) }));
        IdentityProvider { issuer, published, _stop: stop }
    }

    pub(super) fn publish(&self, signers: &[&Signer]) {
        self.published.lock().unwrap().keys = public_keys(signers);
    }

    pub(super) fn fail(&self, fault: impl Into<Option<Fault>>) {
        self.published.lock().unwrap().fault = fault.into();
    }

    pub(super) fn asked(&self) -> usize {
        self.published.lock().unwrap().asked
    }
}

type Shared = State<Arc<Mutex<Published>>>;

async fn configuration(State(published): Shared) -> Response {
    let (issuer, fault) = {
        let mut published = published.lock().unwrap();
        published.asked += 1;
        (published.issuer.clone(), published.fault)
    };
    let base = issuer.strip_suffix("/realms/hpc").unwrap();
    let own = format!("{base}/keys");
    match fault {
        Some(Fault::Status(status)) => StatusCode::from_u16(status).unwrap().into_response(),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Redirect) => (StatusCode::FOUND, [(LOCATION, own)]).into_response(),
        Some(Fault::OtherIssuer) => {
            json!({"issuer": format!("{issuer}/"), "jwks_uri": own}).to_string().into_response()
        }
        Some(Fault::KeysElsewhere) => {
            json!({"issuer": issuer, "jwks_uri": "http://192.0.2.1/keys"}).to_string().into_response()
        }
        _ => json!({"issuer": issuer, "jwks_uri": own, "scopes_supported": ["openid"]})
            .to_string()
            .into_response(),
    }
}

async fn keys(State(published): Shared) -> Response {
    let (mut keys, fault) = {
        let published = published.lock().unwrap();
        (published.keys.clone(), published.fault)
    };
    match fault {
        Some(Fault::Garbage) => return "<html>502 Bad Gateway</html>".into_response(),
        Some(Fault::TooLarge) => {
            return (json!({ "keys": keys }).to_string() + &" ".repeat(1 << 20)).into_response();
        }
        Some(Fault::Oct) => {
            let secret = URL_SAFE_NO_PAD.encode(PUBLISHED_SECRET);
            keys.push(json!({"kty": "oct", "kid": "shared", "k": secret, "alg": "HS256"}));
        }
        Some(Fault::NoKeys) => keys.clear(),
        _ => {}
    }
    ([(CACHE_CONTROL, "max-age=3600")], json!({ "keys": keys }).to_string()).into_response()
}

fn public_keys(signers: &[&Signer]) -> Vec<Value> {
    signers.iter().map(|signer| signer.public()).collect()
}

/// A key of a provider.
pub(super) struct Signer {
    id: &'static str,
    pair: Pair,
}

enum Pair {
    EdDsa(Ed25519KeyPair),
    Es256(EcdsaKeyPair),
}

impl Signer {
    pub(super) fn ed_dsa(id: &'static str, seed: u8) -> Signer {
        Signer { id, pair: Pair::EdDsa(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()) }
    }

    pub(super) fn es256(id: &'static str) -> Signer {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Signer { id, pair: Pair::Es256(EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap()) }
    }

    pub(super) fn public(&self) -> Value {
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match &self.pair {
            Pair::EdDsa(pair) => {
                let x = encoded(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id, "use": "sig", "x": x})
            }
            Pair::Es256(pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({"kty": "EC", "crv": "P-256", "kid": self.id, "alg": "ES256", "x": encoded(x), "y": encoded(y)})
            }
        }
    }

    /// A token with these claims and the `kid` of the key.
    pub(super) fn sign(&self, claims: &Value) -> String {
        self.sign_as(self.id, claims)
    }

    pub(super) fn sign_as(&self, id: &str, claims: &Value) -> String {
        let algorithm = if matches!(self.pair, Pair::EdDsa(_)) { "EdDSA" } else { "ES256" };
        let header = json!({"alg": algorithm, "kid": id, "typ": "JWT"});
        let encoded = |text: String| URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = match &self.pair {
            Pair::EdDsa(pair) => URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes())),
            Pair::Es256(pair) => {
                URL_SAFE_NO_PAD.encode(pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap())
            }
        };
        format!("{signed}.{signature}")
    }
}
