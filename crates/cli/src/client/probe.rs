//! `bookahead probe`: what could be had, when and where, and what it would do to waiting jobs. Nothing is booked.

use super::place::Place;
use super::refusal::Refused;
use super::request::{Description, Wanted, flags_of};
use super::session::{Session, by_clock};
use super::{refusal, view};
use crate::output::say;
use anyhow::Result;
use bookahead_api::{Code, Objective, Offers, Part, Probe, Problem, Relaxation, Request};
use bookahead_plan::Seconds;
use clap::Args;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,

    /// At most so many offers
    #[arg(long, value_name = "N", help_heading = "Request")]
    most: Option<u32>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let wanted = arguments.wanted.read()?;
    by_clock(&arguments.place, |session| probe(arguments, &wanted, session))
}

fn probe(arguments: &Arguments, wanted: &Description, session: &Session) -> Result<()> {
    let request = wanted.request(session)?;
    let probe = Probe { request, most: arguments.most, starts: Vec::new() };
    let answer = session.ask("asking what could be had", session.timed_client().probe(&probe));
    let again = |part: &Part| asking("probe", part, probe.request.objective, session);
    let offers = answer.map_err(|error| with_commands(error, session, &probe.request, again))?;
    session.print(&offers, || view::print_offers(&offers, &session.dates))?;
    if offers.offers.is_empty() {
        let problem = Box::new(Problem::new(Code::NoCandidate, "nobody makes an offer for this request"));
        let text = refusal::text(&problem, Some(&session.dates));
        return Err(Refused { problem, text }.into());
    }
    say_how_to_hold(session, &probe.request, &offers);
    Ok(())
}

/// A refusal with the commands for what would do instead; `words` are those of a command for a part.
pub(crate) fn with_commands(
    error: anyhow::Error,
    session: &Session,
    request: &Request,
    words: impl Fn(&Part) -> Vec<String>,
) -> anyhow::Error {
    let command = |relaxation: &Relaxation| {
        let part = refusal::relaxed(request, relaxation)?;
        Some(session.command(&words(&part)))
    };
    match error.downcast::<Refused>() {
        Ok(Refused { problem, .. }) => {
            let text = refusal::with_commands(&problem, Some(&session.dates), command);
            Refused { problem, text }.into()
        }
        Err(other) => other,
    }
}

/// A command that asks for a part.
pub(crate) fn asking(verb: &str, part: &Part, objective: Objective, session: &Session) -> Vec<String> {
    let flags = flags_of(part, objective, &session.dates);
    [verb.to_owned()].into_iter().chain(flags).collect()
}

/// An offer is not held; says how to hold the best. Of several parts, the request itself is reserved.
fn say_how_to_hold(session: &Session, request: &Request, offers: &Offers) {
    let ([part], Some([slot])) =
        (request.parts.as_slice(), offers.offers.first().map(|offer| offer.slots.as_slice()))
    else {
        return;
    };
    let end = (slot.begin.time() + Seconds(part.duration_seconds)).try_into();
    let resource = Some(slot.resource.clone());
    let fixed =
        Part { earliest_start: slot.begin, latest_end: end.unwrap_or(slot.end), resource, ..part.clone() };
    let words = asking("reserve", &fixed, request.objective, session);
    say!("nothing is held; hold the first with: {}", session.command(&words));
}
