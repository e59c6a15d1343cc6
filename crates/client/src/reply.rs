//! An answer, read to its end within bounds, and what it says: a document, or a problem.

use crate::error::ClientError;
use bookahead_api::Problem;
use reqwest::Response;
use reqwest::header::RETRY_AFTER;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// So much of an answer that is not understood is shown.
const SHOWN: usize = 200;

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Not before so long, if the server says so.
    pub(crate) retry_after: Option<Duration>,
}

impl Reply {
    /// Reads it. What is too long is not read: the connection is given up.
    pub(crate) async fn read(
        mut response: Response,
        within: Duration,
        most: usize,
    ) -> Result<Reply, ClientError> {
        let url = response.url().to_string();
        let (status, retry_after) = (response.status().as_u16(), retry_after(&response));
        let too_large = || ClientError::TooLarge { url: url.clone(), most };
        if response
            .content_length()
            .is_some_and(|length| usize::try_from(length).map_or(true, |length| length > most))
        {
            return Err(too_large());
        }
        let mut body = Vec::new();
        loop {
            let chunk = response.chunk().await;
            let Some(chunk) = chunk.map_err(|why| ClientError::of_failure(&url, within, &why))? else {
                break;
            };
            if body.len() + chunk.len() > most {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { url, status, body, retry_after })
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The document, if it is one; the problem, if that is what came.
    pub(crate) fn document<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        if !self.is_success() {
            return Err(self.refusal());
        }
        serde_json::from_slice(&self.body).map_err(|_| self.not_our_kind())
    }

    /// The text, if all is well.
    pub(crate) fn text(self) -> Result<String, ClientError> {
        if !self.is_success() {
            return Err(self.refusal());
        }
        String::from_utf8(self.body).map_err(|why| {
            let beginning = beginning(why.as_bytes());
            ClientError::NotOurKind { url: self.url, status: self.status, beginning }
        })
    }

    /// Of an answer that is no success.
    pub(crate) fn refusal(&self) -> ClientError {
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(problem) => ClientError::of_problem(problem),
            Err(_) => self.not_our_kind(),
        }
    }

    pub(crate) fn not_our_kind(&self) -> ClientError {
        let beginning = beginning(&self.body);
        ClientError::NotOurKind { url: self.url.clone(), status: self.status, beginning }
    }
}

/// How something begins, cut at a character.
pub(crate) fn beginning(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned()
}

/// Only seconds are read; a date is too rare to be worth a calendar.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}
