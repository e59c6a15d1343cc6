//! Documents to and from servers other than Bookahead's, such as webhooks and identity providers.

use crate::client::http;
use crate::error::ClientError;
use crate::message::{Reply, value_of};
use crate::options::Options;
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Url};
use std::time::Duration;

/// Posts JSON documents. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Poster(reqwest::Client);

impl Poster {
    /// For URLs with this prefix. Reads certificates; does not connect yet.
    pub fn new(url: &str, options: &Options) -> Result<Poster, ClientError> {
        http(url, options).map(Poster)
    }

    /// Posts a JSON document once and returns the HTTP status. The body of the answer is not read.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: String,
        within: Duration,
    ) -> Result<u16, ClientError> {
        let mut all = HeaderMap::new();
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            all.insert(HeaderName::from_static(name), value_of(name, value)?);
        }
        let request = self.0.post(url).headers(all).body(body).timeout(within);
        let response = request.send().await.map_err(|why| ClientError::of_failure(url, within, &why))?;
        // The body is dropped unread: its size is up to a receiver that the service does not trust.
        Ok(response.status().as_u16())
    }
}

/// Gets documents and posts forms, within [`Options::timeout`] and up to [`Options::most_bytes`] each. Does not follow redirects.
#[derive(Debug, Clone)]
pub struct Getter {
    http: reqwest::Client,
    within: Duration,
    most_bytes: usize,
}

/// Answer of a server, with any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// HTTP status.
    pub status: u16,
    /// Body, at most [`Options::most_bytes`] long.
    pub body: Vec<u8>,
    /// `max-age` of `Cache-Control`; the smallest if there are several.
    pub max_age: Option<Duration>,
}

impl Getter {
    /// For URLs with this prefix. Reads certificates; does not connect yet.
    pub fn new(url: &str, options: &Options) -> Result<Getter, ClientError> {
        let (within, most_bytes) = (options.timeout, options.most_bytes);
        Ok(Getter { http: http(url, options)?, within, most_bytes })
    }

    /// Gets a document with one attempt.
    pub async fn get(&self, url: &str) -> Result<Document, ClientError> {
        self.send(url, self.http.get(url)).await
    }

    /// Posts a form with one attempt. `basic` is a user name and password (RFC 7617), both already form-encoded.
    pub async fn post_form(
        &self,
        url: &str,
        form: String,
        basic: Option<(&str, &str)>,
    ) -> Result<Document, ClientError> {
        let request =
            self.http.post(url).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
        let request = match basic {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        };
        self.send(url, request).await
    }

    async fn send(&self, url: &str, request: RequestBuilder) -> Result<Document, ClientError> {
        let request = request.header(ACCEPT, "application/json").timeout(self.within);
        let response = request.send().await.map_err(|why| ClientError::of_failure(url, self.within, &why))?;
        let values = response.headers().get_all(CACHE_CONTROL);
        // The smallest is the safe one: a document fetched too early costs a call, but one kept for too long
        // may contain a key that was revoked since.
        let max_age = values.iter().filter_map(|value| max_age(value.to_str().ok()?)).min();
        let Reply { status, body, .. } = Reply::read(response, self.within, self.most_bytes).await?;
        Ok(Document { status, body, max_age })
    }
}

/// Names and values as a form (`application/x-www-form-urlencoded`).
pub fn form(pairs: &[(&str, &str)]) -> String {
    // The query of a URL has the same encoding.
    let url = Url::parse_with_params("form:", pairs).ok();
    url.and_then(|url| url.query().map(str::to_owned)).unwrap_or_default()
}

fn max_age(text: &str) -> Option<Duration> {
    let directives = text.split(',').filter_map(|directive| directive.trim().split_once('='));
    let seconds = directives.filter(|(name, _)| name.eq_ignore_ascii_case("max-age")).map(|(_, value)| value);
    // RFC 9111 (5.2) asks recipients to accept the quoted form of an argument too.
    seconds.filter_map(|value| value.trim_matches('"').parse().ok()).map(Duration::from_secs).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_escapes_what_would_end_a_value() {
        let form = form(&[("a", "b c&d=é"), ("e", "")]);
        assert_eq!(form, "a=b+c%26d%3D%C3%A9&e=");
    }

    #[test]
    fn the_age_of_a_document_is_found_among_other_directives() {
        for (text, seconds) in [
            ("max-age=300", Some(300)),
            ("public, Max-Age=\"60\", must-revalidate", Some(60)),
            ("max-age=300, max-age=20", Some(20)),
            ("s-maxage=5, no-cache", None),
            ("max-age=-1", None),
            ("max-age=soon", None),
            ("max-age", None),
            ("", None),
        ] {
            assert_eq!(max_age(text), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
