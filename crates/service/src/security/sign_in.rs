//! Users sign in to the web pages at their identity provider: OpenID Connect, authorization code flow with PKCE.
//!
//! The service keeps nothing while a user signs in. The browser has a cookie with random bytes and a signature of this
//! service, from which `state`, `nonce` and the PKCE verifier follow. The result is a session: a token of this service
//! for its own use, with the user and roles of the ID token. Sessions begin with `~`, which no other token does.

use super::claims::{Claims, TokenRules, mint, new_secret};
use super::discovery::{Endpoints, checked};
use super::error::{ProviderFault, SecurityError, TokenFault};
use super::identity::{Identity, Role};
use super::keys::{Keys, base64url};
use super::name::user_name;
use super::provider::Provider;
use super::signature::signed_content;
use super::tls::Content;
use super::user_list::same;
use crate::config::Length;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bookahead_client::form;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::Semaphore;

/// Time to sign in at the provider, in seconds: enough to find a second factor.
pub(crate) const TIME_TO_SIGN_IN: i64 = 10 * 60;

/// Codes that are redeemed at the same time. Anyone may call the route, and the provider must not be flooded.
const MOST_REDEEMED: usize = 16;

/// Longest place in the pages to return to.
const LONGEST_BACK: usize = 500;

/// Audience of sessions, so that no other token of this service is taken for one.
const SESSION: &str = "bookahead-session";

/// The first character of a session.
const MARK: char = '~';

/// The table `[security.sign_in]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct SignInSettings {
    pub client: String,
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    pub url: String,
    #[serde(default = "usual_scopes")]
    pub scopes: Vec<String>,
    #[serde(default = "usual_claim")]
    pub user_claim: String,
    #[serde(default = "usual_roles")]
    pub roles: Vec<Role>,
    #[serde(default = "usual_session")]
    pub session: Length,
}

fn usual_scopes() -> Vec<String> {
    vec!["openid".into(), "profile".into()]
}

fn usual_claim() -> String {
    "sub".into()
}

fn usual_roles() -> Vec<Role> {
    vec![Role::User]
}

/// A working day.
fn usual_session() -> Length {
    Length::of_seconds(10 * 60 * 60)
}

/// Longest session. A user who was removed at the provider keeps access until then.
const LONGEST_SESSION: Length = Length::of_seconds(7 * 24 * 60 * 60);

/// Signs users in.
#[derive(Debug)]
pub(crate) struct SignIn {
    provider: Arc<Provider>,
    settings: SignInSettings,
    client_secret: Option<String>,
    /// Signs sessions and cookies.
    key: Keys,
    redeeming: Semaphore,
}

/// A begun sign-in.
pub(crate) struct Begun {
    /// Where the user goes.
    pub(crate) url: String,
    /// What the browser brings back.
    pub(crate) cookie: String,
}

/// A completed sign-in.
#[derive(Debug)]
pub(crate) struct SignedIn {
    pub(crate) session: String,
    /// Where to go in the pages.
    pub(crate) back: String,
}

/// Why a user was not signed in.
#[derive(Debug, Error)]
pub(crate) enum SignInFault {
    #[error("the identity provider is not known yet, or says not where users sign in")]
    NoEndpoints,
    #[error("too many users sign in at the same time")]
    Busy,
    #[error("the sign-in was begun in another browser, or more than ten minutes ago")]
    Stale,
    #[error("the identity provider refused: {0}")]
    Denied(String),
    #[error(transparent)]
    Provider(#[from] ProviderFault),
    #[error(
        "the identity provider answered with status {status} ({error}); check client, secret_file and url in [security.sign_in]"
    )]
    Code { status: u16, error: String },
    #[error("the ID token cannot be used: {0}")]
    Token(#[from] TokenFault),
    #[error("the system provides no random numbers")]
    NoRandomness,
}

/// What the provider adds to the URL to which it sends the user back.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Returned {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
}

