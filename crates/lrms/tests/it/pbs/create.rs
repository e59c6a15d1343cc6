//! Making, changing and deleting reservations.

use super::{commands, four_until, impatient, pbs, place, shown, wanted};
use crate::scripted::{Scripted, refusal};
use bookahead_lrms::LrmsError;
use bookahead_lrms::batch::{BatchSystem, Handle, Picture, ReservationSystem, Unit, Wanted};
use bookahead_plan::{Interval, Time};

const CONFIRMED: &str = "R9.pbs1 CONFIRMED\n";

fn handle() -> Handle {
    Handle("R9.pbs1".into())
}

fn picture(commands: &Scripted) -> Picture {
    pbs(commands).look().unwrap()
}

#[test]
fn a_confirmed_reservation_is_read_back() {
    let commands = commands();
    let picture = picture(&commands);
    commands.prints("pbs_rsub", 0, CONFIRMED);
    commands.prints("pbs_rstat", 0, &four_until("11:35:00"));
    assert_eq!(pbs(&commands).create(&wanted(4), &picture).unwrap().handle, handle());
    let asked = "pbs_rsub|-I|10|-N|ba.site.0123456789abcdef0123456789abcdef.0.ann|-R|202611151133.20|-E|202611151135.00|\
         -l|select=4:ncpus=1|-l|place=free|-m|n|-U|ann";
    assert_eq!(commands.calls_of("pbs_rsub"), [asked]);
    assert!(commands.calls_of("pbs_rstat").last().unwrap().ends_with("-F|R9.pbs1"));
    assert!(commands.calls_of("pbs_rdel").is_empty());
}

#[test]
fn a_denial_with_exit_code_zero_is_a_refusal() {
    let commands = commands();
    let picture = picture(&commands);
    commands.prints("pbs_rsub", 0, "R9.pbs1 DENIED\n");
    assert!(refusal(pbs(&commands).create(&wanted(4), &picture)).contains("denies"));
    assert!(commands.calls_of("pbs_rdel").is_empty());
    commands.prints("pbs_rsub", 159, "pbs_rsub: Unauthorized Request");
    assert!(refusal(pbs(&commands).create(&wanted(4), &picture)).contains("Unauthorized"));
}

#[test]
fn what_the_scheduler_does_not_decide_is_deleted() {
    let commands = commands();
    let picture = picture(&commands);
    commands.prints("pbs_rsub", 0, "R9.pbs1 UNCONFIRMED\n");
    commands.prints("pbs_rstat", 0, "");
    assert!(refusal(pbs(&commands).create(&wanted(4), &picture)).contains("did not decide within 10 s"));
    assert_eq!(commands.calls_of("pbs_rdel"), ["pbs_rdel|R9.pbs1"]);
}

#[test]
fn a_grant_that_is_not_what_was_wanted_is_undone_and_refused() {
    let (begin, end) = ("11:33:20", "11:35:00");
    let four = "(n1:ncpus=4)";
    let free = |begin, end, nodes| shown(begin, end, "4:ncpus=1", "free", nodes);
    let cases = [
        (free(begin, end, "(n1:ncpus=3)"), "it has 3 instead of 4"),
        (free(begin, end, "(n1:ncpus=5)"), "it has 5 instead of 4"),
        (free(begin, "11:34:00", four), "was granted instead of"),
        (free("11:33:21", end, four), "was granted instead of"),
        (free(begin, end, "(n3:ncpus=4)"), "it is on n3"),
        (free(begin, end, "(n4:ncpus=4)"), "it is on n4"),
        (free(begin, end, four).replace("ann@*", "eve@*"), "for eve instead of ann"),
        (
            free(begin, end, four).replace("abcdef.0.ann", ""),
            "it is called ba.site.0123456789abcdef0123456789 instead of",
        ),
        (free(begin, end, four).replace("RESV_CONFIRMED", "RESV_UNCONFIRMED"), "not confirmed"),
        (String::new(), "is not there"),
    ];
    for (text, expected) in cases {
        let commands = commands();
        let picture = picture(&commands);
        commands.prints("pbs_rsub", 0, CONFIRMED);
        commands.prints_in_turn("pbs_rstat", &[(0, &text), (0, "")]);
        let told = refusal(pbs(&commands).create(&wanted(4), &picture));
        assert!(told.contains(expected), "{told}");
        assert_eq!(commands.calls_of("pbs_rdel"), ["pbs_rdel|R9.pbs1"], "{expected}");
    }
}

