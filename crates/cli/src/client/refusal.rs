//! Errors of client commands and their exit codes: wrong usage, a refusal by the server, or a failure. A refusal is
//! printed with its code, its message, the blocking jobs and reservations, and alternatives that would fit. If the
//! request has a single part, each alternative comes with a command to copy.

use super::dates::{Dates, length};
use bookahead_api::{Blocker, BlockerKind, Code, Problem, Relaxation, Request, Timestamp};
use std::process::ExitCode;

/// Printed at the end of the help of every client command.
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 failure (the server does not answer, a file cannot be written), 2 wrong usage (invalid options, \
times or request files), 3 refused by the server (with the reason and, if known, an alternative)";

/// Invalid input of the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The server refused, permanently or for now; `text` is the message for the user.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Refused {
    pub(crate) problem: Box<Problem>,
    pub(crate) text: String,
}

pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    // A 5xx problem means that the server is not able to answer, which is a failure and no refusal.
    if error.downcast_ref::<Usage>().is_some() {
        ExitCode::from(2)
    } else if error.downcast_ref::<Refused>().is_some_and(|refused| refused.problem.status < 500) {
        ExitCode::from(3)
    } else {
        ExitCode::FAILURE
    }
}

/// The message of a refusal, without commands to copy.
pub(crate) fn text(problem: &Problem, dates: Option<&Dates>) -> String {
    with_commands(problem, dates, None, |_| None)
}

/// The message of a refusal. `parts` is the number of parts of the request, if known; `command` returns the command
/// line for an alternative, if there is one.
pub(crate) fn with_commands(
    problem: &Problem,
    dates: Option<&Dates>,
    parts: Option<usize>,
    command: impl Fn(&Request) -> Option<String>,
) -> String {
    let mut lines = vec![format!("{}: {}", problem.code, counted(&detail(problem, dates), parts))];
    if let Some(dates) = dates {
        let blockers = problem.blockers.iter().map(|blocker| in_the_way(blocker, dates));
        lines.extend(blockers.map(|blocker| format!("  blocked by {blocker}")));
    }
    if let Some(seconds) = problem.busy_for_seconds {
        lines.push(format!("  it would fit with a start {} later", length(seconds)));
    }
    for offer in &problem.counter_offers {
        let condition = condition(&offer.change, dates);
        lines.push(match offer.request.as_ref().and_then(&command) {
            Some(command) => format!("  it would fit {condition}:\n    {command}"),
            None => format!("  it would fit {condition}"),
        });
    }
    // A concrete alternative is better than the general advice for the code.
    if problem.counter_offers.is_empty() {
        lines.extend(Code::named(&problem.code).map(|code| format!("  {}", code.remedy())));
    }
    lines.join("\n")
}

