//! Jobs that wait for their go-ahead or their release.

use super::own_cell::{OwnCell, SLOTS, place};
use crate::claiming::{GO_WITHIN, one_goes_and_one_does_not, one_is_released_and_its_double_never_runs};
use bookahead_lrms::Batch;
use bookahead_lrms::batch::{Accounts, JobSystem, Settings};
use bookahead_plan::Capacity;

fn batch(cell: &OwnCell) -> Batch {
    let accounts = Accounts::Service("root".into());
    let settings = Settings::new("uni".into(), vec![(place("all.q"), Capacity(SLOTS))], accounts);
    Batch::new(Box::new(cell.engine()), Settings { go_within: GO_WITHIN, ..settings }).unwrap()
}

#[test]
fn a_job_that_claims_runs_once_after_its_go_and_not_without_one() {
    let cell = OwnCell::start();
    one_goes_and_one_does_not(&|| batch(&cell), &cell.path(""));
    let refused = cell.engine().go("4711").unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
}

#[test]
fn a_job_on_hold_runs_after_its_release_and_a_second_one_never() {
    let cell = OwnCell::start();
    one_is_released_and_its_double_never_runs(&|| batch(&cell), &cell.path(""));
    let refused = cell.engine().release("4711").unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
}
