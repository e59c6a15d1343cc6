//! What Slurm's words for the state of a job mean. (They are listed in the manual page of `squeue`, "JOB STATE CODES" and
//! "JOB REASON CODES".)

use super::json::{Exit, Words};
use crate::batch::FactState;

/// For these a job would wait however much room there were.
const HELD_FOR: [&str; 19] = [
    "JobHeldUser",
    "JobHeldAdmin",
    "Dependency",
    "DependencyNeverSatisfied",
    "BeginTime",
    "JobHoldMaxRequeue",
    "JobArrayTaskLimit",
    "BadConstraints",
    "PartitionConfig",
    "PartitionDown",
    "PartitionInactive",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "AccountNotAllowed",
    "QOSNotAllowed",
    "InvalidAccount",
    "InvalidQOS",
    "DeadLine",
    "Cleaning",
];

/// States that a job never leaves. Later versions say more words beside them.
const OVER: [&str; 10] = [
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REVOKED",
];

/// How it stands with a job.
pub(super) fn state(states: &Words, reason: &str, description: &str, held: bool, exit: Exit) -> FactState {
    let is = |word: &str| states.has(word);
    let any = |words: &[&str]| words.iter().any(|word| is(word));
    // Of a job that ends just now, later versions say how it ends as well; it still has its nodes.
    if any(&[
        "RUNNING",
        "COMPLETING",
        "CONFIGURING",
        "SUSPENDED",
        "STOPPED",
        "SIGNALING",
        "STAGE_OUT",
        "RESIZING",
    ]) {
        return FactState::Running;
    }
    if any(&OVER) {
        return over(states, reason, exit);
    }
    if is("RESV_DEL_HOLD") || reason == "ReservationDeleted" {
        let why = if description.is_empty() { "its reservation is gone" } else { description };
        return FactState::Held { why: why.into(), orphaned: true };
    }
    if any(&["REQUEUE_HOLD", "SPECIAL_EXIT"]) {
        return FactState::Held { why: "it is held after it was put back".into(), orphaned: false };
    }
    if any(&["PENDING", "REQUEUED", "REQUEUE_FED"]) {
        let held = held || HELD_FOR.contains(&reason);
        let why = if reason.is_empty() || reason == "None" { "it is held" } else { reason };
        return if held { FactState::Held { why: why.into(), orphaned: false } } else { FactState::Waiting };
    }
    over(states, reason, exit)
}

/// How it stands with a job that is over.
fn over(states: &Words, reason: &str, exit: Exit) -> FactState {
    let any = |words: &[&str]| words.iter().any(|word| states.has(word));
    let failed = |why: &str| FactState::Failed { why: why.into() };
    match () {
        () if any(&["CANCELLED", "REVOKED"]) => FactState::Cancelled,
        () if any(&["TIMEOUT", "DEADLINE"]) => FactState::OutOfTime,
        () if any(&["COMPLETED"]) => FactState::Done { exit: 0 },
        () if any(&["NODE_FAIL"]) => failed("its node failed"),
        () if any(&["BOOT_FAIL"]) => failed("its node did not boot"),
        () if any(&["PREEMPTED"]) => failed("another job took its place"),
        () if any(&["OUT_OF_MEMORY"]) => failed("it needed more memory than it had"),
        () if any(&["LAUNCH_FAILED", "RECONFIG_FAIL"]) => failed("it could not be started"),
        () if any(&["FAILED"]) && exit.0 != 0 => FactState::Done { exit: exit.0 },
        () => FactState::Failed { why: format!("{} ({reason})", states.0.join("+")) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str], reason: &str, exit: i32) -> FactState {
        let states = Words(words.iter().map(|word| (*word).to_owned()).collect());
        state(&states, reason, "", false, Exit(exit))
    }

    #[test]
    fn a_job_that_ends_just_now_still_has_its_nodes() {
        assert_eq!(of(&["COMPLETING"], "None", 0), FactState::Running);
        assert_eq!(of(&["CANCELLED", "COMPLETING"], "None", 0), FactState::Running);
    }

    #[test]
    fn a_job_that_was_cancelled_while_it_was_orphaned_is_over() {
        assert_eq!(of(&["CANCELLED", "RESV_DEL_HOLD"], "ReservationDeleted", 0), FactState::Cancelled);
    }

    #[test]
    fn only_what_room_would_help_waits() {
        for reason in
            ["Priority", "Resources", "None", "", "Reservation", "QOSMaxCpuPerUserLimit", "ReqNodeNotAvail"]
        {
            assert_eq!(of(&["PENDING"], reason, 0), FactState::Waiting, "{reason}");
        }
        for reason in HELD_FOR {
            assert_eq!(of(&["PENDING"], reason, 0), FactState::Held { why: reason.into(), orphaned: false });
        }
    }

    #[test]
    fn a_job_whose_reservation_is_gone_is_orphaned() {
        for (state, reason) in [("RESV_DEL_HOLD", "None"), ("PENDING", "ReservationDeleted")] {
            assert!(matches!(of(&[state], reason, 0), FactState::Held { orphaned: true, .. }));
        }
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(of(&["COMPLETED"], "None", 0), FactState::Done { exit: 0 });
        assert_eq!(of(&["FAILED"], "NonZeroExitCode", 3), FactState::Done { exit: 3 });
        assert_eq!(of(&["FAILED"], "RaisedSignal", 137), FactState::Done { exit: 137 });
        assert_eq!(of(&["TIMEOUT"], "TimeLimit", 15), FactState::OutOfTime);
        assert_eq!(of(&["CANCELLED"], "None", 15), FactState::Cancelled);
        for word in [
            "NODE_FAIL",
            "BOOT_FAIL",
            "PREEMPTED",
            "OUT_OF_MEMORY",
            "LAUNCH_FAILED",
            "SOMETHING_NEW",
            "FAILED",
        ] {
            assert!(matches!(of(&[word], "None", 0), FactState::Failed { .. }), "{word}");
        }
    }
}
