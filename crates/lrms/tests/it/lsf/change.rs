//! Changing reservations in place.

use super::{HEAD, WINDOW, at, commands, handle, listed, lsf, picture, wanted};
use crate::scripted::Scripted;
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{Handle, ReservationSystem, Wanted};
use bookahead_plan::{Interval, Time};

const MODIFIED: &str = "Reservation \"ba_77_0\" is modified\n";
const LONGER: &str = "2026/11/15/2/0-2026/11/15/4/0";

fn until(hour: i64) -> Wanted {
    Wanted { interval: Interval::new(at(2, 0), at(hour, 0)), ..wanted(12) }
}

/// The list before the change, and after each further look.
fn lists(commands: &Scripted, lists: &[String]) {
    for list in lists {
        commands.says("brsvs", list);
    }
}

fn twelve(window: &str) -> String {
    listed(&[("node1", 8), ("node2", 4)], window)
}

fn change(commands: &Scripted, wanted: &Wanted) -> Result<Option<Handle>, LrmsError> {
    let mut picture = picture();
    let there = bookahead_lrms::batch::Reserved {
        handle: handle(),
        name: "ba_77_0".into(),
        interval: Interval::new(at(2, 0), at(3, 0)),
        cores: [("node1".to_owned(), 8), ("node2".to_owned(), 4)].into(),
        spread: true,
        accounts: vec!["ann".into()],
        maintenance: false,
    };
    picture.reservations.push(there);
    lsf(commands).change(&handle(), wanted, &picture).map(|changed| changed.map(|changed| changed.handle))
}

#[test]
fn times_are_changed_in_place_and_read_back() {
    let commands = commands();
    lists(&commands, &[twelve(WINDOW), twelve(LONGER)]);
    commands.says("brsvmod", MODIFIED);
    assert_eq!(change(&commands, &until(4)).unwrap(), Some(handle()));
    assert_eq!(commands.calls_of("brsvmod"), ["brsvmod|-b|2026:11:15:2:0|-e|2026:11:15:4:0|ba_77_0"]);
}

#[test]
fn nothing_to_change_is_no_command() {
    let commands = commands();
    lists(&commands, &[twelve(WINDOW)]);
    assert_eq!(change(&commands, &wanted(12)).unwrap(), Some(handle()));
    assert!(commands.calls_of("brsvmod").is_empty());
}

#[test]
fn of_one_that_has_begun_only_the_end_moves() {
    let commands = Scripted::new(&["date", "brsvs", "brsvmod"]);
    commands.says("date", &at(2, 30).to_string());
    lists(&commands, &[twelve(WINDOW), twelve(LONGER)]);
    commands.says("brsvmod", MODIFIED);
    assert_eq!(change(&commands, &until(4)).unwrap(), Some(handle()));
    assert_eq!(commands.calls_of("brsvmod"), ["brsvmod|-e|2026:11:15:4:0|ba_77_0"]);
    let later = Wanted { interval: Interval::new(at(2, 40), at(4, 0)), ..wanted(12) };
    assert_eq!(change(&commands, &later).unwrap(), None);
}

#[test]
fn a_refused_change_leaves_everything_as_it_was() {
    let commands = commands();
    lists(&commands, &[twelve(WINDOW)]);
    commands.refuses("brsvmod", "Time window conflicts with another reservation");
    let refused = change(&commands, &until(4)).unwrap_err();
    assert!(
        matches!(refused, LrmsError::Refused { .. }) && refused.to_string().contains("conflicts"),
        "{refused}"
    );
    assert_eq!(commands.calls_of("brsvmod").len(), 1);
}

#[test]
fn a_change_that_came_out_otherwise_is_put_back() {
    let commands = commands();
    let other = twelve("2026/11/15/2/0-2026/11/15/3/30");
    lists(&commands, &[twelve(WINDOW), other.clone(), other, twelve(WINDOW)]);
    commands.says("brsvmod", MODIFIED);
    let refused = change(&commands, &until(4)).unwrap_err();
    assert!(
        matches!(refused, LrmsError::Refused { .. })
            && refused.to_string().contains("the old terms were restored"),
        "{refused}"
    );
    assert_eq!(commands.calls_of("brsvmod")[1], "brsvmod|-b|2026:11:15:2:0|-e|2026:11:15:3:0|ba_77_0");
}

#[test]
fn a_change_that_cannot_be_put_back_is_no_refusal() {
    let commands = commands();
    lists(&commands, &[twelve(WINDOW), twelve("2026/11/15/2/0-2026/11/15/3/30")]);
    commands.says("brsvmod", MODIFIED);
    assert!(matches!(change(&commands, &until(4)), Err(LrmsError::Failed { .. })));
}

#[test]
fn more_slots_are_added_and_fewer_taken_away() {
    let commands = commands();
    let more = listed(&[("node1", 8), ("node2", 4), ("node3", 8), ("node4", 1)], WINDOW);
    lists(&commands, &[twelve(WINDOW), more]);
    commands.says("brsvmod", MODIFIED);
    assert_eq!(change(&commands, &wanted(21)).unwrap(), Some(handle()));
    let added = ["brsvmod|addhost|-n|8|-m|node3|ba_77_0", "brsvmod|addhost|-n|1|-m|node4|ba_77_0"];
    assert_eq!(commands.calls_of("brsvmod"), added);
    let commands = super::commands();
    lists(&commands, &[twelve(WINDOW), listed(&[("node1", 7)], WINDOW)]);
    commands.says("brsvmod", MODIFIED);
    assert_eq!(change(&commands, &wanted(7)).unwrap(), Some(handle()));
    let taken = ["brsvmod|rmhost|-n|4|-m|node2|ba_77_0", "brsvmod|rmhost|-n|1|-m|node1|ba_77_0"];
    assert_eq!(commands.calls_of("brsvmod"), taken);
}

#[test]
fn hosts_that_were_added_are_taken_away_again_if_one_is_refused() {
    let commands = commands();
    lists(&commands, &[twelve(WINDOW)]);
    commands.says("brsvmod", MODIFIED);
    commands.refuses("brsvmod", "node4 is not available");
    commands.says("brsvmod", MODIFIED);
    let refused = change(&commands, &wanted(21)).unwrap_err();
    assert!(
        matches!(refused, LrmsError::Refused { .. })
            && refused.to_string().contains("node4 is not available")
    );
    assert_eq!(commands.calls_of("brsvmod")[2], "brsvmod|rmhost|-n|8|-m|node3|ba_77_0");
}

#[test]
fn what_cannot_be_changed_in_place_is_left_to_the_caller() {
    let commands = commands();
    lists(&commands, &[twelve(WINDOW)]);
    let both = Wanted { amount: 13, ..until(4) };
    let short = Wanted { interval: Interval::new(at(2, 0), Time(at(2, 5).0)), ..wanted(12) };
    let other_user = Wanted { account: "bob".into(), ..wanted(12) };
    let other_name = Wanted { name: "ba_77_1".into(), ..wanted(12) };
    let too_much = wanted(33);
    for wanted in [both, short, other_user, other_name, too_much] {
        assert_eq!(change(&commands, &wanted).unwrap(), None, "{wanted:?}");
    }
    let commands = super::commands();
    lists(&commands, &[HEAD.into()]);
    assert_eq!(change(&commands, &until(4)).unwrap(), None);
}
