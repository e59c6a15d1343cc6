//! What can be wrong with tokens, keys and settings. Every sentence says what to do, and none repeats a secret or a token.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why security cannot be set up as it is configured.
#[derive(Debug, Error)]
pub enum SecurityError {
    /// A file cannot be read.
    #[error("cannot read {what} {path}: {source}; check the path and that the service may read it")]
    Unreadable {
        /// What is in it.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is far larger than what should be in it.
    #[error("{what} {path} is larger than {most} bytes; it is hardly the right file")]
    TooLarge {
        /// What should be in it.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// The limit.
        most: usize,
    },
    /// A secret lies open.
    #[error(
        "{what} {path} holds a secret and everybody may read it (mode {mode:o}); say: chmod o-rwx {path}"
    )]
    Exposed {
        /// What is in it.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Anybody could put his own keys in.
    #[error("everybody may write {what} {path} (mode {mode:o}); say: chmod o-w {path}")]
    Writable {
        /// What is in it.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Keys cannot be used.
    #[error("the key file {path} cannot be used: {fault}")]
    Keys {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        fault: KeyFault,
    },
    /// A PEM file does not hold what it should.
    #[error("{path} holds no {what} in PEM ({fault}); it should have a line -----BEGIN {label}-----")]
    Pem {
        /// What is wanted.
        what: &'static str,
        /// The label of a section that would do.
        label: &'static str,
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up with {path}: {fault}")]
    Tls {
        /// The file that it fails with.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// Settings contradict each other.
    #[error("{0}")]
    Settings(String),
}

/// What is wrong with keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyFault {
    /// There is nothing.
    #[error("it is empty; it should hold a secret, public keys in PEM, or a JWKS document")]
    Empty,
    /// A secret that could be guessed.
    #[error(
        "the secret has {found} bytes and must have at least {least}; make one with: openssl rand -base64 48"
    )]
    ShortSecret {
        /// How many it has.
        found: usize,
        /// How many it needs.
        least: usize,
    },
    /// What should be base64 is not.
    #[error("{0} is not valid base64")]
    NotBase64(String),
    /// Not JSON, or not a key set.
    #[error("it is not a JWKS document (line {line}, column {column}); it should be {{\"keys\": [...]}}")]
    NotJwks {
        /// Where it goes wrong.
        line: usize,
        /// Where it goes wrong.
        column: usize,
    },
    /// A key lacks something.
    #[error("key {key}: {what}")]
    Jwk {
        /// Which, by its kid or its place.
        key: String,
        /// What is wrong.
        what: String,
    },
    /// None of the keys can check a signature that is accepted here.
    #[error("no key in it can check HS256, RS256, RS384, RS512, ES256 or EdDSA signatures")]
    NoUsableKey,
    /// More keys than anybody has.
    #[error("it has {found} keys; at most {most} are taken")]
    TooManyKeys {
        /// How many it has.
        found: usize,
        /// How many it may have.
        most: usize,
    },
    /// PEM that cannot be read.
    #[error("its PEM cannot be read: {0}")]
    Pem(String),
    /// Not a public key.
    #[error(
        "it has a section that is no public key; openssl pkey -pubout makes one from a private key, \
         openssl x509 -pubkey -noout from a certificate"
    )]
    NotPublic,
    /// A public key of an unknown kind, or damaged.
    #[error("its public key is neither RSA, EC P-256 nor Ed25519, or it is damaged")]
    UnknownPublicKey,
    /// An RSA key out of bounds.
    #[error("an RSA key must have 2048 to 8192 bits and an odd exponent from 3 on")]
    BadRsa,
    /// A point that is not on the curve.
    #[error("an EC key must be a point on P-256")]
    BadPoint,
    /// Of a wrong length.
    #[error("an Ed25519 key must have 32 bytes")]
    BadEd25519,
}

/// Why a token is not believed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenFault {
    /// No token at all.
    #[error("there is no token and no known client certificate; send Authorization: Bearer and a token")]
    Missing,
    /// Another way to authenticate, or not readable.
    #[error("Authorization is not understood; send it once, as Bearer and a token")]
    NotBearer,
    /// Longer than any token of ours.
    #[error("the token has more than {most} characters")]
    TooLong {
        /// The limit.
        most: usize,
    },
    /// Not a JSON Web Token.
    #[error("the token is not a signed JSON Web Token: {0}")]
    Malformed(&'static str),
    /// An algorithm that is not accepted.
    #[error("the token's algorithm is not accepted; HS256, RS256, RS384, RS512, ES256 and EdDSA are")]
    Algorithm,
    /// Signed with a key that is not here.
    #[error("the token is signed with a key that is not known here, or not for its algorithm")]
    UnknownKey,
    /// Forged or damaged.
    #[error("the token's signature is wrong")]
    Signature,
    /// Claims are missing or of a wrong type.
    #[error("the token's claims cannot be used: {0}")]
    Claims(&'static str),
    /// Too old.
    #[error("the token has expired; get a new one")]
    Expired,
    /// Not valid yet.
    #[error("the token is not valid yet; compare the clocks of its issuer and of this service")]
    NotYet,
    /// For somebody else.
    #[error("the token is meant for another audience")]
    Audience,
    /// For somebody, and this service has no name to compare with.
    #[error("the token names an audience and this service has none; set security.audience")]
    NoAudience,
    /// By somebody else.
    #[error("the token is from another issuer")]
    Issuer,
}
