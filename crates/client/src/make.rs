//! Unique ids and keys: 128 random bits. The client makes them before it sends, so that it can repeat a call whose
//! answer was lost.

use crate::error::ClientError;
use bookahead_protocol::{JobId, Key, ReservationId};
use ring::rand::{SecureRandom, SystemRandom};

/// Id of a new reservation.
pub fn reservation_id() -> Result<ReservationId, ClientError> {
    random().map(ReservationId)
}

/// Id of a new job.
pub fn job_id() -> Result<JobId, ClientError> {
    random().map(JobId)
}

/// Idempotency key of a new call.
pub fn key() -> Result<Key, ClientError> {
    random().map(Key)
}

pub(crate) fn random() -> Result<u128, ClientError> {
    // Not from a seeded generator: clients that start at the same moment must not make equal ids.
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| ClientError::NoRandomness)?;
    Ok(u128::from_be_bytes(bytes))
}
