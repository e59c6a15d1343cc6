//! Errors of tokens, keys and settings. Messages say what to do, and never contain a secret or a token.

use bookahead_client::ClientError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Why security cannot be set up as configured.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum SecurityError {
    #[error("cannot read {what} {path}: {source}; check the path and that the service may read it")]
    Unreadable { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{what} {path} is larger than {most} bytes; check that it is the right file")]
    TooLarge { what: &'static str, path: PathBuf, most: usize },
    #[error(
        "{what} {path} contains a secret but is readable by all users (mode {mode:o}); run: chmod o-rwx {path}"
    )]
    Exposed { what: &'static str, path: PathBuf, mode: u32 },
    #[error("{what} {path} is writable by all users (mode {mode:o}); run: chmod o-w {path}")]
    Writable { what: &'static str, path: PathBuf, mode: u32 },
    #[error("cannot use the key file {path}: {fault}")]
    Keys { path: PathBuf, fault: KeyFault },
    #[error("{path} contains no {what} in PEM ({fault}); it must have a line -----BEGIN {label}-----")]
    Pem {
        what: &'static str,
        /// Label of an acceptable PEM section.
        label: &'static str,
        path: PathBuf,
        fault: String,
    },
    #[error("cannot set up TLS with {path}: {fault}")]
    Tls { path: PathBuf, fault: String },
    #[error("security.issuer: cannot fetch keys: {0}")]
    Provider(#[from] ClientError),
    #[error("{0}")]
    Settings(String),
}

/// What is wrong with a key file or document.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum KeyFault {
    #[error("it is empty; it must contain a secret, public keys in PEM, or a JWKS document")]
    Empty,
    #[error(
        "the secret has {found} bytes and must have at least {least}; make one with: openssl rand -base64 48"
    )]
    ShortSecret { found: usize, least: usize },
    #[error(
        "the secret has only {found} different bytes and must have at least {least}, so it can be guessed; make one with: \
         openssl rand -base64 48"
    )]
    WeakSecret { found: usize, least: usize },
    #[error(
        "it is neither a JWKS document nor public keys in PEM; if it is a secret, write `secret:` or `base64:` before it"
    )]
    Unmarked,
    #[error("{0} is not valid base64")]
    NotBase64(String),
    #[error("it is not a JWKS document (line {line}, column {column}); it must be {{\"keys\": [...]}}")]
    NotJwks { line: usize, column: usize },
    #[error("key {key}: {what}")]
    Jwk {
        /// The key, by its `kid` or position.
        key: String,
        what: String,
    },
    #[error("it has no key for HS256, RS256, RS384, RS512, ES256 or EdDSA signatures")]
    NoUsableKey,
    #[error("it publishes a symmetric key (oct); only public keys can be fetched, so all of it is refused")]
    PublishedSecret,
    #[error("it publishes a private key (d), so all of it is refused; replace that key at the provider")]
    PublishedPrivateKey,
    #[error("it has {found} keys; at most {most} are allowed")]
    TooManyKeys { found: usize, most: usize },
    #[error("its PEM cannot be read: {0}")]
    Pem(String),
    #[error(
        "it has a section that is not a public key; openssl pkey -pubout makes one from a private key, \
         openssl x509 -pubkey -noout from a certificate"
    )]
    NotPublic,
    #[error("its public key is neither RSA, EC P-256 nor Ed25519, or it is damaged")]
    UnknownPublicKey,
    #[error("an RSA key must have 2048 to 8192 bits and an odd exponent from 3 on")]
    BadRsa,
    #[error("an EC key must be a point on P-256")]
    BadPoint,
    #[error("an Ed25519 key must have 32 bytes")]
    BadEd25519,
    #[error("the key of a broker must be an Ed25519 key; take calls-key.pub from the broker's state folder")]
    NotEd25519,
}

/// Why the keys of an identity provider could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum ProviderFault {
    #[error("{0}")]
    Unreachable(String),
    #[error("{url} did not answer within {} s", within.as_secs_f32())]
    TimedOut { url: String, within: Duration },
    #[error("the answer of {url} is longer than {most} bytes")]
    TooLarge { url: String, most: usize },
    #[error("{url} answered with status {status}; redirects are not followed")]
    Redirect { url: String, status: u16 },
    #[error("{url} answered with status {status}")]
    Status { url: String, status: u16 },
    #[error("{url} is not an OpenID configuration with issuer and jwks_uri")]
    NotAConfiguration { url: String },
    #[error(
        "{url} is the configuration of {found:?} and not of {wanted:?}; both must be equal, including a trailing slash"
    )]
    OtherIssuer { url: String, wanted: String, found: String },
    #[error("{url} names {found:?} as jwks_uri; it must be https, or http on loopback if the issuer is")]
    BadKeysUrl { url: String, found: String },
    #[error("cannot use the keys at {url}: {fault}")]
    Keys { url: String, fault: KeyFault },
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum TokenFault {
    #[error("there is no token and no known client certificate; send Authorization: Bearer and a token")]
    Missing,
    #[error("Authorization is invalid; send it once, as Bearer and a token")]
    NotBearer,
    #[error("the token has more than {most} characters")]
    TooLong { most: usize },
    #[error("the token is not a signed JSON Web Token: {0}")]
    Malformed(&'static str),
    #[error("the token's algorithm is not accepted; HS256, RS256, RS384, RS512, ES256 and EdDSA are")]
    Algorithm,
    #[error("the token is signed with an unknown key, or one for another algorithm")]
    UnknownKey,
    #[error("the token's signature is wrong")]
    Signature,
    #[error("the token's claims cannot be used: {0}")]
    Claims(&'static str),
    #[error("the token has expired; get a new one")]
    Expired,
    #[error("the token is not valid yet; compare the clocks of its issuer and of this service")]
    NotYet,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token names an audience and this service has none; set security.audience")]
    NoAudience,
    #[error("the token is from another issuer")]
    Issuer,
    #[error("the token was revoked by the operator of this service; get a new one")]
    Revoked,
    #[error(
        "this user has signed out everywhere since the token was issued; sign in again, or get a new token"
    )]
    SignedOut,
}
