//! OpenAPI schemas of ids and names, which the derive macros do not provide.

use utoipa::ToSchema;

/// Id of a reservation: `rsv_` and up to 32 hexadecimal digits. The client makes it, so that it can repeat a
/// request whose answer was lost.
#[derive(ToSchema)]
#[schema(as = ReservationId, pattern = "^rsv_(0|[1-9a-f][0-9a-f]{0,31})$", example = "rsv_4f3c2b1a")]
pub struct ReservationIdText(#[allow(dead_code, reason = "only a description")] String);

/// Id of a prepared change: `chg_` and up to 32 hexadecimal digits. The client makes it.
#[derive(ToSchema)]
#[schema(as = ChangeId, pattern = "^chg_(0|[1-9a-f][0-9a-f]{0,31})$", example = "chg_4f3c2b1a")]
pub struct ChangeIdText(#[allow(dead_code, reason = "only a description")] String);

/// Id of a job: `job_` and up to 32 hexadecimal digits.
#[derive(ToSchema)]
#[schema(as = JobId, pattern = "^job_(0|[1-9a-f][0-9a-f]{0,31})$", example = "job_9d8e7f")]
pub struct JobIdText(#[allow(dead_code, reason = "only a description")] String);

/// Name of a site, resource, resource kind, user or attribute: visible characters and spaces. Invisible characters
/// and characters that change the text direction are refused.
#[derive(ToSchema)]
#[schema(
    as = Name, min_length = 1, max_length = 255,
    pattern = r"^[^\u0000-\u001F\u007F-\u00A0\u00AD\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF]*$", example = "north"
)]
pub struct NameText(#[allow(dead_code, reason = "only a description")] String);
