//! Co-reservation of several machines: benefit and cost of probing for a broker, and the effect of the timeout of holds
//! on the acceptance rate. Sites and brokers are the real code of [`bookahead_protocol`]; nothing is tuned to match.
//!
//! After J. Schneider, J. Gehr, B. Linnert and T. Röblitz, "An efficient protocol for reserving multiple grid resources
//! in advance".

#[cfg(test)]
mod borders;
mod claims;
mod desk;
mod figures;
mod results;
mod runs;
mod setup;

use crate::claim::judge;
use crate::{Page, Progress, Scale, Section};
use results::Results;
use setup::{ADAPTIVE_INTER_ARRIVAL, CHOICES, FULL, INTER_ARRIVAL, QUICK, WINDOW};

/// Runs the experiment. A quick run has fewer requests, points and choices.
pub fn run(scale: &Scale, progress: Progress<'_>) -> Page {
    let extent = if scale.quick { QUICK } else { FULL };
    page(&results::run(extent, scale, progress)).judged_at(scale)
}

fn page(results: &Results) -> Page {
    let mut sections = vec![Section::Text(what_was_run(results)), figures::machines()];
    sections.push(Section::heading("Choices that the paper leaves open"));
    sections.extend(what_we_chose().map(Section::Text));
    sections.push(Section::heading("Claims of the paper and our results"));
    sections.push(Section::Claims(judge(&claims::CLAIMS, results)));
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
        sections.extend(figures::first_choices(results));
    }
    sections.push(Section::heading("Figure 9: acceptance against the time-out"));
    sections.extend(figures::acceptance(results));
    if results.extent.others {
        sections.extend(figures::other_loads(results));
    }
    sections.push(Section::heading("Beyond the paper: holds that adapt"));
    sections.push(Section::Text(adaptive(results)));
    sections.push(figures::adaptive(results));
    Page { id: "co-reservation", title: "Reserving several machines at once".into(), sections }
}

fn what_was_run(results: &Results) -> String {
    let extent = &results.extent;
    let small =
        if *extent == FULL { "" } else { " This is a smoke test: the run is too small to judge the claims." };
    format!(
        "Eight machines, each with the ledger of a real site, and a broker that reserves several of them, all or nothing; both \
         are the code of real sites and brokers. Messages arrive in the same instant; a slot is a second. The broker with \
         probing asks every machine for slots before it tries to hold them; the one without probing knows only its own \
         bookings. For Figures 6 to 8 each run has {} co-reservation requests. A share of them goes through the evaluated \
         broker, the others through a second broker that probes: the side channel. For Figure 9 each run has {} accepters \
         (10,000 in the paper), who commit at once, and rejecters, who never answer, so that their holds expire at the \
         time-out. Requests before the machines are full are not counted. Requests whose search ended before all candidates \
         were examined: {}.{small}",
        extent.requests,
        extent.accepters,
        results.stopped(),
    )
}

fn what_we_chose() -> [String; 8] {
    [
        "Versions: the paper first calls the broker without probing version A and the one with probing version B, and later \
         swaps the names (in its Section 4.4). The meaning is clear each time, so we follow the text: probing needs fewer \
         attempts and more messages, except if the other broker sees all requests."
            .into(),
        format!(
            "Requests: the paper prints the durations (1,250 to 3,750) and processors (1 to 10) of sub-jobs. We draw {} to {} \
             sub-jobs for each request, with equal probability, that begin together; any of them may share a machine. The \
             advance booking period has a mean of {:.0} slots, the mean duration of a sub-job, and 10,000 in the tables of \
             other choices. Requests are a Poisson process.",
            CHOICES.parts.0, CHOICES.parts.1, CHOICES.book_ahead
        ),
        format!(
            "Changed after the first runs, start window: the paper's list of workload parameters (booking period, duration, \
             processors, inter-arrival time) has no start window, so a request begins at its earliest start or not at all. Our \
             first runs had a window of {} slots, which the list does not support. We made the change knowing the results of \
             those runs, and that more claims are reproduced without the window; the tables of other choices show both.",
            WINDOW.0
        ),
        "Changed after the first runs, holding: step 6b of the paper cancels \"all former successful reservations\" if a single \
         one fails, and its Section 4.4 calls sending in parallel a possible improvement. So the parts of a candidate are \
         requested one after the other, up to the first refusal, and those held before are released. Our first runs \
         requested all at once, which is the default of our broker; a table shows its messages."
            .into(),
        format!(
            "Changed after the first runs, load: the printed inter-arrival time of {INTER_ARRIVAL} is that of all figures but \
             Figure 7, because Section 4.5 states that the model is the same. Our first runs had 40 in Figure 9. At \
             {INTER_ARRIVAL} the requests add up to {:.0}% of the machines. A table shows the paper's example at other loads.",
            100.0 * CHOICES.load(INTER_ARRIVAL)
        ),
        "Probes: the paper's reservation candidate has a begin, an end and a capacity, so our sites do not report the free \
         capacity beside a slot. A machine may then have room for each of two sub-jobs but not for both. The broker without \
         probing knows its own bookings exactly. Both choose the candidate that ends first."
            .into(),
        "After a refusal the resource is excluded from further candidates, as in step 6b of the paper, so that no request has \
         more than eight attempts. An attempt is a candidate that the broker tried to hold; a request without a candidate has \
         no attempt."
            .into(),
        "Messages are calls and answers between the evaluated broker and the machines: probe, reserve, commit, cancel. Reading \
         its own records costs the broker without probing no message. Both brokers are the same code: probes of the one \
         without probing are answered from ledgers that contain only its own bookings."
            .into(),
    ]
}

const OTHER_CHOICES: &str = "The same with one choice changed at a time. A result that is the same in every row does not depend on the choices.";

fn adaptive(results: &Results) -> String {
    let (least, most) = figures::above_targets(results);
    format!(
        "Our sites can choose the time-out themselves, from observations of their holds and a target for the acceptance rate: \
         Figure 9 read backwards. The inter-arrival time is {ADAPTIVE_INTER_ARRIVAL} here, because the targets cannot be reached \
         at that of Figure 9. The rate that accepters reach differs from the target, over all rows by {least:+.3} to \
         {most:+.3}. A site sees only the calls to itself: holds but not co-reservations, and no requests without a candidate \
         after probing. If sites do not report the free capacity beside a slot, many holds are refused, so that a site observes \
         a lower rate than the accepters do and grants shorter holds than it could. If they report it, no hold is refused. Sites \
         also see fewer rejecters than there are: if sites hold for different times, the broker releases all parts when the \
         shortest hold expires, and a released hold counts neither as confirmed nor as expired. In both cases the formula \
         assumes that the machines are full, so that every expired hold has blocked another request for its whole time; if \
         they are not full, most of that time is booked again. A rate above the target means that a longer hold would have \
         been possible: the error favours the accepters, and the more rejecters there are, the more a fixed long time-out \
         costs the accepters in comparison."
    )
}
