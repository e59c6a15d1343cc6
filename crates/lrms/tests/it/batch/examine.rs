//! Findings for operators.

use super::pretend::Pretend;
use super::{batch, place, settings};
use crate::at;
use bookahead_lrms::batch::{Finding, Grade, Place, Settings, Unit};
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::Clocks;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::Name;

fn about<'a>(findings: &'a [Finding], what: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.what.contains(what)).unwrap()
}

#[test]
fn a_capacity_that_is_not_there_is_wrong_and_the_right_one_is_told() {
    let pretend = Pretend::new(2, 8);
    for (unit, offered, advice) in [
        (Unit::Cores, 16, None),
        (Unit::Cores, 20, Some("set capacity = 16")),
        (Unit::Cores, 12, Some("set capacity = 16")),
        (Unit::Nodes, 16, Some("set capacity = 2")),
        (Unit::Nodes, 2, None),
    ] {
        let batch = Batch::new(Box::new(pretend.clone()), settings(unit, offered)).unwrap();
        let findings = batch.examine(at(0));
        assert_eq!(findings[0].what, "the pretended one");
        let capacity = about(&findings, "capacity of cpu");
        assert_eq!(capacity.advice.as_deref(), advice, "{capacity:?}");
        assert_eq!(capacity.grade, if advice.is_some() { Grade::Wrong } else { Grade::Well });
    }
}

#[test]
fn a_resource_without_nodes_and_one_that_shares_nodes_are_wrong() {
    let pretend = Pretend::new(2, 8);
    pretend.world().nodes[0].resources.push(Name::from("gpu"));
    pretend.world().nodes[1].usable = false;
    let of = |name: &str| (Place { resource: Name::from(name), ..place(Unit::Cores) }, Capacity(8));
    let settings = Settings { places: vec![of("cpu"), of("gpu"), of("fpga")], ..settings(Unit::Cores, 16) };
    let findings = Batch::new(Box::new(pretend.clone()), settings).unwrap().examine(at(0));
    assert_eq!(about(&findings, "capacity of fpga").seen, "no node belongs to it");
    assert_eq!(about(&findings, "cpu and gpu").grade, Grade::Wrong);
    assert_eq!(about(&findings, "nodes of cpu").seen, "1 cannot be used: n1");
}

#[test]
fn clocks_that_do_not_agree_are_noticed() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    assert_eq!(batch.seen().clocks, None);
    for (theirs, grade, words) in [
        (100, Grade::Well, "the same time"),
        (102, Grade::Well, "2 s ahead"),
        (91, Grade::Doubtful, "9 s behind"),
        (500, Grade::Wrong, "400 s ahead"),
    ] {
        pretend.world().clock = theirs;
        let findings = batch.examine(at(100));
        let clocks = about(&findings, "clocks");
        assert!(clocks.grade == grade && clocks.seen.contains(words), "{clocks:?}");
        assert_eq!(
            batch.seen().clocks,
            Some(Clocks { ours: Time(100), theirs: Time(theirs), elsewhere: false })
        );
        assert_eq!(batch.seen().clocks.unwrap().skew(), Seconds(theirs - 100));
    }
}

#[test]
fn one_that_does_not_answer_is_told_of() {
    let pretend = Pretend::new(2, 8);
    pretend.world().deaf = true;
    let findings = batch(&pretend).examine(at(0));
    let last = findings.last().unwrap();
    assert!(last.grade == Grade::Wrong && last.seen.contains("did not answer"), "{last:?}");
}

#[test]
fn two_resources_of_one_name_and_names_that_are_too_short_are_refused() {
    let pretend = Pretend::new(2, 8);
    let twice = vec![(place(Unit::Cores), Capacity(8)), (place(Unit::Nodes), Capacity(1))];
    let settings_twice = Settings { places: twice, ..settings(Unit::Cores, 16) };
    let refused = Batch::new(Box::new(pretend.clone()), settings_twice).err().unwrap();
    assert!(matches!(refused, LrmsError::SameName { .. }), "{refused}");
    pretend.world().longest_name = 15;
    let refused = Batch::new(Box::new(pretend.clone()), settings(Unit::Cores, 16)).err().unwrap();
    assert!(refused.to_string().contains("at most 15 characters"), "{refused}");
}