impl SignInSettings {
    /// Relative paths start at `base`.
    pub(super) fn read(&self, provider: Arc<Provider>, base: &Path) -> Result<SignIn, SecurityError> {
        let fault = |text: String| Err(SecurityError::Settings(format!("security.sign_in.{text}")));
        let mut settings = self.clone();
        if let Err(why) = checked(&settings.url) {
            return fault(format!(
                "url {why}; it is the URL of the pages, such as \"https://book.example.org/\""
            ));
        }
        if !settings.url.ends_with('/') {
            settings.url.push('/');
        }
        if settings.client.is_empty() {
            return fault("client is empty; it is the id of this service at the provider".into());
        }
        if !settings.scopes.iter().any(|scope| scope == "openid") {
            return fault("scopes must have \"openid\"".into());
        }
        if settings.roles.contains(&Role::Broker) {
            return fault("roles cannot have \"broker\": a page acts for its user only".into());
        }
        if settings.session <= Length::of_seconds(0) || settings.session > LONGEST_SESSION {
            return fault("session must be longer than 0s and at most 7d".into());
        }
        let client_secret =
            self.secret_file.as_ref().map(|path| client_secret(&base.join(path))).transpose()?;
        let no_randomness = || SecurityError::Settings("the system provides no random numbers".into());
        let key =
            new_secret().and_then(|text| Keys::parse(text.as_bytes()).ok()).ok_or_else(no_randomness)?;
        let redeeming = Semaphore::new(MOST_REDEEMED);
        Ok(SignIn { provider, settings, client_secret, key, redeeming })
    }
}

fn client_secret(path: &Path) -> Result<String, SecurityError> {
    let content = Content::read("the client secret", path)?;
    content.must_be_private()?;
    let text = String::from_utf8_lossy(&content.bytes).trim().to_owned();
    if text.is_empty() {
        let path = path.display();
        return Err(SecurityError::Settings(format!("security.sign_in.secret_file {path} is empty")));
    }
    Ok(text)
}

impl SignIn {
    /// Replaces the key, which is new at each start otherwise.
    pub(crate) fn set_key(&mut self, key: Keys) {
        self.key = key;
    }

