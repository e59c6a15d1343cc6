//! How identities and names are described in OpenAPI. The values themselves are those of the protocol
//! ([`bookahead_protocol::ids`]); the types here are only descriptions and are never made.

use utoipa::ToSchema;

/// The identity of a reservation: `rsv_` and up to 32 hexadecimal digits. The requester makes it, so that it can ask again
/// for the same.
#[derive(ToSchema)]
#[schema(as = ReservationId, pattern = "^rsv_[0-9a-fA-F]{1,32}$", example = "rsv_4f3c2b1a")]
pub struct ReservationIdText(#[allow(dead_code, reason = "only a description")] String);

/// The identity of a job: `job_` and up to 32 hexadecimal digits.
#[derive(ToSchema)]
#[schema(as = JobId, pattern = "^job_[0-9a-fA-F]{1,32}$", example = "job_9d8e7f")]
pub struct JobIdText(#[allow(dead_code, reason = "only a description")] String);

/// A name that somebody gave to a site, a resource, a kind of resource, a user or an attribute; without control characters.
#[derive(ToSchema)]
#[schema(
    as = Name, min_length = 1, max_length = 255, pattern = r"^[^\u0000-\u001F\u007F-\u009F]*$", example = "north"
)]
pub struct NameText(#[allow(dead_code, reason = "only a description")] String);
