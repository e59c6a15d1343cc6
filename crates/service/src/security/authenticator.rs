//! Authenticates requests by their headers and certificates. A broker names the user that it calls for in
//! `Bookahead-User` and `Bookahead-Roles`; other callers may only name themselves there, and can only drop roles.
//! Keeps no state of callers; a successor with other keys can replace it while it is in use.

use super::claims::{Claims, TokenRules, wall_seconds};
use super::error::{SecurityError, TokenFault};
use super::identity::{Identity, Role};
use super::keys::Keys;
use super::minted::TrustedBrokers;
use super::name::user_name;
use super::provider::{Provider, ProviderHealth};
use super::sign_in::SignIn;
use super::signature::signed_content;
use super::tls::{ClientCertificate, Fingerprint, PeerCertificate};
use super::transport::names_this_machine;
use super::user_list::UserLists;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use bookahead_api::{Code, Problem, header};
use bookahead_protocol::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// Value of `WWW-Authenticate` with status 401.
pub(crate) const CHALLENGE: &str = "Bearer realm=\"bookahead\"";

/// Default user without authentication.
const ANYBODY: &str = "anonymous";

/// Authenticates callers.
#[derive(Debug)]
pub struct Authenticator {
    /// `None` without authentication.
    guard: Option<Guard>,
    /// Read once the party is active.
    lists: OnceLock<Arc<UserLists>>,
}

#[derive(Debug)]
struct Guard {
    keys: Source,
    rules: TokenRules,
    peers: BTreeMap<Fingerprint, Identity>,
    brokers: TrustedBrokers,
    broker_passes_roles: bool,
    sign_in: Option<Arc<SignIn>>,
    /// Ids of tokens.
    revoked: BTreeSet<String>,
}

/// Origin of the keys.
#[derive(Debug)]
enum Source {
    File(Arc<Keys>),
    Provider(Arc<Provider>),
}

/// Why a caller is refused.
enum Denial {
    Token(TokenFault),
    Problem(Box<Problem>),
}

impl Authenticator {
    /// No authentication: callers are the user in `Bookahead-User`, with the roles user, operator and broker, or
    /// those in `Bookahead-Roles`. For loopback only ([`super::may_listen`]).
    pub fn open() -> Authenticator {
        Authenticator { guard: None, lists: OnceLock::new() }
    }

    /// Accepts tokens that are valid by these keys and rules.
    pub fn new(keys: Keys, rules: TokenRules) -> Authenticator {
        Authenticator::guarding(Source::File(Arc::new(keys)), rules)
    }

    /// Accepts tokens with keys of an identity provider, for this audience.
    pub fn by_provider(provider: Arc<Provider>, audience: String) -> Authenticator {
        let rules = TokenRules { audience: Some(audience), issuer: Some(provider.issuer().to_owned()) };
        Authenticator::guarding(Source::Provider(provider), rules)
    }

    fn guarding(keys: Source, rules: TokenRules) -> Authenticator {
        let (peers, brokers) = (BTreeMap::new(), TrustedBrokers::default());
        let revoked = BTreeSet::new();
        let guard = Guard { keys, rules, peers, brokers, broker_passes_roles: true, sign_in: None, revoked };
        Authenticator { guard: Some(guard), lists: OnceLock::new() }
    }

    /// Also accepts these client certificates.
    #[must_use]
    pub fn with_peers(mut self, peers: impl IntoIterator<Item = PeerCertificate>) -> Authenticator {
        if let Some(guard) = &mut self.guard {
            let known = |peer: PeerCertificate| {
                let roles = peer.roles.into_iter().collect();
                (peer.fingerprint, Identity { user: peer.name, roles, through: None })
            };
            guard.peers.extend(peers.into_iter().map(known));
        }
        self
    }

    /// Also accepts tokens minted by these brokers.
    #[must_use]
    pub(super) fn with_brokers(mut self, brokers: TrustedBrokers) -> Authenticator {
        if let Some(guard) = &mut self.guard {
            guard.brokers = brokers;
        }
        self
    }