/// The message of the server, with its instants by the user's clock.
fn detail(problem: &Problem, dates: Option<&Dates>) -> String {
    let Some(dates) = dates else { return problem.detail.clone() };
    let by_clock = |word: &str| {
        let bare = word.trim_end_matches([':', ',']);
        let instant: Timestamp = bare.parse().ok()?;
        Some(format!("{}{}", dates.short(instant), &word[bare.len()..]))
    };
    let words = problem.detail.split(' ').map(|word| by_clock(word).unwrap_or_else(|| word.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

/// A message of the server in the words of the command line: `parts[0]` is part 1, `constraints[0]` is constraint 1, the
/// only part is not named, and a resource is named with an option.
pub(crate) fn counted(detail: &str, parts: Option<usize>) -> String {
    let detail = if parts == Some(1) { detail.strip_prefix("parts[0]: ").unwrap_or(detail) } else { detail };
    from_one(&from_one(detail, "part"), "constraint")
        .replace("as the resource", "as the resource (--resource)")
}

/// Replaces `parts[0]` by `part 1`.
fn from_one(text: &str, noun: &str) -> String {
    let opening = format!("{noun}s[");
    let mut pieces = text.split(&opening);
    let mut counted = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let place = piece.split_once(']').and_then(|(place, rest)| Some((place.parse::<u32>().ok()?, rest)));
        match place {
            Some((place, rest)) => counted.push_str(&format!("{noun} {}{rest}", u64::from(place) + 1)),
            // Brackets without an index, for example in a name, stay as they are.
            None => counted.push_str(&format!("{opening}{piece}")),
        }
    }
    counted
}

fn in_the_way(blocker: &Blocker, dates: &Dates) -> String {
    let what = match (blocker.kind, &blocker.name) {
        (BlockerKind::RunningJob, _) => "a running job".to_owned(),
        (BlockerKind::WaitingJob, _) => "a waiting job with a promised start".to_owned(),
        (BlockerKind::Reservation, _) => "a reservation".to_owned(),
        (BlockerKind::Maintenance, Some(name)) => format!("maintenance `{name}`"),
        (BlockerKind::Maintenance, None) => "maintenance".to_owned(),
    };
    match (blocker.begin, blocker.end) {
        (Some(begin), Some(end)) if begin <= dates.now() => format!("{what} until {}", dates.short(end)),
        (Some(begin), Some(end)) => {
            format!("{what}, {} until {}", dates.short(begin), dates.short_end(begin, end))
        }
        (None, Some(end)) => format!("{what} until {}", dates.short(end)),
        (Some(begin), None) => format!("{what} from {} on, with no known end", dates.short(begin)),
        (None, None) => what,
    }
}

fn condition(relaxation: &Relaxation, dates: Option<&Dates>) -> String {
    match relaxation {
        Relaxation::Later { by_seconds } => format!("if it may end {} later", length(*by_seconds)),
        Relaxation::Shorter { by_seconds } => format!("if it is {} shorter", length(*by_seconds)),
        Relaxation::Fewer { by } => format!("with {by} fewer"),
        Relaxation::Earlier { begin } => {
            let begin = dates.map_or_else(|| begin.to_string(), |dates| dates.wall(*begin));
            format!("if it may begin at {begin}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::request::flags_of;
    use bookahead_api::{CounterOffer, Part};
    use jiff::tz::TimeZone;

    fn part() -> Part {
        Part {
            kind: "processors".into(),
            capacity: 64,
            duration_seconds: 7_200,
            earliest_start: "2026-11-16T08:00:00Z".parse().unwrap(),
            latest_end: "2026-11-16T12:00:00Z".parse().unwrap(),
            requirements: Vec::new(),
            resource: None,
            replaces: None,
            changes: None,
            up_to: None,
            measured_on: None,
            tres: Default::default(),
        }
    }

    #[test]
    fn what_would_do_instead_is_a_command_to_copy() {
        let mut problem = Problem::new(Code::NoRoom, "there is no room");
        problem.counter_offers = [
            Relaxation::Later { by_seconds: 1_800 },
            Relaxation::Shorter { by_seconds: 3_600 },
            Relaxation::Fewer { by: 16 },
            Relaxation::Fewer { by: 64 },
            Relaxation::Earlier { begin: "2026-11-16T06:30:00Z".parse().unwrap() },
        ]
        .map(|change| CounterOffer { change, request: None })
        .into();
        let problem = problem.for_request(&Request::new(vec![part()], Vec::new()));
        let dates = Dates::new(TimeZone::get("Europe/Berlin").unwrap(), part().earliest_start);
        let command = |request: &Request| flags_of(request, &dates).map(|words| words.join(" "));
        let offered = problem.counter_offers.iter().filter_map(|offer| offer.request.as_ref());
        let lines: Vec<String> = offered.filter_map(command).collect();
        let window = "--from 2026-11-16T09:00:00+01:00 --until";
        let noon = "2026-11-16T13:00:00+01:00";
        assert_eq!(
            lines,
            [
                format!("--capacity 64 --duration 2h {window} 2026-11-16T13:30:00+01:00"),
                format!("--capacity 64 --duration 1h {window} {noon}"),
                format!("--capacity 48 --duration 2h {window} {noon}"),
                format!("--capacity 64 --duration 2h --from 2026-11-16T07:30:00+01:00 --until {noon}"),
            ]
        );
        let text = with_commands(&problem, Some(&dates), Some(1), command);
        let begins =
            "no-room: there is no room\n  it would fit if it may end 30m 00s later:\n    --capacity 64";
        assert!(text.starts_with(begins), "{text}");
    }

    #[test]
    fn maintenance_is_named_and_its_times_are_by_the_clock_of_the_user() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut problem = Problem::new(
            Code::NoRoom,
            "not before 2026-11-18T11:00:00Z: maintenance `weekly` until 2026-11-18T11:00:00Z",
        );
        problem.blockers.push(Blocker {
            kind: BlockerKind::Maintenance,
            begin: Some(at("2026-11-18T07:00:00Z")),
            end: Some(at("2026-11-18T11:00:00Z")),
            name: Some("weekly".into()),
        });
        let dates = Dates::new(TimeZone::get("Europe/Zurich").unwrap(), at("2026-11-17T12:00:00Z"));
        let told = text(&problem, Some(&dates));
        for words in [
            "not before tomorrow 12:00: maintenance `weekly` until tomorrow 12:00\n",
            "blocked by maintenance `weekly`, tomorrow 08:00 until 12:00",
        ] {
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn parts_are_counted_from_one_and_the_only_one_is_not_named() {
        let detail = "parts[1]: the capacity is 0; request at least 1";
        assert_eq!(counted(detail, Some(2)), "part 2: the capacity is 0; request at least 1");
        assert_eq!(counted(&detail.replace('1', "0"), Some(1)), "the capacity is 0; request at least 0");
        let pair = "constraints[0] names parts[4], but the request has 2";
        assert_eq!(counted(pair, None), "constraint 1 names part 5, but the request has 2");
        assert_eq!(counted("parts[x]: as it is", None), "parts[x]: as it is");
    }
}
