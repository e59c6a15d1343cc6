//! Reserving several machines at once: what probing saves and costs a broker, and what the time-out of holds does to those
//! who mean it. It relies on [`bookahead_protocol`] for sites and brokers, which are the real ones; nothing is tuned to
//! match.
//!
//! After J. Schneider, J. Gehr, B. Linnert and T. Röblitz, "An efficient protocol for reserving multiple grid resources
//! in advance".

mod claims;
mod desk;
mod figures;
mod results;
mod runs;
mod setup;

use crate::{Page, Progress, Scale, Section};
use results::Results;
use setup::{ACCEPTER_INTER_ARRIVAL, CHOICES, FULL, INTER_ARRIVAL, QUICK};

/// Runs the experiment. A quick one has fewer requests, points and choices.
pub fn run(scale: &Scale, progress: Progress<'_>) -> Page {
    let extent = if scale.quick { QUICK } else { FULL };
    page(&results::run(extent, scale, progress))
}

fn page(results: &Results) -> Page {
    let mut sections = vec![Section::Text(what_was_run(results)), figures::machines()];
    sections.push(Section::heading("What the paper leaves open"));
    sections.extend(what_we_chose().map(Section::Text));
    sections.push(Section::heading("What the paper says beside ours"));
    sections.push(Section::Claims(claims::claims(results)));
    sections.push(Section::heading("Figure 6: attempts against the share seen"));
    sections.extend(figures::attempts_by_share(results));
    sections.push(Section::heading("Figure 7: attempts against the load"));
    sections.extend(figures::attempts_by_load(results));
    sections.push(Section::heading("Figure 8: messages"));
    sections.extend(figures::messages_by_share(results));
    if results.extent.others {
        sections.push(Section::heading("Other choices"));
        sections.push(Section::text(OTHER_CHOICES));
        sections.push(figures::choices(results));
        sections.extend(figures::longer_ahead(results));
    }
    sections.push(Section::heading("Figure 9: acceptance against the time-out"));
    sections.extend(figures::acceptance(results));
    if results.extent.others {
        sections.push(figures::other_loads(results));
    }
    sections.push(Section::heading("Beyond the paper: holds that adapt"));
    sections.push(Section::Text(adaptive(results)));
    sections.push(figures::adaptive(results));
    Page { id: "co-reservation", title: "Reserving several machines at once".into(), sections }
}

fn what_was_run(results: &Results) -> String {
    let extent = &results.extent;
    let small = if *extent == FULL {
        ""
    } else {
        " This is a small run to see that it works: too small to judge the claims by."
    };
    format!(
        "Eight machines, each with the book of a real site, and a broker that reserves several of them all together or not at \
         all; both are the code that sites and brokers run on. Messages arrive in the same instant; a slot is a second. The \
         broker with probing asks every machine for slots before it tries to hold them; the one without probing goes by what \
         was booked through itself. For Figures 6 to 8 each run has {} co-reservation requests, of which a share goes through \
         the evaluated broker and the others through a second broker that probes: the side channel. For Figure 9 each run has {} \
         accepters (the paper's has 10,000), who commit at once, and rejecters, who never answer, so that what is held for them \
         evaporates at the time-out. What comes before the machines are full is not counted. Requests that were given up before \
         all candidates had been looked at: {}.{small}",
        extent.requests,
        extent.accepters,
        results.stopped(),
    )
}

fn what_we_chose() -> [String; 6] {
    let load = |every: u32| 100.0 * CHOICES.load(every);
    [
        "Versions: the paper first calls the broker without probing version A and the one with probing version B, and later \
         calls them the other way round (in its Section 4.4). What it says in words is clear each time, so we go by the words: \
         probing needs fewer attempts and more messages, except where the other broker has seen everything."
            .into(),
        format!(
            "Requests: the paper prints the durations (1,250 to 3,750) and processors (1 to 10) of sub-jobs. We draw {} to {} \
             sub-jobs for each request, every number alike, that begin together; any of them may share a machine. The advance \
             booking period has a mean of {:.0} slots, as long as a sub-job, and in the tables of other choices 10,000. Every \
             sub-job may begin up to {} slots later than wanted. Requests come at random, at a constant rate.",
            CHOICES.parts.0, CHOICES.parts.1, CHOICES.book_ahead, CHOICES.window.0
        ),
        format!(
            "Load: at the printed inter-arrival time of {INTER_ARRIVAL} these requests want {:.0}% of the machines. So even \
             without rejecters a rate of acceptance of 0.8 could not be reached there; the paper prints no inter-arrival time for \
             Figure 9, and we take {ACCEPTER_INTER_ARRIVAL}, at which accepters want {:.0}%.",
            load(INTER_ARRIVAL),
            load(ACCEPTER_INTER_ARRIVAL)
        ),
        "Probes: the paper's reservation candidate has a begin, an end and a capacity, so our sites do not tell what is free \
         beside a slot. Slots are runs of begins. A machine may then have room for each of two sub-jobs and not for both. The \
         broker without probing knows its own bookings exactly. Both take the candidate that ends first."
            .into(),
        "After a refusal the resource is left out of further candidates, as the paper's step 6b says, so that no request has \
         more than eight attempts. All sub-jobs of a candidate are asked for at once; if one is refused, all are given back, \
         also the refused one, as our broker does it. An attempt is a candidate that was tried to be held; a request for which \
         no candidate is found has none."
            .into(),
        "Messages are calls and answers between the evaluated broker and the machines: probe, reserve, commit, cancel. The notes \
         of the broker without probing cost none. Both brokers are the same code: probes of the one without probing are answered \
         from books that contain only what it booked itself."
            .into(),
    ]
}

const OTHER_CHOICES: &str =
    "The same with one choice changed at a time. What holds in every row does not depend on it.";

fn adaptive(results: &Results) -> String {
    let (least, most) = figures::above_targets(results);
    format!(
        "Our sites can choose the time-out themselves, from what they saw of their holds and a target for the share of requests \
         that find room: Figure 9 read backwards. The rate that accepters reach is not the target: over all rows it is off \
         by {least:+.3} to {most:+.3}. A site knows only what it is asked: it sees holds and not co-reservations, and does not \
         hear of requests for which probes left no candidate. Where sites do not tell what is free beside a slot, many holds \
         are tried in vain and refused, so that a site sees a lower rate than the accepters do and holds for less time than it \
         could. Where they tell, no hold is refused. Sites also see fewer rejecters than there are: where sites hold for different \
         times, the broker gives all parts back when the shortest hold is over, and what is given back counts neither as \
         confirmed nor as never confirmed. In both cases the formula takes the calendar for full, so that whatever \
         evaporates has kept somebody out for as long as it was held; where the machines are not full, most of it is booked \
         again. A rate above the target means that a longer hold would have done: the error is on the side of the accepters, \
         and the more rejecters there are, the more a fixed longest time-out costs them in comparison."
    )
}
