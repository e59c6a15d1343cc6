//! Fetches the keys and endpoints of an identity provider (OpenID Connect Discovery 1.0). The provider must use https, or http on
//! loopback. Answers are bounded in time and size, and redirects are not followed, so nothing is fetched from an
//! address that neither the operator nor the provider's configuration names.

use super::error::{ProviderFault, SecurityError};
use super::keys::Keys;
use super::transport::names_this_machine;
use bookahead_client::{ClientError, Document, Getter, Options, Url};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// Largest document: ten times the largest that providers publish, including certificate chains.
const MOST_BYTES: usize = 256 * 1024;

/// Longest URL in logs: a provider may send anything.
const SHOWN: usize = 200;

/// An identity provider whose keys can be fetched.
#[derive(Debug)]
pub(super) struct Discovery {
    /// As configured, and as tokens must name it.
    pub(super) issuer: String,
    is_https: bool,
    document: String,
    getter: Getter,
}

#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// What a provider publishes.
pub(super) struct Published {
    pub(super) keys: Keys,
    /// How long the provider allows to cache the keys.
    pub(super) max_age: Option<Duration>,
    /// None if the provider has no usable ones: tokens can be verified, but nobody can sign in.
    pub(super) endpoints: Option<Endpoints>,
}

/// Where users sign in, and where codes become tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoints {
    pub(super) authorization: Url,
    pub(super) token: Url,
    /// Whether a client secret is sent in the form instead of the header.
    pub(super) secret_in_form: bool,
}

impl Discovery {
    /// Checks the URL and reads the certificate authorities. `timeout` applies to each of the two documents.
    pub(super) fn new(
        issuer: &str,
        ca: Option<PathBuf>,
        timeout: Duration,
    ) -> Result<Discovery, SecurityError> {
        let url = checked(issuer).map_err(|why| {
            let issuer = shown(issuer);
            let text = format!(
                "security.issuer {issuer:?} {why}; without security.keys it is the URL that keys are fetched from, \
                 such as \"https://id.example.org\""
            );
            SecurityError::Settings(text)
        })?;
        let options =
            Options { ca, connect_timeout: timeout, timeout, most_bytes: MOST_BYTES, ..Options::default() };
        Ok(Discovery {
            // The specification removes a final slash here, but not in `issuer`, which tokens repeat.
            document: format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')),
            is_https: url.scheme() == "https",
            getter: Getter::new(issuer, &options)?,
            issuer: issuer.to_owned(),
        })
    }

    /// Fetches what the provider publishes.
    pub(super) async fn fetch(&self) -> Result<Published, ProviderFault> {
        let document = self.get(&self.document).await?;
        let configuration = self.configuration(&document.body)?;
        let url = self.keys_url(&configuration)?;
        let document = self.get(&url).await?;
        let keys = Keys::published(&document.body).map_err(|fault| ProviderFault::Keys { url, fault })?;
        let endpoints = self.endpoints(&configuration);
        Ok(Published { keys, max_age: document.max_age, endpoints })
    }

    /// Posts a form to an endpoint. The answer may have any status.
    pub(super) async fn post(
        &self,
        url: &Url,
        form: String,
        basic: Option<(&str, &str)>,
    ) -> Result<Document, ProviderFault> {
        self.getter.post_form(url.as_str(), form, basic).await.map_err(fault)
    }

    async fn get(&self, url: &str) -> Result<Document, ProviderFault> {
        let document = self.getter.get(url).await.map_err(fault)?;
        let url = || url.to_owned();
        match document.status {
            200 => Ok(document),
            status @ 300..=399 => Err(ProviderFault::Redirect { url: url(), status }),
            status => Err(ProviderFault::Status { url: url(), status }),
        }
    }

    fn configuration(&self, document: &[u8]) -> Result<Configuration, ProviderFault> {
        let url = || self.document.clone();
        let said: Configuration =
            serde_json::from_slice(document).map_err(|_| ProviderFault::NotAConfiguration { url: url() })?;
        // Required by the specification: otherwise one provider could publish keys in the name of another.
        if said.issuer != self.issuer {
            let (wanted, found) = (self.issuer.clone(), shown(&said.issuer));
            return Err(ProviderFault::OtherIssuer { url: url(), wanted, found });
        }
        Ok(said)
    }

    fn keys_url(&self, said: &Configuration) -> Result<String, ProviderFault> {
        let found = shown(&said.jwks_uri);
        let bad = || ProviderFault::BadKeysUrl { url: self.document.clone(), found };
        self.sound(&said.jwks_uri).map(Into::into).ok_or_else(bad)
    }

    fn endpoints(&self, said: &Configuration) -> Option<Endpoints> {
        let methods = &said.token_endpoint_auth_methods_supported;
        let has = |method: &str| methods.iter().any(|one| one == method);
        Some(Endpoints {
            authorization: self.sound(said.authorization_endpoint.as_ref()?)?,
            token: self.sound(said.token_endpoint.as_ref()?)?,
            secret_in_form: has("client_secret_post") && !has("client_secret_basic"),
        })
    }

    /// A URL of the provider, if its transport is not weaker than that of the configuration.
    fn sound(&self, url: &str) -> Option<Url> {
        let url = Url::parse(url).ok()?;
        let is_sound = if self.is_https { url.scheme() == "https" } else { is_plain_and_local(&url) };
        (is_sound && is_anonymous(&url)).then_some(url)
    }
}

