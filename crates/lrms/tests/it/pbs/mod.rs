//! PBS, driven as a site drives it, against commands that print what the manual pages pbs_rsub(1B), pbs_rstat(1B), pbs_ralter(1B),
//! qstat(1B) and pbsnodes(8B) and the PBS Professional Reference Guide describe. No PBS was there to try it with.

mod booking;
mod fake;
mod jobs;
mod picture;

use bookahead_lrms::LrmsError;

/// What a refusal says.
fn refusal<T: std::fmt::Debug>(result: Result<T, LrmsError>) -> String {
    match result.unwrap_err() {
        LrmsError::Refused { said, .. } => said,
        other => panic!("refused otherwise: {other:?}"),
    }
}
