//! Times on the command line: resolved by the user's clock, or by the server's if that is faster, in the user's zone,
//! and repeated in the answer.

use crate::asking::{Asking, SITE};
use crate::folder::Ran;

#[test]
fn a_wall_time_that_is_twice_or_never_is_refused_with_both_readings() {
    let asking = Asking::site(SITE);
    let from = |time: &str| asking.run(&["probe", "--capacity", "1", "--duration", "1h", "--from", time]);
    let words = ["occurs twice in Europe/Berlin", "2090-10-29T02:30:00+02:00", "2090-10-29T02:30:00+01:00"];
    from("2090-10-29 02:30").assert_refused(2, &words);
    let words = ["does not exist in Europe/Berlin", "2090-03-26T01:30:00+01:00", "2090-03-26T03:30:00+02:00"];
    from("2090-03-26 02:30").assert_refused(2, &words);
    let clear = from("2090-10-29T02:30:00+01:00");
    assert_eq!(clear.code, Some(0), "{clear:?}");
    assert!(!clear.err.contains("is taken in"), "nothing was assumed: {clear:?}");
}

#[test]
fn the_zone_of_the_user_is_that_of_the_option_before_that_of_the_system() {
    let asking = Asking::site(SITE);
    let words = ["probe", "--capacity", "1", "--duration", "1h", "--from", "2099-01-05 9:00"];
    let system = asking.ends(0, &words);
    assert!(
        system.out.contains("begin (Europe/Berlin)") && system.out.contains("2099-01-05 09:00"),
        "{system:?}"
    );
    let said = asking.ends(0, &[&words[..], &["--zone", "America/New_York"]].concat());
    assert!(said.err.contains("is taken in America/New_York"), "{said:?}");
    assert!(
        said.out.contains("begin (America/New_York)") && said.out.contains("2099-01-05 09:00"),
        "{said:?}"
    );
    assert!(said.err.contains("09:00-05:00 (2099-01-05T14:00:00Z)"), "{said:?}");
    let utc = asking.ends(0, &[&words[..], &["--zone", "UTC"]].concat());
    assert!(utc.out.contains("begin (UTC)") && !utc.out.contains("14:00"), "{utc:?}");
}

#[test]
fn an_accelerated_clock_counts_for_times_and_not_for_the_time_to_decide() {
    // An hour ago it agreed with the real time, so that it is 25 days ahead by now.
    let begun = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() - 3_600).unwrap();
    let clock = format!("\n[clock]\nspeed = 600\norigin = \"{begun}\"\n");
    let asking = Asking::site(&(SITE.replace("true", "false") + clock.as_str()));
    let words = ["reserve", "--capacity", "1", "--duration", "1h", "--from", "+2d", "--hold", "2m"];
    let held = asking.ends(0, &words);
    assert!(
        held.err.contains("note: the clock of the server shows") && held.err.contains("600 times as fast"),
        "{held:?}"
    );
    assert!(
        held.out.contains("held for 1:5") || held.out.contains("held for 2:00"),
        "on the user's clock: {held:?}"
    );
    let before = asking.requests();
    let document = asking.document(&words);
    assert_eq!(asking.requests() - before, 2, "one that is refused for its clock, and one by the other");
    assert_eq!(asking.document(&["list"])["reservations"].as_array().unwrap().len(), 2);
    assert_eq!(asking.requests() - before, 3, "what has no times needs no clock");
    let begin: jiff::Timestamp = document["slots"][0]["begin"].as_str().unwrap().parse().unwrap();
    let ahead = (begin.as_second() - begun.as_second()) / 86_400;
    assert!(ahead >= 27, "two days from the server's now: {document}");
    assert!(document["held_for_seconds"].as_f64().unwrap() > 110.0 * 600.0, "on the server's: {document}");
}

#[test]
fn a_clock_that_is_everybodys_is_not_worth_a_word() {
    let asking = Asking::site(SITE);
    let ran = asking.ends(0, &["probe", "--capacity", "1", "--duration", "1h", "--from", "+1h"]);
    assert!(!ran.err.contains("note:"), "{ran:?}");
}

#[test]
fn a_request_from_standard_input_is_sent_again_by_a_faster_clock() {
    let origin = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() - 3_600).unwrap();
    let clock = format!("\n[clock]\nspeed = 600\norigin = \"{origin}\"\n");
    let asking = Asking::site(&(SITE.replace("true", "false") + clock.as_str()));
    asking.folder.write("request.toml", "from = \"+1h\"\nduration = \"1h\"\n[[part]]\ncapacity = 4\n");
    let mut command = asking.command(&["probe", "--file", "-"]);
    command.stdin(std::fs::File::open(asking.folder.path("request.toml")).unwrap());
    let ran = Ran::of("probe --file -", command.output().unwrap());
    assert!(ran.code == Some(0) && ran.out.contains("cluster"), "{ran:?}");
    assert_eq!(ran.err.matches("note: ").count(), 1, "{ran:?}");
}
