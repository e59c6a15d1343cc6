//! Jobs that wait for their go-ahead or their release.

use super::{Site, cores, dialect, plain};
use crate::claiming::{GO_WITHIN, one_goes_and_one_does_not, one_is_released_and_its_double_never_runs};
use bookahead_lrms::Batch;
use bookahead_lrms::batch::{Accounts, JobSystem, Settings};
use bookahead_plan::Capacity;

fn batch(site: &Site) -> Batch {
    let accounts = Accounts::Service(site.account());
    let settings = Settings::new("uni".into(), vec![(cores(), Capacity(8))], accounts);
    let slurm = dialect(&site.cluster, vec![cores()], None);
    Batch::new(Box::new(slurm), Settings { go_within: GO_WITHIN, ..settings }).unwrap()
}

#[test]
fn a_job_that_claims_runs_once_after_its_go_and_not_without_one() {
    let site = plain(&cores());
    one_goes_and_one_does_not(&|| batch(&site), site.cluster.folder());
    let refused = site.slurm.go("4711").unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
}

#[test]
fn a_job_on_hold_runs_after_its_release_and_a_second_one_never() {
    let site = plain(&cores());
    one_is_released_and_its_double_never_runs(&|| batch(&site), site.cluster.folder());
    let refused = site.slurm.release("4711").unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
}
