//! Offers for people: one row for each slot, the best offer first.

use super::columns::{Columns, NOTHING, or_nothing};
use crate::client::dates::{Dates, length, utc_span};
use bookahead_api::{Offers, Slot};
use std::io::{self, Write, stdout};

pub(crate) fn print(offers: &Offers, dates: &Dates) -> io::Result<()> {
    write!(stdout().lock(), "{}", table(offers, dates).table())
}

fn table(offers: &Offers, dates: &Dates) -> Columns {
    let from = format!("from ({})", dates.zone_name());
    let mut table = Columns::new(&[
        "offer",
        "part",
        "site",
        "resource",
        "capacity",
        &from,
        "until",
        "UTC",
        "or later by",
        "rating",
        "jobs delayed",
        "longest delay",
        "cost",
    ]);
    for (number, offer) in offers.offers.iter().enumerate() {
        for (part, slot) in offer.slots.iter().enumerate() {
            let number = if part == 0 { (number + 1).to_string() } else { String::new() };
            let part = if offer.slots.len() > 1 { part.to_string() } else { String::new() };
            table.row([number, part].into_iter().chain(place(slot, dates)).chain(ratings(slot)));
        }
    }
    table
}

/// Where and when.
pub(crate) fn place(slot: &Slot, dates: &Dates) -> [String; 6] {
    [
        slot.site.to_string(),
        slot.resource.to_string(),
        slot.capacity.to_string(),
        dates.wall(slot.begin),
        dates.wall_end(slot.begin, slot.end),
        if dates.are_utc() { String::new() } else { utc_span(slot.begin, slot.end) },
    ]
}

fn ratings(slot: &Slot) -> [String; 5] {
    let impact = slot.impact;
    [
        if slot.slack_seconds > 0 { length(slot.slack_seconds) } else { NOTHING.to_owned() },
        or_nothing(slot.rating_millionths, |rating| format!("{:.3}", f64::from(rating) / 1e6)),
        or_nothing(impact, |impact| impact.delayed_jobs.to_string()),
        or_nothing(impact, |impact| length(impact.longest_delay_seconds)),
        cost(slot.cost_thousandths),
    ]
}

/// Thousandths as they are paid; nothing where it is free.
pub(crate) fn cost(thousandths: u64) -> String {
    if thousandths == 0 {
        NOTHING.to_owned()
    } else {
        format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_api::{Impact, Offer};
    use jiff::tz::TimeZone;

    #[test]
    fn an_offer_says_where_when_and_what_it_would_do_to_others() {
        let slot = Slot {
            resource: "cluster".into(),
            site: "north".into(),
            joins: None,
            begin: "2026-11-16T08:00:00Z".parse().unwrap(),
            end: "2026-11-16T10:00:00Z".parse().unwrap(),
            capacity: 64,
            slack_seconds: 900,
            free: None,
            rating_millionths: Some(970_000),
            impact: Some(Impact { delayed_jobs: 1, total_delay_seconds: 120, longest_delay_seconds: 120 }),
            cost_thousandths: 3_200,
        };
        let offers = Offers { offers: vec![Offer { slots: vec![slot] }], looked_seconds_ago: None };
        let berlin = Dates::new(TimeZone::get("Europe/Berlin").unwrap());
        let text = table(&offers, &berlin).table().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("from (Europe/Berlin)") && !lines[0].contains("part"), "{text}");
        for word in [
            "north",
            "Mon 2026-11-16 09:00+01:00",
            "11:00+01:00",
            "2026-11-16 08:00–10:00",
            "0.970",
            "2m 00s",
            "3.200",
        ] {
            assert!(lines[2].contains(word), "{word} is missing:\n{text}");
        }
    }
}
