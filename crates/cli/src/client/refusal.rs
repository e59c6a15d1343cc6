//! A refusal for people: the code, the sentence, what is in the way, and what to do; where the request was a simple one, as
//! commands to copy.

use super::dates::{Dates, length};
use bookahead_api::{Blocker, BlockerKind, Code, Part, Problem, Relaxation, Request};
use bookahead_plan::{Seconds, Time};

/// What is said of any refusal.
pub(crate) fn text(problem: &Problem, dates: Option<&Dates>) -> String {
    let mut lines = vec![format!("{}: {}", problem.code, problem.detail)];
    if let Some(dates) = dates {
        lines.extend(problem.blockers.iter().map(|blocker| format!("  in the way: {}", in_the_way(blocker, dates))));
    }
    if let Some(seconds) = problem.busy_for_seconds {
        lines.push(format!("  a begin {} later would do", length(seconds)));
    }
    lines.extend(problem.relaxations.iter().map(|change| format!("  it would fit {}", condition(change, dates))));
    // What would do is better advice than advice for everybody.
    if problem.relaxations.is_empty() {
        lines.extend(Code::named(&problem.code).map(|code| format!("  {}", code.remedy())));
    }
    lines.join("\n")
}

fn in_the_way(blocker: &Blocker, dates: &Dates) -> String {
    let what = match blocker.kind {
        BlockerKind::RunningJob => "a running job",
        BlockerKind::WaitingJob => "a waiting job that is promised its place",
        BlockerKind::Reservation => "a reservation",
    };
    match (blocker.begin, blocker.end) {
        (Some(begin), Some(end)) => {
            format!("{what}, {} until {}", dates.wall(begin), dates.wall_end(begin, end))
        }
        (None, Some(end)) => format!("{what}, until {}", dates.wall(end)),
        (Some(begin), None) => format!("{what}, from {}, with no end in sight", dates.wall(begin)),
        (None, None) => what.to_owned(),
    }
}

fn condition(relaxation: &Relaxation, dates: Option<&Dates>) -> String {
    match relaxation {
        Relaxation::Later { by_seconds } => format!("if it might end {} later", length(*by_seconds)),
        Relaxation::Shorter { by_seconds } => format!("if it took {} less", length(*by_seconds)),
        Relaxation::Fewer { by } => format!("with {by} less"),
        Relaxation::Earlier { begin } => {
            let begin = dates.map_or_else(|| begin.to_string(), |dates| dates.wall(*begin));
            format!("if it might begin at {begin}")
        }
    }
}

/// What would do instead of a request of one part, with a word on each. A refusal does not say which of several parts it is
/// about.
pub(crate) fn instead(problem: &Problem, request: &Request, dates: &Dates) -> Vec<(String, Part)> {
    let [part] = request.parts.as_slice() else { return Vec::new() };
    let changed = problem.relaxations.iter().filter_map(|relaxation| {
        let part = relaxed(part, relaxation)?;
        Some((condition(relaxation, Some(dates)), part))
    });
    changed.collect()
}

/// None where the change cannot be said.
fn relaxed(part: &Part, relaxation: &Relaxation) -> Option<Part> {
    let later = |time: Time, by: i64| (time + Seconds(by)).try_into().ok();
    let mut part = part.clone();
    match *relaxation {
        Relaxation::Later { by_seconds } => part.latest_end = later(part.latest_end.time(), by_seconds)?,
        Relaxation::Shorter { by_seconds } => part.duration_seconds = part.duration_seconds.checked_sub(by_seconds)?,
        Relaxation::Fewer { by } => part.capacity = part.capacity.checked_sub(by)?,
        Relaxation::Earlier { begin } => {
            // A request for one begin remains one.
            if part.latest_end.time() == part.earliest_start.time() + Seconds(part.duration_seconds) {
                part.latest_end = later(begin.time(), part.duration_seconds)?;
            }
            part.earliest_start = begin;
        }
    }
    (part.capacity > 0 && part.duration_seconds > 0).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::request::flags_of;
    use bookahead_api::Objective;
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
        }
    }

    #[test]
    fn what_would_do_instead_is_a_command_to_copy() {
        let mut problem = Problem::new(Code::NoRoom, "there is no room");
        problem.relaxations = vec![
            Relaxation::Later { by_seconds: 1_800 },
            Relaxation::Shorter { by_seconds: 3_600 },
            Relaxation::Fewer { by: 16 },
            Relaxation::Fewer { by: 64 },
            Relaxation::Earlier { begin: "2026-11-16T06:30:00Z".parse().unwrap() },
        ];
        let request = Request { parts: vec![part()], constraints: Vec::new(), objective: Objective::default() };
        let dates = Dates::new(TimeZone::get("Europe/Berlin").unwrap());
        let flags = |(_, part): (String, Part)| flags_of(&part, Objective::default(), &dates).join(" ");
        let lines: Vec<String> = instead(&problem, &request, &dates).into_iter().map(flags).collect();
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
        assert!(text(&problem, Some(&dates)).starts_with("no-room: there is no room\n  it would fit if it might"));
    }

    #[test]
    fn of_several_parts_nobody_knows_which_is_meant() {
        let mut problem = Problem::new(Code::NoRoom, "there is no room");
        problem.relaxations = vec![Relaxation::Fewer { by: 16 }];
        let request =
            Request { parts: vec![part(), part()], constraints: Vec::new(), objective: Objective::default() };
        assert!(instead(&problem, &request, &Dates::new(TimeZone::UTC)).is_empty());
    }
}
