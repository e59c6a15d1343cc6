//! Creating, changing and deleting reservations.

use super::{commands, four_until, impatient, pbs, place, shown, wanted};
use crate::scripted::{Scripted, refusal};
use bookahead_lrms::batch::{self, Accounts, BatchSystem, Handle, Picture, ReservationSystem, Unit, Wanted};
use bookahead_lrms::command::Runner;
use bookahead_lrms::pbs::{Pbs, Settings};
use bookahead_lrms::{Batch, LrmsError};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::{Millis, Moment};
use std::time::{Duration, Instant};

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
    let asked = "pbs_rsub|-I|10|-N|ba.site.0123456789abcdef0123456789abcdef.0.ann|-R|202611161133.20|-E|202611161135.00|\
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
    // R1 of the fixture is being deleted.
    commands.prints("pbs_rstat", 0, "");
    assert!(refusal(pbs(&commands).create(&wanted(4), &picture)).contains("denied"));
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
        (String::new(), "does not exist"),
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
    let now = Wanted { interval: Interval::new(Time(1_794_827_400), Time(1_794_828_900)), ..wanted(4) };
    let nodes = "(n1:ncpus=4)";
    commands.prints("pbs_rsub", 0, CONFIRMED);
    commands.prints("pbs_rstat", 0, &shown("11:26:43", "11:35:00", "4:ncpus=1", "free", nodes));
    pbs(&commands).create(&now, &picture).unwrap();
    commands.prints_in_turn("pbs_rsub", &[(238, "pbs_rsub: Bad time specification(s)"), (0, CONFIRMED)]);
    commands.prints("pbs_rstat", 0, &shown("11:26:55", "11:35:00", "4:ncpus=1", "free", nodes));
    pbs(&commands).create(&now, &picture).unwrap();
    let begins: Vec<String> =
        commands.calls_of("pbs_rsub").iter().map(|call| call.split('|').nth(6).unwrap().to_owned()).collect();
    assert_eq!(begins, ["202611161126.43", "202611161126.43", "202611161126.55"]);
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
    assert!(refusal(pbs(&commands).create(&two, &picture)).contains("not exclusive"));
}