    /// Whether browsers reach the pages over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.settings.url.starts_with("https:")
    }

    /// URL of the pages.
    pub(crate) fn pages(&self) -> &str {
        &self.settings.url
    }

    /// Length of a session in seconds.
    pub(crate) fn session_seconds(&self) -> i64 {
        i64::try_from(self.settings.session.duration().as_secs()).unwrap_or(i64::MAX)
    }

    /// Begins a sign-in that ends at `back`, a place in the pages.
    pub(crate) fn begin(&self, back: &str, now: i64) -> Result<Begun, SignInFault> {
        let Endpoints { authorization: mut url, .. } =
            self.provider.endpoints().ok_or(SignInFault::NoEndpoints)?;
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).map_err(|_| SignInFault::NoRandomness)?;
        let random = URL_SAFE_NO_PAD.encode(bytes);
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, self.derived("verifier", &random).as_bytes()));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client)
            .append_pair("redirect_uri", &self.redirect_uri())
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", &self.derived("state", &random))
            .append_pair("nonce", &self.derived("nonce", &random))
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let back = if is_place(back) { back } else { "" };
        let back = URL_SAFE_NO_PAD.encode(back);
        let expires = now.saturating_add(TIME_TO_SIGN_IN);
        let signed = format!("{random}.{expires}.{back}");
        let cookie = format!("{signed}.{}", self.derived("cookie", &signed));
        Ok(Begun { url: url.into(), cookie })
    }

    /// Completes a sign-in with what the provider and the browser bring back.
    pub(crate) async fn complete(
        &self,
        returned: Returned,
        cookie: &str,
        now: i64,
    ) -> Result<SignedIn, SignInFault> {
        let (random, back) = self.begun(cookie, now).ok_or(SignInFault::Stale)?;
        // Otherwise a page of another origin could sign the user in as somebody else.
        let same = |state: &String| same(state, &self.derived("state", random));
        if !returned.state.as_ref().is_some_and(same) {
            return Err(SignInFault::Stale);
        }
        let Some(code) = returned.code.filter(|_| returned.error.is_none()) else {
            return Err(SignInFault::Denied(word(returned.error.as_deref().unwrap_or("no code"))));
        };
        let _place = self.redeeming.try_acquire().map_err(|_| SignInFault::Busy)?;
        let token = self.redeem(&code, &self.derived("verifier", random)).await?;
        let identity = self.identity_of(&token, &self.derived("nonce", random), now).await?;
        let claims = Claims {
            user: identity.user,
            roles: identity.roles,
            expires: now.saturating_add(self.session_seconds()),
            not_before: None,
            issued: Some(now),
            audience: Some(SESSION.into()),
            issuer: None,
            id: None,
        };
        let secret = self.key.secret().ok_or(SignInFault::NoRandomness)?;
        Ok(SignedIn { session: format!("{MARK}{}", mint(secret, &claims)), back })
    }

    /// The place in the pages where a sign-in began; empty if the cookie is none of this service, or too old.
    pub(crate) fn place_to_return_to(&self, cookie: &str, now: i64) -> String {
        self.begun(cookie, now).map(|(_, back)| back).unwrap_or_default()
    }

    /// The claims of a session. `None` if the token is none.
    pub(super) fn session(&self, token: &str, now: i64) -> Option<Result<Claims, TokenFault>> {
        let token = token.strip_prefix(MARK)?;
        let rules = TokenRules { audience: Some(SESSION.into()), issuer: None };
        Some(signed_content(token, &self.key).and_then(|content| Claims::read(&content, &rules, now)))
    }

    fn redirect_uri(&self) -> String {
        format!("{}sign-in/done", self.settings.url)
    }

    /// A value that only this service can derive from a text.
    fn derived(&self, what: &str, from: &str) -> String {
        let message = format!("{what} {from}");
        let tag = self.key.secret().map(|secret| secret.sign(message.as_bytes()));
        tag.map(|tag| URL_SAFE_NO_PAD.encode(tag)).unwrap_or_default()
    }

    /// The random text of a cookie, and the place in the pages. None if it is not a cookie of this service, or too old.
    fn begun<'a>(&self, cookie: &'a str, now: i64) -> Option<(&'a str, String)> {
        let (signed, signature) = cookie.rsplit_once('.')?;
        if !same(signature, &self.derived("cookie", signed)) {
            return None;
        }
        let mut parts = signed.split('.');
        let (random, expires, back) = (parts.next()?, parts.next()?, parts.next()?);
        let in_time = expires.parse::<i64>().is_ok_and(|expires| now < expires);
        let back = String::from_utf8(base64url(back)?).ok()?;
        in_time.then_some((random, back))
    }

    /// The ID token for a code.
    async fn redeem(&self, code: &str, verifier: &str) -> Result<String, SignInFault> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Answer {
            id_token: Option<String>,
            error: Option<String>,
        }
        let Endpoints { token: url, secret_in_form, .. } =
            self.provider.endpoints().ok_or(SignInFault::NoEndpoints)?;
        let redirect = self.redirect_uri();
        let client = self.settings.client.as_str();
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("client_id", client),
            ("code_verifier", verifier),
        ];
        let mut basic = None;
        if let Some(secret) = &self.client_secret {
            if secret_in_form {
                fields.push(("client_secret", secret));
            } else {
                // RFC 6749 (2.3.1) has both encoded as in a form.
                basic = Some((form_value(client), form_value(secret)));
            }
        }
        let basic = basic.as_ref().map(|(client, secret)| (client.as_str(), secret.as_str()));
        let document = self.provider.discovery.post(&url, form(&fields), basic).await?;
        let answer: Answer = serde_json::from_slice(&document.body).unwrap_or_default();
        match answer.id_token {
            Some(token) if document.status == 200 => Ok(token),
            _ => {
                let error = word(answer.error.as_deref().unwrap_or("no ID token"));
                Err(SignInFault::Code { status: document.status, error })
            }
        }
    }

    /// The user of an ID token.
    async fn identity_of(&self, token: &str, nonce: &str, now: i64) -> Result<Identity, TokenFault> {
        let keys = || self.provider.keys().unwrap_or_default();
        let mut content = signed_content(token, &keys());
        if matches!(content, Err(TokenFault::UnknownKey)) && self.provider.fetched_for_unknown_key().await {
            content = signed_content(token, &keys());
        }
        self.identity(&content?, nonce, now)
    }

    fn identity(&self, content: &[u8], nonce: &str, now: i64) -> Result<Identity, TokenFault> {
        let client = &self.settings.client;
        let issuer = Some(self.provider.issuer().to_owned());
        let rules = TokenRules { audience: Some(client.clone()), issuer };
        let claims = Claims::read(content, &rules, now)?;
        let all: Value = serde_json::from_slice(content).unwrap_or_default();
        // Without it a token of an earlier sign-in could be used again.
        if !all["nonce"].as_str().is_some_and(|told| same(told, nonce)) {
            return Err(TokenFault::Claims("nonce is not that of this sign-in"));
        }
        // A token may be for several audiences; `azp` says who asked for it (OpenID Connect Core, 3.1.3.7).
        match &all["azp"] {
            Value::String(asked) if asked == client => {}
            Value::Null if all["aud"].as_array().is_none_or(|audiences| audiences.len() <= 1) => {}
            Value::Null => {
                return Err(TokenFault::Claims(
                    "aud names several audiences, and azp, who asked for it, is missing",
                ));
            }
            _ => return Err(TokenFault::Audience),
        }
        let user = all[&self.settings.user_claim].as_str().and_then(user_name);
        let user = user.ok_or(TokenFault::Claims("the claim of user_claim has no name of a user"))?;
        let mut roles = claims.roles;
        roles.remove(&Role::Broker);
        if roles.is_empty() {
            roles.extend(self.settings.roles.iter().copied());
        }
        Ok(Identity { user, roles, through: None })
    }
}