#[test]
fn what_cannot_be_read_back_is_undone() {
    let commands = commands();
    let picture = picture(&commands);
    commands.prints("pbs_rsub", 0, CONFIRMED);
    commands.prints_in_turn("pbs_rstat", &[(0, "garbage\n"), (0, "")]);
    let error = pbs(&commands).create(&wanted(4), &picture).unwrap_err();
    assert!(matches!(error, LrmsError::Unreadable { .. }), "{error:?}");
    assert_eq!(commands.calls_of("pbs_rdel"), ["pbs_rdel|R9.pbs1"]);
    for garbage in ["", "CONFIRMED", "R9.pbs1 PERHAPS", "oh; rm CONFIRMED", "-x CONFIRMED"] {
        commands.prints("pbs_rsub", 0, garbage);
        let error = pbs(&commands).create(&wanted(4), &picture).unwrap_err();
        assert!(matches!(error, LrmsError::Unreadable { .. }), "{garbage}: {error:?}");
    }
    commands.forget("pbs_rsub");
    commands.hangs("pbs_rsub");
    let hangs = impatient(&commands);
    assert!(matches!(hangs.create(&wanted(4), &picture), Err(LrmsError::Silent { .. })));
}

#[test]
fn what_is_to_begin_at_once_begins_a_little_later() {
    let commands = commands();
    let picture = picture(&commands);
    let now = Wanted { interval: Interval::new(Time(1_794_741_000), Time(1_794_742_500)), ..wanted(4) };
    let nodes = "(n1:ncpus=4)";
    commands.prints("pbs_rsub", 0, CONFIRMED);
    commands.prints("pbs_rstat", 0, &shown("11:26:43", "11:35:00", "4:ncpus=1", "free", nodes));
    pbs(&commands).create(&now, &picture).unwrap();
    commands.prints_in_turn("pbs_rsub", &[(238, "pbs_rsub: Bad time specification(s)"), (0, CONFIRMED)]);
    commands.prints("pbs_rstat", 0, &shown("11:26:55", "11:35:00", "4:ncpus=1", "free", nodes));
    pbs(&commands).create(&now, &picture).unwrap();
    let begins: Vec<String> =
        commands.calls_of("pbs_rsub").iter().map(|call| call.split('|').nth(6).unwrap().to_owned()).collect();
    assert_eq!(begins, ["202611151126.43", "202611151126.43", "202611151126.55"]);
    commands.prints("pbs_rsub", 238, "pbs_rsub: Bad time specification(s)");
    assert!(refusal(pbs(&commands).create(&now, &picture)).contains("clocks"));
}

#[test]
fn whole_vnodes_are_asked_for_alone_and_must_be_alone() {
    let commands = commands();
    let picture = picture(&commands);
    let two = Wanted { place: place(Unit::Nodes), ..wanted(2) };
    let nodes = "(n1:ncpus=8)+(n2:ncpus=8)";
    commands.prints("pbs_rsub", 0, CONFIRMED);
    commands.prints("pbs_rstat", 0, &shown("11:33:20", "11:35:00", "2:ncpus=8", "scatter:excl", nodes));
    pbs(&commands).create(&two, &picture).unwrap();
    assert!(commands.calls_of("pbs_rsub")[0].contains("-l|select=2:ncpus=8|-l|place=scatter:excl"));
    let shared = shown("11:33:20", "11:35:00", "2:ncpus=8", "scatter", nodes);
    commands.prints_in_turn("pbs_rstat", &[(0, &shared), (0, "")]);
    assert!(refusal(pbs(&commands).create(&two, &picture)).contains("others may use"));
}

#[test]
fn nonsense_is_refused_without_asking() {
    let commands = commands();
    let picture = picture(&commands);
    let mut nowhere = picture.clone();
    nowhere.nodes.retain(|node| !node.usable);
    let endless = Wanted { interval: Interval::new(Time(1_794_742_400), Time::MAX), ..wanted(1) };
    let cases = [
        (wanted(0), &picture, "empty"),
        (Wanted { account: "a,b".into(), ..wanted(1) }, &picture, "account"),
        (wanted(1), &nowhere, "usable"),
        (endless, &picture, "calendar"),
    ];
    for (wanted, picture, expected) in cases {
        assert!(refusal(pbs(&commands).create(&wanted, picture)).contains(expected));
    }
    assert!(commands.calls_of("pbs_rsub").is_empty());
}

fn until(end: i64, amount: u32) -> Wanted {
    Wanted { interval: Interval::new(Time(1_794_742_400), Time(end)), ..wanted(amount) }
}