#[test]
fn nonsense_is_refused_without_asking() {
    let commands = commands();
    let picture = picture(&commands);
    let mut nowhere = picture.clone();
    nowhere.nodes.retain(|node| !node.usable);
    let endless = Wanted { interval: Interval::new(Time(1_794_828_800), Time::MAX), ..wanted(1) };
    let cases = [
        (wanted(0), &picture, "is zero"),
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
    Wanted { interval: Interval::new(Time(1_794_828_800), Time(end)), ..wanted(amount) }
}

#[test]
fn a_change_that_is_confirmed_keeps_the_handle() {
    let commands = commands();
    let picture = picture(&commands);
    let longer = four_until("11:36:40");
    commands.prints_in_turn("pbs_rstat", &[(0, &four_until("11:35:00")), (0, &longer)]);
    commands.prints("pbs_ralter", 0, "pbs_ralter: R9.pbs1 CONFIRMED\n");
    let changed = pbs(&commands).change(&handle(), &until(1_794_829_000, 4), &picture).unwrap();
    assert_eq!(changed.unwrap().handle, handle());
    assert_eq!(commands.calls_of("pbs_ralter"), ["pbs_ralter|-I|10|-E|202611161136.40|R9.pbs1"]);
    // A repeated order changes nothing.
    let again = pbs(&commands).change(&handle(), &until(1_794_829_000, 4), &picture).unwrap();
    assert_eq!(again.unwrap().handle, handle());
    assert_eq!(commands.calls_of("pbs_ralter").len(), 1);
    let fewer = shown("11:33:20", "11:36:40", "2:ncpus=1", "free", "(n1:ncpus=2)");
    commands.prints_in_turn("pbs_rstat", &[(0, &longer), (0, &fewer)]);
    assert!(pbs(&commands).change(&handle(), &until(1_794_829_000, 2), &picture).unwrap().is_some());
    assert!(commands.calls_of("pbs_ralter")[1].contains("-l|select=2:ncpus=1|R9.pbs1"));
}

#[test]
fn fewer_cores_in_the_second_of_the_begin_wait_until_it_is_over() {
    let commands = commands();
    let mut picture = picture(&commands);
    commands.prints("pbs_ralter", 0, "pbs_ralter: R9.pbs1 CONFIRMED\n");
    let fewer = shown("11:33:20", "11:35:00", "2:ncpus=1", "free", "(n1:ncpus=2)");
    for (passed, at_least) in [(0, 2), (1, 1), (60, 0)] {
        picture.clock = Some(Time(1_794_828_800 + passed));
        commands.prints_in_turn("pbs_rstat", &[(0, &four_until("11:35:00")), (0, &fewer)]);
        let began = Instant::now();
        assert!(pbs(&commands).change(&handle(), &until(1_794_828_900, 2), &picture).unwrap().is_some());
        assert!(began.elapsed() >= Duration::from_secs(at_least), "{:?}", began.elapsed());
    }
    assert_eq!(commands.calls_of("pbs_ralter").len(), 3);
}

#[test]
fn a_change_that_is_denied_or_comes_out_otherwise_leaves_the_old_terms() {
    let commands = commands();
    let picture = picture(&commands);
    let old = four_until("11:35:00");
    commands.prints("pbs_rstat", 0, &old);
    commands.prints("pbs_ralter", 0, "pbs_ralter: R9.pbs1 DENIED\n");
    assert!(
        refusal(pbs(&commands).change(&handle(), &until(1_794_829_000, 4), &picture))
            .contains("old terms remain")
    );
    commands.prints("pbs_ralter", 0, "pbs_ralter: R9.pbs1 CONFIRMED\n");
    commands.prints_in_turn("pbs_rstat", &[(0, &old), (0, &four_until("11:36:39"))]);
    let told = refusal(pbs(&commands).change(&handle(), &until(1_794_829_000, 4), &picture));
    assert!(told.contains("restored"), "{told}");
    assert_eq!(
        commands.calls_of("pbs_ralter").last().unwrap(),
        "pbs_ralter|-I|10|-E|202611161135.00|R9.pbs1"
    );
}

#[test]
fn what_pbs_cannot_change_is_left_to_the_caller() {
    let commands = commands();
    let mut picture = picture(&commands);
    commands.prints("pbs_rstat", 0, &four_until("11:35:00"));
    let change =
        |wanted: &Wanted, picture: &Picture| pbs(&commands).change(&handle(), wanted, picture).unwrap();
    assert_eq!(change(&until(1_794_828_900, 5), &picture), None);
    assert_eq!(change(&Wanted { account: "bob".into(), ..until(1_794_828_900, 4) }, &picture), None);
    let whole = Wanted { place: place(Unit::Nodes), ..until(1_794_828_900, 1) };
    assert_eq!(change(&whole, &picture), None);
    // It has begun, and should begin later.
    picture.clock = Some(Time(1_794_828_810));
    let later = Wanted { interval: Interval::new(Time(1_794_828_850), Time(1_794_828_900)), ..wanted(4) };
    assert_eq!(change(&later, &picture), None);
    assert!(commands.calls_of("pbs_ralter").is_empty());
    commands.prints("pbs_rstat", 0, "");
    assert_eq!(pbs(&commands).change(&handle(), &until(1_794_828_900, 4), &picture).unwrap(), None);
}

#[test]
fn deleting_does_not_wait_for_the_cores_and_what_is_gone_is_no_error() {
    let commands = commands();
    pbs(&commands).delete(&handle()).unwrap();
    assert_eq!(commands.calls(), ["pbs_rdel|R9.pbs1"]);
    commands.prints("pbs_rdel", 236, "pbs_rdel: Unknown Reservation Id  R9.pbs1");
    pbs(&commands).delete(&handle()).unwrap();
    commands.prints("pbs_rdel", 159, "pbs_rdel: Unauthorized Request  R9.pbs1");
    assert!(refusal(pbs(&commands).delete(&handle())).contains("Unauthorized"));
    commands.prints("pbs_rdel", 3, "pbs_rdel: odd");
    assert!(matches!(pbs(&commands).delete(&handle()), Err(LrmsError::Failed { .. })));
}

#[test]
fn a_denial_says_that_cores_are_still_being_freed() {
    let commands = commands();
    let picture = picture(&commands);
    commands.prints("pbs_rsub", 0, "R10.pbs1 DENIED\n");
    commands.prints("pbs_ralter", 0, "pbs_ralter: R9.pbs1 DENIED\n");
    let leaving = four_until("11:35:00").replace("CONFIRMED", "BEING_DELETED").replace("R9", "R8");
    commands.prints("pbs_rstat", 0, &leaving);
    let told = refusal(pbs(&commands).create(&wanted(4), &picture));
    assert!(told.starts_with("cores are still being freed by R8.pbs1"), "{told}");
    commands.prints("pbs_rstat", 0, &format!("{}{leaving}", four_until("11:35:00")));
    let told = refusal(pbs(&commands).change(&handle(), &until(1_794_829_000, 4), &picture));
    assert!(told.starts_with("cores are still being freed by R8.pbs1"), "{told}");
    // A reservation that is over before does not matter.
    commands.prints("pbs_rstat", 0, &leaving.replace("11:33:20", "11:20:20").replace("11:35:00", "11:30:00"));
    assert!(refusal(pbs(&commands).create(&wanted(4), &picture)).contains("no room"));
}

#[test]
fn an_account_that_does_not_exist_gets_no_reservation() {
    let commands = commands();
    let (picture, pbs) = (picture(&commands), pbs(&commands));
    commands.prints("id", 1, "id: 'ann': no such user");
    assert!(refusal(pbs.create(&wanted(4), &picture)).contains("no account ann"));
    assert!(commands.calls_of("pbs_rsub").is_empty());
    commands.prints("id", 0, "1000\n");
    commands.prints("pbs_rsub", 0, CONFIRMED);
    commands.prints("pbs_rstat", 0, &four_until("11:35:00"));
    for _ in 0..3 {
        pbs.create(&wanted(4), &picture).unwrap();
    }
    // `id` runs only once for each account that exists.
    assert_eq!(commands.calls_of("id").len(), 2);
}

#[test]
fn vnodes_that_are_given_as_a_whole_are_not_counted_in_cores() {
    let commands = commands();
    let with = |sharing: &str, unit: Unit, amount: u32| {
        let nodes = include_str!("fixtures/pbsnodes.dsv").replace("default_shared", sharing);
        commands.prints("pbsnodes", 0, &nodes.replace("host=n2", "host=n1"));
        let mut settings = super::settings(&commands);
        settings.places = vec![place(unit)];
        let pbs = Pbs::new(commands.runner(), settings);
        let picture = pbs.look().unwrap();
        (pbs.create(&Wanted { place: place(unit), ..wanted(amount) }, &picture), picture)
    };
    commands.prints("pbs_rsub", 0, CONFIRMED);
    for sharing in ["default_excl", "force_excl", "default_exclhost", "force_exclhost"] {
        let (made, picture) = with(sharing, Unit::Cores, 1);
        assert!(
            refusal(made).contains("one core occupies all of it; count the resource in nodes"),
            "{sharing}"
        );
        // A job of two cores on n1 occupies all of it.
        let job = picture.jobs.iter().find(|job| job.native == "8.pbs1").unwrap();
        let expected = if sharing.ends_with("host") { 16 } else { 8 };
        assert_eq!(job.cores, expected, "{sharing}");
    }
    assert!(refusal(with("force_exclhost", Unit::Nodes, 1).0).contains("its whole host"));
    commands.prints(
        "pbs_rstat",
        0,
        &shown("11:33:20", "11:35:00", "1:ncpus=8", "vscatter:excl", "(n1:ncpus=8)"),
    );
    with("default_excl", Unit::Nodes, 1).0.unwrap();
    assert!(commands.calls_of("pbs_rsub")[0].contains("place=vscatter:excl"));
}

#[test]
fn a_booking_takes_two_commands_beside_looks() {
    let commands = commands();
    let now = Moment(1_794_828_400_000);
    let places = vec![(place(Unit::Cores), Capacity(20))];
    let settings = batch::Settings::new("site".into(), places, Accounts::Service("ann".into()));
    let batch = Batch::new(Box::new(pbs(&commands)), settings).unwrap();
    batch.look(now).unwrap();
    let looked = commands.calls().len();
    commands.prints("pbs_rsub", 0, CONFIRMED);
    let granted = shown("11:33:20", "11:35:00", "4:ncpus=1", "free", "(n1:ncpus=4)");
    let granted = granted.replace("0123456789abcdef0123456789abcdef", "7");
    commands.prints("pbs_rstat", 0, &granted);
    let hold = crate::backing(7, &[crate::span(1_794_828_800, 1_794_828_900, 4)]);
    batch.keep(now + Millis::seconds(1), &hold).unwrap();
    batch.keep(now + Millis::seconds(9), &hold).unwrap();
    let calls: Vec<String> = commands.calls().split_off(looked);
    let programs: Vec<&str> = calls.iter().map(|call| call.split('|').next().unwrap()).collect();
    // `id` does not belong to PBS, and runs once for each account.
    assert_eq!(programs, ["id", "pbs_rsub", "pbs_rstat"]);
    batch.keep(now + Millis::seconds(12), &crate::backing(7, &[])).unwrap();
    assert_eq!(commands.calls().split_off(looked + 3), ["pbs_rdel|R9.pbs1"]);
}

#[test]
fn a_scheduler_that_takes_its_time_is_waited_for_beyond_the_time_out_of_commands() {
    let commands = commands();
    let picture = picture(&commands);
    commands.prints("pbs_rstat", 0, &four_until("11:35:00"));
    commands.prints("pbs_rsub", 0, CONFIRMED);
    commands.takes("pbs_rsub", "4");
    let with = |confirm_within: i64| {
        let settings = Settings { confirm_within: Seconds(confirm_within), ..super::settings(&commands) };
        // Long enough for a command that takes no time, on a machine that is very busy.
        Pbs::new(Runner::local(Duration::from_secs(3)), settings).create(&wanted(4), &picture)
    };
    assert!(matches!(with(0), Err(LrmsError::Silent { .. })));
    with(45).unwrap();
    assert!(commands.calls_of("pbs_rsub")[1].starts_with("pbs_rsub|-I|45|"));
}
