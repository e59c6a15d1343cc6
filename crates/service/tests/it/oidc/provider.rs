//! An identity provider for tests: a real server on loopback that publishes keys, replaces them, and fails in the
//! ways of real providers. With a signer of its own it also has a page where users sign in, and redeems codes as
//! OpenID Connect and PKCE (RFC 7636) require.

use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bookahead_client::Url;
use bookahead_service::http::listener::Listener;
use bookahead_service::http::serve::{Bounds, serve};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use rustls::ServerConfig;
use serde_json::{Value, json};
use std::collections::BTreeMap;
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
pub(super) const PUBLISHED_SECRET: [u8; 32] = *b"a secret that everybody can read";

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
    /// Signs ID tokens.
    signer: Option<Signer>,
    /// Sign-ins whose code was not redeemed yet, by code.
    codes: BTreeMap<String, BTreeMap<String, String>>,
}

/// The client that the provider knows, and its secret.
pub(super) const CLIENT: (&str, &str) = ("pages", "a secret: of the client");

/// Longest lifetime of an ID token, in seconds.
const ID_TOKEN_LASTS: i64 = 60;

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
        let published = Published {
            issuer: issuer.clone(),
            keys: public_keys(signers),
            fault: None,
            asked: 0,
            signer: None,
            codes: BTreeMap::new(),
        };
        let published = Arc::new(Mutex::new(published));
        let router = Router::new()
            .route("/realms/hpc/.well-known/openid-configuration", get(configuration))
            .route("/keys", get(keys))
            .route("/authorize", get(authorize))
            .route("/token", post(redeem))
            .with_state(published.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let listeners = vec![Listener::Tcp(listener, tls)];
        tokio::spawn(serve(Bounds::default(), listeners, router, async { drop(stopped.await) }));
        IdentityProvider { issuer, published, _stop: stop }
    }

    /// Has users who sign in, with tokens by this signer.
    pub(super) fn have_users(&self, signer: Signer) {
        self.published.lock().unwrap().signer = Some(signer);
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
        _ => json!({"issuer": issuer, "jwks_uri": own, "scopes_supported": ["openid"],
            "authorization_endpoint": format!("{base}/authorize"), "token_endpoint": format!("{base}/token")})
        .to_string()
        .into_response(),
    }
}

/// A page with a link for each user, and one to refuse.
async fn authorize(State(published): Shared, Query(asked): Query<BTreeMap<String, String>>) -> Response {
    let of = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let scopes = of("scope");
    assert_eq!((of("response_type"), of("client_id")), ("code".into(), CLIENT.0.into()));
    assert!(scopes.split(' ').any(|scope| scope == "openid"), "{scopes}");
    assert_eq!(of("code_challenge_method"), "S256");
    assert!(of("nonce").len() > 20 && of("state").len() > 20 && of("code_challenge").len() == 43);
    let back = |user: &str, more: &str| {
        let separator = if of("redirect_uri").contains('?') { '&' } else { '?' };
        format!(
            "<a id=\"{user}\" href=\"{}{separator}{more}&amp;state={}\">{user}</a>\n",
            of("redirect_uri"),
            of("state")
        )
    };
    let mut page = String::from("<!doctype html><title>Sign in</title><h1>Who are you?</h1>\n");
    let mut published = published.lock().unwrap();
    for user in ["ada", "bob"] {
        let code = format!("code-{}", published.codes.len());
        page += &back(user, &format!("code={code}"));
        let mut begun = asked.clone();
        begun.insert("user".into(), user.into());
        published.codes.insert(code, begun);
    }
    page += &back("nobody", "error=access_denied&amp;error_description=No");
    ([(CONTENT_TYPE, "text/html")], page).into_response()
}

/// An ID token for a code, once, for the client and browser that began.
async fn redeem(State(published): Shared, headers: HeaderMap, body: String) -> Response {
    let refused =
        |error: &str| (StatusCode::BAD_REQUEST, json!({ "error": error }).to_string()).into_response();
    let form = read_form(&body);
    let of = |name: &str| form.get(name).cloned().unwrap_or_default();
    // Both are encoded as in a form (RFC 6749, 2.3.1).
    let known = STANDARD.encode(format!("{}:a+secret%3A+of+the+client", CLIENT.0));
    let authorization = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    if authorization != Some(format!("Basic {known}")) {
        return refused("invalid_client");
    }
    let mut published = published.lock().unwrap();
    let Some(begun) = published.codes.remove(&of("code")) else { return refused("invalid_grant") };
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, of("code_verifier").as_bytes()));
    if begun["redirect_uri"] != of("redirect_uri") || begun["code_challenge"] != challenge {
        return refused("invalid_grant");
    }
    let now = jiff::Timestamp::now().as_second();
    let token =
        published.signer.as_ref().unwrap().sign(&json!({"iss": published.issuer, "sub": begun["user"],
        "aud": CLIENT.0, "exp": now + ID_TOKEN_LASTS, "iat": now, "nonce": begun["nonce"]}));
    json!({"access_token": "opaque", "token_type": "Bearer", "id_token": token}).to_string().into_response()
}

/// A form as names and values.
fn read_form(form: &str) -> BTreeMap<String, String> {
    let url = Url::parse(&format!("form:?{form}")).unwrap();
    url.query_pairs().into_owned().collect()
}

async fn keys(State(published): Shared) -> Response {
    let (mut keys, fault) = {
        let published = published.lock().unwrap();
        (published.keys.clone(), published.fault)
    };
    match fault {
        Some(Fault::Garbage) => return "<html>502 Bad Gateway</html>".into_response(),
        Some(Fault::TooLarge) => {
            return (json!({ "keys": keys }).to_string() + " ".repeat(1 << 20).as_str()).into_response();
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