#[test]
fn a_change_that_is_confirmed_keeps_the_handle() {
    let commands = commands();
    let picture = picture(&commands);
    let longer = four_until("11:36:40");
    commands.prints_in_turn("pbs_rstat", &[(0, &four_until("11:35:00")), (0, &longer)]);
    commands.prints("pbs_ralter", 0, "pbs_ralter: R9.pbs1 CONFIRMED\n");
    let changed = pbs(&commands).change(&handle(), &until(1_794_742_600, 4), &picture).unwrap();
    assert_eq!(changed.unwrap().handle, handle());
    assert_eq!(commands.calls_of("pbs_ralter"), ["pbs_ralter|-I|10|-E|202611151136.40|R9.pbs1"]);
    // Saying it again changes nothing.
    let again = pbs(&commands).change(&handle(), &until(1_794_742_600, 4), &picture).unwrap();
    assert_eq!(again.unwrap().handle, handle());
    assert_eq!(commands.calls_of("pbs_ralter").len(), 1);
    let fewer = shown("11:33:20", "11:36:40", "2:ncpus=1", "free", "(n1:ncpus=2)");
    commands.prints_in_turn("pbs_rstat", &[(0, &longer), (0, &fewer)]);
    assert!(pbs(&commands).change(&handle(), &until(1_794_742_600, 2), &picture).unwrap().is_some());
    assert!(commands.calls_of("pbs_ralter")[1].contains("-l|select=2:ncpus=1|R9.pbs1"));
}

#[test]
fn a_change_that_is_denied_or_comes_out_otherwise_leaves_the_old_terms() {
    let commands = commands();
    let picture = picture(&commands);
    let old = four_until("11:35:00");
    commands.prints("pbs_rstat", 0, &old);
    commands.prints("pbs_ralter", 0, "pbs_ralter: R9.pbs1 DENIED\n");
    assert!(
        refusal(pbs(&commands).change(&handle(), &until(1_794_742_600, 4), &picture))
            .contains("old terms hold")
    );
    commands.prints("pbs_ralter", 0, "pbs_ralter: R9.pbs1 CONFIRMED\n");
    commands.prints_in_turn("pbs_rstat", &[(0, &old), (0, &four_until("11:36:39"))]);
    let told = refusal(pbs(&commands).change(&handle(), &until(1_794_742_600, 4), &picture));
    assert!(told.contains("put back"), "{told}");
    assert_eq!(
        commands.calls_of("pbs_ralter").last().unwrap(),
        "pbs_ralter|-I|10|-E|202611151135.00|R9.pbs1"
    );
}

#[test]
fn what_pbs_cannot_change_is_left_to_the_caller() {
    let commands = commands();
    let mut picture = picture(&commands);
    commands.prints("pbs_rstat", 0, &four_until("11:35:00"));
    let change =
        |wanted: &Wanted, picture: &Picture| pbs(&commands).change(&handle(), wanted, picture).unwrap();
    assert_eq!(change(&until(1_794_742_500, 5), &picture), None);
    assert_eq!(change(&Wanted { account: "bob".into(), ..until(1_794_742_500, 4) }, &picture), None);
    let whole = Wanted { place: place(Unit::Nodes), ..until(1_794_742_500, 1) };
    assert_eq!(change(&whole, &picture), None);
    // It has begun, and is to begin later.
    picture.clock = Some(Time(1_794_742_410));
    let later = Wanted { interval: Interval::new(Time(1_794_742_450), Time(1_794_742_500)), ..wanted(4) };
    assert_eq!(change(&later, &picture), None);
    assert!(commands.calls_of("pbs_ralter").is_empty());
    commands.prints("pbs_rstat", 0, "");
    assert_eq!(pbs(&commands).change(&handle(), &until(1_794_742_500, 4), &picture).unwrap(), None);
}

#[test]
fn deleting_waits_for_the_end_and_what_is_gone_is_no_error() {
    let commands = commands();
    let going = four_until("11:35:00").replace("RESV_CONFIRMED", "RESV_BEING_DELETED");
    commands.prints_in_turn("pbs_rstat", &[(0, &going), (0, &going), (0, "")]);
    pbs(&commands).delete(&handle()).unwrap();
    assert_eq!(commands.calls_of("pbs_rstat").len(), 3);
    commands.prints("pbs_rdel", 236, "pbs_rdel: Unknown Reservation Id  R9.pbs1");
    pbs(&commands).delete(&handle()).unwrap();
    commands.prints("pbs_rdel", 159, "pbs_rdel: Unauthorized Request  R9.pbs1");
    assert!(refusal(pbs(&commands).delete(&handle())).contains("Unauthorized"));
    commands.prints("pbs_rdel", 3, "pbs_rdel: odd");
    assert!(matches!(pbs(&commands).delete(&handle()), Err(LrmsError::Failed { .. })));
}