    /// Whether to accept the roles of users that a broker passes on. Default: true.
    #[must_use]
    pub fn broker_passes_roles(mut self, yes: bool) -> Authenticator {
        if let Some(guard) = &mut self.guard {
            guard.broker_passes_roles = yes;
        }
        self
    }

    /// Refuses tokens with these ids.
    #[must_use]
    pub fn with_revoked(mut self, ids: impl IntoIterator<Item = String>) -> Authenticator {
        if let Some(guard) = &mut self.guard {
            guard.revoked = ids.into_iter().collect();
        }
        self
    }

    /// Sets the lists of the service. Only the first call has an effect.
    pub(crate) fn set_lists(&self, lists: UserLists) {
        // A second call does not occur.
        let _ = self.lists.set(Arc::new(lists));
    }

    /// Sign-outs and addresses of calendars. Kept in memory only, unless they were set.
    pub(crate) fn lists(&self) -> &Arc<UserLists> {
        self.lists.get_or_init(|| Arc::new(UserLists::in_memory()))
    }

    /// Also accepts the sessions of users who sign in at the identity provider.
    #[must_use]
    pub(super) fn with_sign_in(mut self, sign_in: SignIn) -> Authenticator {
        if let Some(guard) = &mut self.guard {
            guard.sign_in = Some(Arc::new(sign_in));
        }
        self
    }

    /// How users sign in at the identity provider, if they can.
    pub(crate) fn sign_in(&self) -> Option<&SignIn> {
        self.guard.as_ref().and_then(|guard| guard.sign_in.as_deref())
    }

    /// The same, to set the key of sessions. None once the authenticator has a successor.
    pub(crate) fn sign_in_mut(&mut self) -> Option<&mut SignIn> {
        self.guard.as_mut().and_then(|guard| guard.sign_in.as_mut()).and_then(Arc::get_mut)
    }

    /// Whether there is no authentication.
    pub fn is_open(&self) -> bool {
        self.guard.is_none()
    }

    /// The identity provider, if keys are fetched from one.
    pub fn provider(&self) -> Option<&Arc<Provider>> {
        match &self.guard {
            Some(Guard { keys: Source::Provider(provider), .. }) => Some(provider),
            _ => None,
        }
    }

    /// Health of the identity provider, if there is one.
    pub fn provider_health(&self) -> Option<ProviderHealth> {
        self.provider().map(|provider| provider.health())
    }

    /// Takes over from an authenticator in use, of the same service with a newer configuration: the identity provider
    /// with its fetched keys and the sessions of users stay, and the provider is asked for new keys. Fails if a secret
    /// would replace public keys, or the reverse: that is likely the wrong file.
    pub fn succeeding(mut self, old: &Authenticator) -> Result<Authenticator, SecurityError> {
        self.lists = OnceLock::from(old.lists().clone());
        let (Some(new), Some(old)) = (&mut self.guard, &old.guard) else { return Ok(self) };
        match (&new.keys, &old.keys) {
            (Source::File(new), Source::File(old)) if new.secret().is_some() != old.secret().is_some() => {
                let why = "changing between a secret and public keys in security.keys needs a restart";
                return Err(SecurityError::Settings(why.into()));
            }
            (Source::Provider(_), Source::Provider(provider)) => {
                provider.fetch_soon();
                new.keys = Source::Provider(provider.clone());
                new.sign_in = old.sign_in.clone();
            }
            _ => {}
        }
        Ok(self)
    }