fn fault(why: ClientError) -> ProviderFault {
    match why {
        ClientError::TimedOut { url, after } => ProviderFault::TimedOut { url, within: after },
        ClientError::TooLarge { url, most } => ProviderFault::TooLarge { url, most },
        ClientError::Broken { url, cause } => {
            ProviderFault::Unreachable(format!("the connection to {url} was lost ({cause})"))
        }
        why => ProviderFault::Unreachable(why.to_string()),
    }
}

pub(super) fn checked(issuer: &str) -> Result<Url, &'static str> {
    let url = Url::parse(issuer).map_err(|_| "is not a URL")?;
    if url.scheme() != "https" && !is_plain_and_local(&url) {
        return Err("must be https, or http on loopback");
    }
    // A path is appended to it, and it is logged.
    if !is_anonymous(&url) || url.query().is_some() || url.fragment().is_some() {
        return Err("must have no user, query or fragment");
    }
    Ok(url)
}

fn is_plain_and_local(url: &Url) -> bool {
    url.scheme() == "http" && url.host_str().is_some_and(names_this_machine)
}

fn is_anonymous(url: &Url) -> bool {
    url.username().is_empty() && url.password().is_none()
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discovery(issuer: &str) -> Result<Discovery, SecurityError> {
        Discovery::new(issuer, None, Duration::from_secs(1))
    }

    #[test]
    fn an_issuer_is_https_or_on_this_machine() {
        for sound in ["http://127.0.0.1:8080", "http://localhost/realms/hpc", "http://[::1]:80/"] {
            discovery(sound).unwrap();
        }
        for (wrong, why) in [
            ("portal", "is not a URL"),
            ("http://id.example.org", "must be https"),
            ("http://127.0.0.1.example.org", "must be https"),
            ("http://192.0.2.1", "must be https"),
            ("ftp://127.0.0.1", "must be https"),
            ("file:///etc/keys.json", "must be https"),
            ("http://me@localhost", "no user"),
            ("http://localhost/?a=b", "query"),
            ("http://localhost/#a", "fragment"),
        ] {
            let fault = discovery(wrong).unwrap_err().to_string();
            assert!(fault.contains(why) && fault.contains("https://id.example.org"), "{wrong}: {fault}");
        }
    }

    #[test]
    fn the_configuration_is_below_the_issuer() {
        for issuer in ["http://localhost/realms/hpc", "http://localhost/realms/hpc/"] {
            let expected = "http://localhost/realms/hpc/.well-known/openid-configuration";
            assert_eq!(discovery(issuer).unwrap().document, expected);
        }
    }

    #[test]
    fn keys_are_fetched_from_where_they_cannot_be_replaced_on_the_way() {
        let url = |discovery: &Discovery, keys: &str| {
            let said = serde_json::json!({"issuer": discovery.issuer, "jwks_uri": keys});
            discovery.keys_url(&discovery.configuration(said.to_string().as_bytes())?)
        };
        let local = discovery("http://localhost:81").unwrap();
        assert_eq!(url(&local, "http://127.0.0.1:82/keys?a=b").unwrap(), "http://127.0.0.1:82/keys?a=b");
        let remote = Discovery { is_https: true, ..discovery("http://localhost:81").unwrap() };
        assert_eq!(url(&remote, "https://keys.example.org/").unwrap(), "https://keys.example.org/");
        for (discovery, wrong) in [
            (&local, "http://keys.example.org/"),
            (&local, "file:///etc/passwd"),
            (&remote, "http://keys.example.org/"),
            (&remote, "http://127.0.0.1/keys"),
            (&remote, "https://a:b@keys.example.org/"),
            (&remote, "/keys"),
            (&remote, ""),
        ] {
            assert!(matches!(url(discovery, wrong), Err(ProviderFault::BadKeysUrl { .. })), "{wrong}");
        }
    }

    #[test]
    fn users_sign_in_only_where_nobody_can_listen() {
        let remote = Discovery { is_https: true, ..discovery("http://localhost:81").unwrap() };
        let endpoints = |authorization: &str, token: &str, methods: &[&str]| {
            let said = serde_json::json!({"issuer": "http://localhost:81", "jwks_uri": "https://id/keys",
                "authorization_endpoint": authorization, "token_endpoint": token,
                "token_endpoint_auth_methods_supported": methods});
            remote.endpoints(&remote.configuration(said.to_string().as_bytes()).unwrap())
        };
        let (here, there) = ("https://id.example.org/authorize", "https://id.example.org/token");
        assert!(!endpoints(here, there, &[]).unwrap().secret_in_form);
        assert!(endpoints(here, there, &["client_secret_post"]).unwrap().secret_in_form);
        assert!(
            !endpoints(here, there, &["client_secret_post", "client_secret_basic"]).unwrap().secret_in_form
        );
        assert_eq!(endpoints("http://id.example.org/authorize", there, &[]), None);
        assert_eq!(endpoints(here, "http://id.example.org/token", &[]), None);
    }

    #[test]
    fn the_configuration_of_another_issuer_is_refused() {
        let local = discovery("http://localhost:81").unwrap();
        for other in ["http://localhost:81/", "http://LOCALHOST:81", "http://localhost:82", ""] {
            let said = serde_json::json!({"issuer": other, "jwks_uri": "http://localhost:81/keys"});
            let fault = local.configuration(said.to_string().as_bytes()).err().unwrap();
            assert!(matches!(fault, ProviderFault::OtherIssuer { .. }), "{other}: {fault}");
        }
        for no_configuration in ["", "[]", "{}", "<html>", "{\"issuer\": \"http://localhost:81\"}"] {
            let fault = local.configuration(no_configuration.as_bytes()).err().unwrap();
            assert!(matches!(fault, ProviderFault::NotAConfiguration { .. }), "{no_configuration}: {fault}");
        }
    }
}
