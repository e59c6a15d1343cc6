//! What stands in the address of a request: the id in its path, and the filters after the question mark.

use super::Shared;
use super::check::Checked;
use super::problem::Refusal;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

/// The identity in the path.
pub(super) struct Id<T>(pub(super) T);

/// The filters.
pub(super) struct Filters<T>(pub(super) T);

impl<T: FromStr<Err: Display>, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id<T>, Refusal> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
        identity(&text).map(Id)
    }
}

/// Reads an identity. A sign, which numbers may have, has no place in one.
pub(super) fn identity<T: FromStr<Err: Display>>(text: &str) -> Result<T, Refusal> {
    if text.contains('+') {
        return Err(Refusal::bad_request(format!("{text:?} has a sign that no identity has")));
    }
    text.parse().map_err(|why: T::Err| Refusal::bad_request(why.to_string()))
}

impl<T: DeserializeOwned + Checked> FromRequestParts<Arc<Shared>> for Filters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Filters<T>, Refusal> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        let Query(filters) = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
        filters.check(&shared.limits)?;
        Ok(Filters(filters))
    }
}