    /// Authenticates the caller. A token has precedence over a certificate, and a certificate never makes up for an
    /// invalid token. Waits only, and for a short time, if the key of a token is unknown and the identity provider
    /// may have published it meanwhile.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Identity, Problem> {
        let mut judged = self.judge(headers, certificate, wall_seconds());
        if let (Err(Denial::Token(TokenFault::UnknownKey)), Some(provider)) = (&judged, self.provider())
            && provider.fetched_for_unknown_key().await
        {
            judged = self.judge(headers, certificate, wall_seconds());
        }
        judged.map_err(|denial| self.problem(denial))
    }

    /// Authenticates the caller with the keys known now.
    pub fn identify(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Identity, Problem> {
        self.identify_at(headers, certificate, wall_seconds())
    }

    /// The same at a given time, in seconds since 1970.
    pub fn identify_at(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
        now: i64,
    ) -> Result<Identity, Problem> {
        self.judge(headers, certificate, now).map_err(|denial| self.problem(denial))
    }

    fn judge(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
        now: i64,
    ) -> Result<Identity, Denial> {
        let behalf = Behalf::read(headers)?;
        // Without authentication `Host` is checked instead: a web page could send requests to this machine through
        // the user's browser.
        let Some(guard) = &self.guard else {
            local_host_only(headers)?;
            return Ok(as_he_says(behalf));
        };
        let minted = guard.minted(headers, now);
        let is_minted = minted.is_some();
        let caller = minted.unwrap_or_else(|| guard.caller(headers, certificate, now, self.lists()));
        let caller = caller.map_err(Denial::Token)?;
        if caller.roles.is_empty() {
            let detail = format!(
                "{} has none of the roles user, operator, broker and reader; add one to the claim roles of the token",
                caller.user
            );
            return Err(Problem::new(Code::Forbidden, detail).into());
        }
        // A token minted by a broker is for one user; headers cannot name another.
        Ok(if is_minted {
            behalf.of_itself(caller)?
        } else {
            behalf.of(caller, guard.broker_passes_roles)?
        })
    }

    /// Without keys of the provider, an unverifiable token is not the caller's fault.
    fn problem(&self, denial: Denial) -> Problem {
        match (denial, self.provider()) {
            (Denial::Problem(problem), _) => *problem,
            (Denial::Token(TokenFault::UnknownKey), Some(provider)) if provider.keys().is_none() => {
                let detail = "the keys of the identity provider could not be fetched, so the token cannot be verified; \
                              try again in a moment";
                Problem::new(Code::Unavailable, detail)
            }
            (Denial::Token(fault), _) => Problem::new(Code::Unauthenticated, fault.to_string()),
        }
    }
}

impl From<Problem> for Denial {
    fn from(problem: Problem) -> Denial {
        Denial::Problem(Box::new(problem))
    }
}

impl Guard {
    fn keys(&self) -> Arc<Keys> {
        match &self.keys {
            Source::File(keys) => keys.clone(),
            Source::Provider(provider) => provider.keys().unwrap_or_default(),
        }
    }

    /// Authenticates a token minted by a broker. `None` if the token is of another kind.
    fn minted(&self, headers: &HeaderMap, now: i64) -> Option<Result<Identity, TokenFault>> {
        let token = bearer(headers).ok().flatten()?;
        self.brokers.identify(token, self.broker_passes_roles, now)
    }

    fn caller(
        &self,
        headers: &HeaderMap,
        certificate: Option<&ClientCertificate>,
        now: i64,
        lists: &UserLists,
    ) -> Result<Identity, TokenFault> {
        if let Some(token) = bearer(headers)? {
            let session = self.sign_in.as_ref().and_then(|sign_in| sign_in.session(token, now));
            let token = || Claims::read(&signed_content(token, &self.keys())?, &self.rules, now);
            let claims = session.unwrap_or_else(token)?;
            if claims.id.as_ref().is_some_and(|id| self.revoked.contains(id)) {
                return Err(TokenFault::Revoked);
            }
            if lists.has_ended(&claims.user, claims.issued) {
                return Err(TokenFault::SignedOut);
            }
            return Ok(Identity { user: claims.user, roles: claims.roles, through: None });
        }
        let known = certificate.and_then(|certificate| self.peers.get(&certificate.fingerprint));
        known.cloned().ok_or(TokenFault::Missing)
    }
}

/// The token in `Authorization`, if present.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, TokenFault> {
    let text = only(headers, AUTHORIZATION.as_str()).map_err(|_| TokenFault::NotBearer)?;
    let Some(text) = text else { return Ok(None) };
    let (scheme, token) = text.split_once(' ').ok_or(TokenFault::NotBearer)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(Some(token.trim())) } else { Err(TokenFault::NotBearer) }
}

