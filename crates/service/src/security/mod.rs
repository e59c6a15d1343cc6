//! Authentication and authorization: tokens, client certificates, roles, TLS, and addresses to listen on.
//!
//! - [`Authenticator`]: from the headers of a request to an [`Identity`], or to a problem
//! - [`Accounts`]: the same on a Unix socket, where the system identifies the account
//! - [`Provider`]: an identity provider whose keys are fetched
//! - [`Keys`]: keys that verify signatures; [`Secret`], [`mint`]: tokens of this service
//! - [`TokenRules`], [`Claims`]: claims of a token
//! - [`ClientCertificate`], [`PeerCertificate`]: certificates identified by their fingerprints
//! - [`server_config`]: TLS of a listener; [`may_listen`]: addresses that need it
//! - [`CallsKey`]: signs the tokens of a broker for its peers; [`TrustedBroker`]: a broker whose tokens are
//!   accepted
//! - [`sign_in`]: users of the web pages sign in at the identity provider
//! - [`Security`]: the table `[security]`
//!
//! The algorithm of a signature is bound to the key and never taken from the token alone. No secret or token is
//! printed. X.509 is not parsed here: certificates are compared by fingerprint, and rustls verifies chains.

mod accounts;
mod authenticator;
mod claims;
mod discovery;
mod error;
mod identity;
mod key;
mod keys;
mod minted;
pub(crate) mod name;
mod provider;
#[cfg(test)]
mod rfc_examples_for_tests;
mod settings;
pub(crate) mod sign_in;
mod signature;
pub(crate) mod tls;
mod transport;
mod user_list;

pub use accounts::{Accounts, is_root, own_account};
pub use authenticator::Authenticator;
pub(crate) use authenticator::CHALLENGE;
pub(crate) use claims::wall_seconds;
pub use claims::{Claims, TokenRules, mint, new_secret, new_token_id};
pub use error::{KeyFault, ProviderFault, SecurityError, TokenFault};
pub use identity::{Identity, Role};
pub use key::Secret;
pub use keys::Keys;
pub use minted::{CallsKey, TrustedBroker};
pub use name::user_name;
pub use provider::{Provider, ProviderHealth, ProviderState, Timing};
pub use settings::{Security, Tls, may_listen};
pub use sign_in::SignInSettings;
pub use tls::{ClientCertificate, Fingerprint, NotAFingerprint, PeerCertificate, server_config};
pub(crate) use transport::{carries_tokens, is_on_this_machine};
pub(crate) use user_list::{NotChanged, UserLists};
