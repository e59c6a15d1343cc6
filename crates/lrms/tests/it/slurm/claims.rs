//! Jobs that wait for their go-ahead.

use super::{cores, dialect, plain};
use crate::claiming::{GO_WITHIN, one_goes_and_one_does_not};
use bookahead_lrms::Batch;
use bookahead_lrms::batch::{Accounts, JobSystem, Settings};
use bookahead_plan::Capacity;

#[test]
fn a_job_that_claims_runs_once_after_its_go_and_not_without_one() {
    let site = plain(&cores());
    let batch = || {
        let accounts = Accounts::Service(site.account());
        let settings = Settings::new("uni".into(), vec![(cores(), Capacity(8))], accounts);
        let slurm = dialect(&site.cluster, vec![cores()], None);
        Batch::new(Box::new(slurm), Settings { go_within: GO_WITHIN, ..settings }).unwrap()
    };
    one_goes_and_one_does_not(&batch, site.cluster.folder());
    let refused = site.slurm.go("4711").unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
}
