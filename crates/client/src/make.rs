//! Identities and keys that nobody else makes: 128 random bits. The one who asks makes them before it sends, so that it
//! can ask again for the same.

use crate::error::ClientError;
use bookahead_protocol::{JobId, Key, ReservationId};
use ring::rand::{SecureRandom, SystemRandom};

/// A reservation that there is not yet.
pub fn reservation_id() -> Result<ReservationId, ClientError> {
    random().map(ReservationId)
}

/// A job that there is not yet.
pub fn job_id() -> Result<JobId, ClientError> {
    random().map(JobId)
}

/// The key of a call that was not made yet.
pub fn key() -> Result<Key, ClientError> {
    random().map(Key)
}

pub(crate) fn random() -> Result<u128, ClientError> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| ClientError::NoRandomness)?;
    Ok(u128::from_be_bytes(bytes))
}