fn as_he_says(behalf: Behalf) -> Identity {
    let user = behalf.user.unwrap_or_else(|| Name::from(ANYBODY));
    let roles = behalf.roles.unwrap_or_else(|| BTreeSet::from([Role::User, Role::Operator, Role::Broker]));
    Identity { user, roles, through: None }
}

/// Refuses requests for another host name: a web page could make the browser of a local user call this machine (DNS
/// rebinding).
fn local_host_only(headers: &HeaderMap) -> Result<(), Problem> {
    let host = only(headers, HOST.as_str())?;
    // The same for a page of another origin.
    let origin =
        only(headers, ORIGIN.as_str())?.map(|origin| origin.split_once("://").map_or("", |(_, host)| host));
    if [host, origin].into_iter().flatten().all(names_this_machine) {
        return Ok(());
    }
    let detail = "without authentication, only calls to localhost or a loopback address are accepted; \
                  configure security.keys or security.issuer to serve others";
    Err(Problem::new(Code::Forbidden, detail))
}

/// User and roles in the headers of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Behalf {
    pub(super) user: Option<Name>,
    /// Requested roles; unknown words are ignored. `None` if the header is missing or empty.
    pub(super) roles: Option<BTreeSet<Role>>,
}

impl Behalf {
    pub(super) fn read(headers: &HeaderMap) -> Result<Behalf, Problem> {
        let bad = |detail: String| Problem::new(Code::BadRequest, detail);
        let user = match only(headers, header::USER)? {
            None => None,
            Some(text) => {
                let name =
                    header::read_name(text).map_err(|fault| bad(format!("Bookahead-User: {fault}")))?;
                let visible = user_name(name.as_str());
                let fault = "Bookahead-User must have 1 to 255 visible characters";
                Some(visible.ok_or_else(|| bad(fault.into()))?)
            }
        };
        let roles = match only(headers, header::ROLES)? {
            None => None,
            Some(text) => {
                let words =
                    header::read_names(text).map_err(|fault| bad(format!("Bookahead-Roles: {fault}")))?;
                let roles = words.iter().filter_map(|word| Role::of(word.as_str())).collect();
                (!words.is_empty()).then_some(roles)
            }
        };
        Ok(Behalf { user, roles })
    }

    /// The identity that `caller` acts for, if allowed. If brokers do not pass on roles, their users have the role
    /// user only.
    pub(super) fn of(self, caller: Identity, broker_passes_roles: bool) -> Result<Identity, Problem> {
        match self.user {
            Some(user) if caller.roles.contains(&Role::Broker) => {
                let roles = self.roles.filter(|_| broker_passes_roles).map_or_else(just_user, passed_on);
                let through = (caller.user != user).then_some(caller.user);
                Ok(Identity { user, roles, through })
            }
            _ => self.of_itself(caller),
        }
    }

    /// The same for a caller that may not act for others.
    fn of_itself(self, caller: Identity) -> Result<Identity, Problem> {
        match self.user {
            Some(user) if user != caller.user => Err(Problem::new(
                Code::Forbidden,
                format!("{} may not call on behalf of {user}; this requires the role broker", caller.user),
            )),
            _ => {
                let roles = self.roles.map_or_else(|| caller.roles.clone(), |wanted| &caller.roles & &wanted);
                Ok(Identity { roles, ..caller })
            }
        }
    }
}

fn just_user() -> BTreeSet<Role> {
    BTreeSet::from([Role::User])
}

/// The role broker cannot be passed on: a user must not act for others.
fn passed_on(mut roles: BTreeSet<Role>) -> BTreeSet<Role> {
    roles.remove(&Role::Broker);
    roles
}

/// The value of a header that may appear once.
pub(super) fn only<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let fault = || Problem::new(Code::BadRequest, format!("{name} must appear once, in plain ASCII"));
    text.map(Some).ok_or_else(fault)
}