/// Whether a text is a place in the pages. Others would lead a user to another server.
fn is_place(back: &str) -> bool {
    back.starts_with("#/") && back.len() <= LONGEST_BACK && back.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The start of a text from the provider, for the log.
fn word(text: &str) -> String {
    text.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ').take(80).collect()
}

fn form_value(text: &str) -> String {
    form(&[("", text)]).trim_start_matches('=').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::provider::Timing;
    use super::*;
    use serde_json::json;

    const NOW: i64 = 1_800_000_000;

    fn settings(more: &str) -> SignInSettings {
        toml::from_str(&format!("client = \"pages\"\nurl = \"http://localhost:7400\"\n{more}")).unwrap()
    }

    fn read(settings: &SignInSettings) -> Result<SignIn, SecurityError> {
        let provider = Provider::new("http://localhost:81", None, Timing::default()).unwrap();
        settings.read(Arc::new(provider), Path::new("/nowhere"))
    }

    #[test]
    fn settings_that_cannot_work_are_errors() {
        assert_eq!(read(&settings("")).unwrap().redirect_uri(), "http://localhost:7400/sign-in/done");
        for (more, what) in [
            ("scopes = [\"profile\"]", "openid"),
            ("roles = [\"user\", \"broker\"]", "broker"),
            ("session = \"0s\"", "session"),
            ("session = \"8d\"", "7d"),
            ("secret_file = \"secret\"", "/nowhere/secret"),
        ] {
            let why = read(&settings(more)).unwrap_err().to_string();
            assert!(why.contains(what), "{more}: {why}");
        }
        let plain = SignInSettings { url: "http://book.example.org".into(), ..settings("") };
        assert!(read(&plain).unwrap_err().to_string().contains("https"));
        let empty = SignInSettings { client: String::new(), ..settings("") };
        assert!(read(&empty).unwrap_err().to_string().contains("client is empty"));
    }

    #[test]
    fn only_places_in_the_pages_are_returned_to() {
        for place in ["#/", "#/timeline?from=2026-11-17T09:00:00Z&pixels=3", "#/reservation/rsv-1"] {
            assert!(is_place(place), "{place}");
        }
        for other in ["", "/", "//example.org", "https://example.org/#/", "#/\r\nSet-Cookie: a=b", "#/é"] {
            assert!(!is_place(other), "{other}");
        }
        assert!(!is_place(&format!("#/{}", "x".repeat(LONGEST_BACK))));
    }

    #[test]
    fn a_cookie_counts_unchanged_in_time_and_at_its_own_service() {
        let service = read(&settings("")).unwrap();
        let signed = format!("random.{}.{}", NOW + 60, URL_SAFE_NO_PAD.encode("#/mine"));
        let cookie = format!("{signed}.{}", service.derived("cookie", &signed));
        assert_eq!(service.begun(&cookie, NOW), Some(("random", "#/mine".to_owned())));
        assert_eq!(service.begun(&cookie, NOW + 60), None);
        assert_eq!(service.begun(&cookie.replace("random", "randon"), NOW), None);
        assert_eq!(read(&settings("")).unwrap().begun(&cookie, NOW), None);
        for odd in ["", ".", "...", "a.b.c.d"] {
            assert_eq!(service.begun(odd, NOW), None, "{odd}");
        }
    }

    #[test]
    fn an_id_token_is_for_this_client_and_this_sign_in() {
        let identity = |more: &Value, settings: &SignInSettings| {
            let mut claims = json!({"sub": "a-1", "preferred_username": "ada", "iss": "http://localhost:81",
                "aud": "pages", "exp": NOW + 60, "nonce": "n"});
            claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read(settings).unwrap().identity(claims.to_string().as_bytes(), "n", NOW)
        };
        let plain = settings("");
        let known = identity(&json!({}), &plain).unwrap();
        assert_eq!((known.user.as_str(), known.roles.contains(&Role::User)), ("a-1", true));
        let named = settings("user_claim = \"preferred_username\"");
        assert_eq!(identity(&json!({}), &named).unwrap().user.as_str(), "ada");
        assert!(identity(&json!({"aud": ["pages"]}), &plain).is_ok());
        assert!(identity(&json!({"aud": ["pages", "other"], "azp": "pages"}), &plain).is_ok());
        let operator = identity(&json!({"roles": ["operator", "broker"]}), &plain).unwrap();
        assert_eq!(operator.roles, [Role::Operator].into());
        for (more, what) in [
            (json!({"nonce": "m"}), "nonce"),
            (json!({"nonce": null}), "nonce"),
            (json!({"aud": "other"}), "audience"),
            (json!({"aud": ["pages", "other"], "azp": "other"}), "audience"),
            (json!({"aud": ["pages", "other"]}), "azp"),
            (json!({"aud": ["pages", "pages"], "azp": null}), "azp"),
            (json!({"azp": ["pages"]}), "audience"),
            (json!({"iss": "http://localhost:82"}), "issuer"),
            (json!({"exp": NOW - 60}), "expired"),
        ] {
            let why = identity(&more, &plain).unwrap_err().to_string();
            assert!(why.contains(what), "{more}: {why}");
        }
        assert!(identity(&json!({"preferred_username": ""}), &named).is_err());
    }

    #[test]
    fn a_session_is_a_token_of_its_own_service_until_it_ends() {
        let (service, other) = (read(&settings("")).unwrap(), read(&settings("")).unwrap());
        let claims = |audience: &str| Claims {
            user: "ada".into(),
            roles: [Role::User].into(),
            expires: NOW + 60,
            not_before: None,
            issued: None,
            audience: Some(audience.into()),
            issuer: None,
            id: None,
        };
        let session = |audience| format!("~{}", mint(service.key.secret().unwrap(), &claims(audience)));
        let good = session(SESSION);
        assert_eq!(service.session(&good, NOW).unwrap().unwrap().user.as_str(), "ada");
        assert_eq!(service.session(&good, NOW + 600).unwrap(), Err(TokenFault::Expired));
        assert_eq!(other.session(&good, NOW).unwrap(), Err(TokenFault::Signature));
        assert_eq!(service.session(&session("other"), NOW).unwrap(), Err(TokenFault::Audience));
        assert!(service.session(&good[1..], NOW).is_none());
    }

    #[test]
    fn a_form_value_is_encoded_alone() {
        assert_eq!(form_value("a b:c"), "a+b%3Ac");
    }
}
