//! Who calls, and what he may do: tokens, client certificates, roles, TLS, and where one may listen at all.
//!
//! - [`Authenticator`]: from the headers of a request to an [`Identity`], or to a problem that says why not
//! - [`Accounts`]: the same on a Unix socket, where the system says who connects
//! - [`Provider`]: an identity provider whose keys are fetched from its URL
//! - [`Keys`]: what signatures are checked with; [`Secret`], [`mint`]: tokens of our own
//! - [`TokenRules`], [`Claims`]: what a token must say
//! - [`ClientCertificate`], [`PeerCertificate`]: certificates known by their fingerprints
//! - [`server_config`]: TLS of a listener; [`may_listen`]: where one may listen without it
//! - [`CallsKey`]: makes the tokens of a broker for its peers; [`TrustedBroker`]: a broker whose tokens are accepted
//! - [`Security`]: what an operator writes about all of it
//!
//! The algorithm of a signature is bound to the key and never taken from the token alone. Nothing here prints a secret or a
//! token, and no X.509 is read here: certificates are compared by their fingerprints, chains are checked by rustls.

mod accounts;
mod authenticator;
mod claims;
mod discovery;
mod error;
mod key;
mod keys;
mod minted;
pub(crate) mod name;
mod provider;
#[cfg(test)]
mod rfc_examples_for_tests;
mod settings;
mod signature;
pub(crate) mod tls;
mod transport;

pub use accounts::{Accounts, is_root, own_account};
pub use authenticator::{Authenticator, CHALLENGE, Identity, Role};
pub use claims::{Claims, TokenRules, mint, new_secret};
pub use error::{KeyFault, ProviderFault, SecurityError, TokenFault};
pub use key::Secret;
pub use keys::Keys;
pub use minted::{CallsKey, TrustedBroker};
pub use name::user_name;
pub use provider::{Provider, ProviderHealth, ProviderState, Timing};
pub use settings::{Security, Tls, may_listen};
pub use tls::{ClientCertificate, Fingerprint, NotAFingerprint, PeerCertificate, server_config};
pub(crate) use transport::{carries_tokens, is_on_this_machine};
