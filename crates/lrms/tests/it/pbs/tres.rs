//! GPUs and memory by number.

use super::{commands, pbs, place, shown, wanted};
use crate::scripted::{Scripted, refusal};
use bookahead_lrms::batch::{BatchSystem, Handle, Picture, ReservationSystem, Unit, Wanted};
use bookahead_protocol::Tres;

const CONFIRMED: &str = "R9.pbs1 CONFIRMED\n";

fn tres(amounts: &[(&str, u32)]) -> Tres {
    amounts.iter().copied().collect()
}

fn with(wanted: Wanted, amounts: &[(&str, u32)]) -> Wanted {
    Wanted { tres: tres(amounts), ..wanted }
}

/// The vnodes of the fixture, with four GPUs on n1 and n2.
fn with_gpus() -> (Scripted, Picture) {
    let commands = commands();
    let vnodes = include_str!("fixtures/pbsnodes.dsv");
    let has = |line: &str| line.starts_with("Name=n1|") || line.starts_with("Name=n2|");
    let gpus = |line: &str| {
        let more = if has(line) { "|resources_available.ngpus=4" } else { "" };
        format!("{line}{more}\n")
    };
    commands.prints("pbsnodes", 0, &vnodes.lines().map(gpus).collect::<String>());
    let picture = pbs(&commands).look().unwrap();
    (commands, picture)
}

fn granted(select: &str, nodes: &str) -> String {
    shown("11:33:20", "11:35:00", select, "free", nodes)
}

#[test]
fn vnodes_reservations_and_jobs_are_read_with_their_gpus_and_memory() {
    let (commands, picture) = with_gpus();
    assert_eq!(picture.tres.nodes["n1"].of(&"ngpus".into()).0, 4);
    assert!(picture.tres.nodes["n1"].of(&"mem".into()).0 > 0, "{:?}", picture.tres.nodes["n1"]);
    commands.prints(
        "pbs_rstat",
        0,
        &granted("2:ncpus=1:ngpus=1", "(n1:ncpus=1:ngpus=1)+(n2:ncpus=1:ngpus=1:mem=1048576kb)"),
    );
    let job = "Job Id: 7.pbs1|Job_Name=x|Job_Owner=bob@pbs1|job_state=R|queue=workq|Resource_List.ncpus=1|\
               Resource_List.walltime=01:00:00|Resource_List.place=pack|stime=Mon Nov 16 11:00:00 2026|\
               exec_vnode=(n1:ncpus=1:ngpus=2:mem=2gb)\n";
    commands.prints("qstat", 0, job);
    let seen = pbs(&commands).look().unwrap();
    assert_eq!(seen.tres.reserved[&Handle("R9.pbs1".into())], tres(&[("mem", 1_024), ("ngpus", 2)]));
    let [job] = seen.tres.jobs.as_slice() else { panic!("{:?}", seen.tres.jobs) };
    assert_eq!(job.tres, tres(&[("mem", 2_048), ("ngpus", 2)]));
    assert_eq!(job.ends.map(|end| end.0), Some(1_794_830_400));
}

#[test]
fn amounts_are_divided_into_equal_chunks_and_read_back() {
    let (commands, picture) = with_gpus();
    commands.prints("pbs_rsub", 0, CONFIRMED);
    let nodes = "(n1:ncpus=2:mem=524288kb:ngpus=1)+(n2:ncpus=2:mem=524288kb:ngpus=1)";
    commands.prints("pbs_rstat", 0, &granted("2:ncpus=2:mem=512mb:ngpus=1", nodes));
    let two = with(wanted(4), &[("ngpus", 2), ("mem", 1_024)]);
    pbs(&commands).create(&two, &picture).unwrap();
    let asked = commands.calls_of("pbs_rsub").remove(0);
    assert!(asked.contains("|-l|select=2:ncpus=2:mem=512mb:ngpus=1|-l|place=free|"), "{asked}");
    assert!(commands.calls_of("pbs_rdel").is_empty());
    // The same once more changes nothing; other amounts need a new one.
    let handle = Handle("R9.pbs1".into());
    assert!(pbs(&commands).change(&handle, &two, &picture).unwrap().is_some());
    assert_eq!(pbs(&commands).change(&handle, &with(wanted(4), &[("ngpus", 4)]), &picture).unwrap(), None);
    assert!(commands.calls_of("pbs_ralter").is_empty());
}

#[test]
fn whole_vnodes_have_at_least_their_share() {
    let (commands, picture) = with_gpus();
    commands.prints("pbs_rsub", 0, "R9.pbs1 DENIED\n");
    commands.prints("pbs_rstat", 0, "");
    let three = with(Wanted { place: place(Unit::Nodes), ..wanted(2) }, &[("ngpus", 3)]);
    refusal(pbs(&commands).create(&three, &picture));
    let asked = commands.calls_of("pbs_rsub").remove(0);
    assert!(asked.contains(":ngpus=2|-l|place="), "{asked}");
}

#[test]
fn a_grant_without_the_gpus_is_deleted_and_a_name_of_slurm_is_refused() {
    let (commands, picture) = with_gpus();
    commands.prints("pbs_rsub", 0, CONFIRMED);
    commands.prints("pbs_rstat", 0, &granted("2:ncpus=2", "(n1:ncpus=2)+(n2:ncpus=2)"));
    let said = refusal(pbs(&commands).create(&with(wanted(4), &[("ngpus", 2)]), &picture));
    assert!(said.contains("it has 0 of ngpus instead of 2"), "{said}");
    assert_eq!(commands.calls_of("pbs_rdel"), ["pbs_rdel|R9.pbs1"]);
    let said = refusal(pbs(&commands).create(&with(wanted(4), &[("gres/gpu", 2)]), &picture));
    assert!(said.contains("not the name of a PBS resource"), "{said}");
}
