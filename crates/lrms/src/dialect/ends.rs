//! What the end of a command means, and how that is told: which command, what it said, what is wrong.

use crate::batch::{Submission, Unit, Wanted};
use crate::command::{Command, Outcome};
use crate::error::LrmsError;
use crate::text::xml::{self, Element};

/// So many characters of something that may be long are told.
const MOST_TOLD: usize = 300;

/// A command that failed for a reason that is not known.
pub(crate) fn failed(command: &Command, outcome: &Outcome) -> LrmsError {
    LrmsError::Failed { command: shown(command), code: outcome.code, said: said(outcome) }
}

/// A command that printed something else than it should.
pub(crate) fn unreadable(command: &Command, why: impl Into<String>) -> LrmsError {
    LrmsError::Unreadable { command: shown(command), why: why.into() }
}

/// The batch system says no, or would.
pub(crate) fn refused(what: impl Into<String>, said: impl Into<String>) -> LrmsError {
    LrmsError::Refused { what: what.into(), said: said.into() }
}

/// What a command printed, as XML.
pub(crate) fn document(command: &Command, out: &str) -> Result<Element, LrmsError> {
    xml::read(out).map_err(|why| unreadable(command, why))
}

/// What the end of a command means that was to end or delete something: with a word of `gone` there was nothing to end, with
/// one of `denied` it may not be done. `what` is for people.
pub(crate) fn ended(
    command: &Command,
    outcome: &Outcome,
    what: String,
    gone: &[&str],
    denied: &[&str],
) -> Result<(), LrmsError> {
    let says =
        |words: &[&str]| words.iter().any(|word| outcome.out.contains(word) || outcome.err.contains(word));
    if outcome.is_success() || says(gone) {
        Ok(())
    } else if says(denied) {
        Err(refused(what, said(outcome)))
    } else {
        Err(failed(command, outcome))
    }
}

/// What a submitted job is called: the last line that is printed, which begins with a number and may have the name of a
/// server behind it. Warnings may stand before.
pub(crate) fn submitted(command: &Command, outcome: &Outcome) -> Result<String, LrmsError> {
    let last = outcome.out.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let is_id = last.starts_with(|first: char| first.is_ascii_digit()) && !last.contains(char::is_whitespace);
    if is_id { Ok(last.into()) } else { Err(unreadable(command, format!("{:?} is no job", start(last)))) }
}

/// A job for people.
pub(crate) fn the_job(job: &Submission) -> String {
    format!("the job {}", job.name)
}

/// A reservation for people, with what the batch system calls cores and nodes.
pub(crate) fn the_reservation(wanted: &Wanted, [cores_are, nodes_are]: [&str; 2]) -> String {
    let Wanted { name, amount, place, .. } = wanted;
    let unit = match place.unit {
        Unit::Cores => cores_are,
        Unit::Nodes => nodes_are,
    };
    format!("the reservation {name} of {amount} {unit} on {}", place.resource)
}

/// A command for people: the name of the program and its first words.
pub(crate) fn shown(command: &Command) -> String {
    let name = command.program.rsplit('/').next().unwrap_or_default();
    let words = [name].into_iter().chain(command.arguments.iter().map(String::as_str));
    start(&words.collect::<Vec<_>>().join(" "))
}

/// What a command said, for people.
pub(crate) fn said(outcome: &Outcome) -> String {
    start(outcome.said())
}

/// The beginning of something that may be long.
pub(crate) fn start(text: &str) -> String {
    text.chars().take(MOST_TOLD).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(code: i32, out: &str, err: &str) -> Outcome {
        Outcome { code: Some(code), out: out.into(), err: err.into() }
    }

    #[test]
    fn a_submitted_job_is_the_last_line_that_is_printed() {
        let read = |out: &str| submitted(&Command::new("qsub"), &outcome(0, out, ""));
        assert_eq!(read("welcome\n\n123.srv.example\n").unwrap(), "123.srv.example");
        assert_eq!(read("Unable to read script file\n7\n").unwrap(), "7");
        for text in ["", "qsub: x", "1 2", "job 7", "7\nbye"] {
            assert!(matches!(read(text), Err(LrmsError::Unreadable { .. })), "{text}");
        }
    }

    #[test]
    fn what_was_gone_is_no_error_and_denial_is_a_refusal() {
        let ended = |code, out, err| {
            let outcome = outcome(code, out, err);
            super::ended(
                &Command::new("/x/qdel").arg("7"),
                &outcome,
                "it".into(),
                &["not exist"],
                &["denied"],
            )
        };
        assert!(ended(0, "", "").is_ok() && ended(1, "it does not exist", "note").is_ok());
        assert!(
            matches!(ended(1, "", "denied: no"), Err(LrmsError::Refused { said, .. }) if said == "denied: no")
        );
        assert!(matches!(ended(1, "", "odd"), Err(LrmsError::Failed { command, .. }) if command == "qdel 7"));
    }

    #[test]
    fn what_is_long_is_told_in_part() {
        assert_eq!(start(&"ä".repeat(1000)).chars().count(), MOST_TOLD);
        assert_eq!(shown(&Command::new("x").arg("y".repeat(1000))).len(), MOST_TOLD);
    }
}
