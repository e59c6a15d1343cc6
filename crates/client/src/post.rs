//! Posts documents to servers other than Bookahead's, such as webhooks.

use crate::client::http;
use crate::error::ClientError;
use crate::message::value_of;
use crate::options::Options;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
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
