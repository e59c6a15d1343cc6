//! Human-readable answers: tables on standard output. Columns without a value in any row are left out. With `--json`
//! the documents are printed instead.

use crate::client::dates::{Dates, countdown, length, utc_span};
use crate::client::request::values::shown;
use crate::output::{Table, count, stdout};
use bookahead_api::{
    AttributeValue, Condition, Job, JobState, Load, Loss, Lost, Offers, Reachability, Replacement,
    Reservation, Resource, Role, Site, Slot, State,
};
use bookahead_protocol::{self as protocol, Name, life_cycle};
use std::collections::BTreeMap;
use std::io::{self, Write};

pub(crate) fn print_offers(offers: &Offers, dates: &Dates) -> io::Result<()> {
    write!(stdout(), "{}", offer_table(offers, dates).table())
}

fn offer_table(offers: &Offers, dates: &Dates) -> Columns {
    let from = format!("from ({})", dates.zone_name());
    let mut table = Columns::new(&format!(
        "offer, part, site, resource, capacity, {from}, until, UTC, or later by, rating, jobs delayed, \
         longest delay, cost"
    ));
    for (number, offer) in offers.offers.iter().enumerate() {
        for (part, slot) in offer.slots.iter().enumerate() {
            let number = if part == 0 { (number + 1).to_string() } else { String::new() };
            let part = if offer.slots.len() > 1 { part.to_string() } else { String::new() };
            table.row([number, part].into_iter().chain(place(slot, dates)).chain(ratings(slot)));
        }
    }
    table
}

fn place(slot: &Slot, dates: &Dates) -> [String; 6] {
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

/// `3.200`; a dash if it is free.
fn cost(thousandths: u64) -> String {
    if thousandths == 0 {
        NOTHING.to_owned()
    } else {
        format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
    }
}

pub(crate) fn state_word(state: State) -> &'static str {
    life_cycle::State::from(state).word()
}

/// `held for 4:59`; `left` converts to the user's clock.
fn state(reservation: &Reservation, left: impl Fn(i64) -> i64) -> String {
    match reservation.held_for_ms {
        Some(millis) => format!("held for {}", countdown(left(millis))),
        None if reservation.condition == Condition::Whole => state_word(reservation.state).to_owned(),
        None => {
            let condition = protocol::Condition::from(reservation.condition).word();
            format!("{}, {condition}", state_word(reservation.state))
        }
    }
}

/// `part 1, since 14:05: lost: cancelled by an operator of its site`.
fn loss(loss: &Loss, dates: &Dates) -> String {
    let Loss { part, since, why, heal_at } = loss;
    let again = |at| format!("; no replacement was found, next attempt at {}", dates.wall(at));
    let again = heal_at.map(again).unwrap_or_default();
    format!("part {part}, since {}: {}{again}", dates.wall(*since), lost(*why))
}

/// `part 1, at 14:06: replaced south/cluster: lost: cancelled by an operator of its site`.
fn replacement(replacement: &Replacement, dates: &Dates) -> String {
    let Replacement { part, at, was, why } = replacement;
    format!("part {part}, at {}: replaced {}: {}", dates.wall(*at), was.resource, lost(*why))
}

fn lost(why: Lost) -> &'static str {
    match why {
        Lost::Degraded => "degraded: less capacity than promised",
        Lost::GivenUp => "lost: cancelled by its owner",
        Lost::Revoked => "lost: cancelled by an operator of its site",
        Lost::Ended => "lost: ended by its site",
        Lost::Forgotten => "lost: unknown at its site",
        Lost::NotChanged => "its site could not apply the new terms",
    }
}

pub(crate) fn print_reservation(
    reservation: &Reservation,
    dates: &Dates,
    left: impl Fn(i64) -> i64,
) -> io::Result<()> {
    let mut out = stdout();
    writeln!(out, "{}: {}", reservation.id, state(reservation, left))?;
    writeln!(out, "of {}, version {}", reservation.owner, reservation.version)?;
    for one in &reservation.losses {
        writeln!(out, "{}", loss(one, dates))?;
    }
    for one in &reservation.replaced {
        writeln!(out, "{}", replacement(one, dates))?;
    }
    if !reservation.slots.is_empty() {
        write!(out, "\n{}", parts(reservation, dates).table())?;
    }
    Ok(())
}

fn parts(reservation: &Reservation, dates: &Dates) -> Columns {
    let from = format!("from ({})", dates.zone_name());
    let mut table =
        Columns::new(&format!("part, site, resource, capacity, {from}, until, UTC, missing, jobs, cost"));
    for (part, slot) in reservation.slots.iter().enumerate() {
        let missing = reservation.missing.get(part).copied().unwrap_or(0);
        let jobs: Vec<String> =
            reservation.jobs.iter().filter(|job| job.part == part).map(|job| job.job.to_string()).collect();
        let rest = [
            if missing > 0 { missing.to_string() } else { NOTHING.to_owned() },
            if jobs.is_empty() { NOTHING.to_owned() } else { jobs.join(", ") },
            cost(slot.cost_thousandths),
        ];
        table.row([part.to_string()].into_iter().chain(place(slot, dates)).chain(rest));
    }
    table
}

/// One row per part; the reservation is named in its first row only.
pub(crate) fn print_reservations(
    reservations: &[Reservation],
    dates: &Dates,
    left: impl Fn(i64) -> i64,
) -> io::Result<()> {
    let from = format!("from ({})", dates.zone_name());
    let mut table =
        Columns::new(&format!("reservation, state, owner, site, resource, capacity, {from}, until, UTC"));
    for reservation in reservations {
        let mut first =
            [reservation.id.to_string(), state(reservation, &left), reservation.owner.to_string()];
        if reservation.slots.is_empty() {
            let nothing = std::iter::repeat_n(NOTHING.to_owned(), 6);
            table.row(std::mem::take(&mut first).into_iter().chain(nothing));
        }
        for slot in &reservation.slots {
            table.row(std::mem::take(&mut first).into_iter().chain(place(slot, dates)));
        }
    }
    write!(stdout(), "{}", table.table())
}

fn job_word(job: &Job) -> String {
    let word = match job.state {
        JobState::Placing => "placing",
        JobState::Waiting => "waiting",
        JobState::Claiming => "waiting for permission to start",
        JobState::Running => "running",
        JobState::Done => return or_nothing(job.exit, |exit| format!("done, exit code {exit}")),
        JobState::Cancelled => "cancelled",
        JobState::OutOfTime => "out of time",
        JobState::ReservationOver => "ended with its reservation",
        JobState::Lost => "lost",
        JobState::CouldNotStart => "could not start",
    };
    word.to_owned()
}

pub(crate) fn print_jobs(jobs: &[Job], dates: &Dates) -> io::Result<()> {
    let submitted = format!("submitted ({})", dates.zone_name());
    let mut table = Columns::new(&format!(
        "job, state, owner, site, resource, capacity, limit, {submitted}, started, expected, ended, \
         reservation, native id, more"
    ));
    for job in jobs {
        table.row([
            job.id.to_string(),
            job_word(job),
            job.owner.to_string(),
            or_nothing(job.site.as_ref(), ToString::to_string),
            or_nothing(job.resource.as_ref(), ToString::to_string),
            job.capacity.to_string(),
            length(job.limit_seconds),
            dates.wall(job.submitted),
            or_nothing(job.started, |at| dates.wall_end(job.submitted, at)),
            or_nothing(job.expected_start, |at| dates.wall_end(job.submitted, at)),
            or_nothing(job.ended, |at| dates.wall_end(job.submitted, at)),
            or_nothing(job.reservation, |id| id.to_string()),
            or_nothing(job.native_id.as_ref(), Clone::clone),
            job.detail.clone().unwrap_or_else(|| NOTHING.to_owned()),
        ]);
    }
    write!(stdout(), "{}", table.table())
}

/// All parties, and the resources under the names that the server uses. The server itself is the first party.
pub(crate) fn print_sites(sites: &[Site], dates: &Dates) -> io::Result<()> {
    let mut out = stdout();
    writeln!(out, "{}", parties(sites, dates).table())?;
    write!(out, "{}", resources(sites.first()).table())
}

fn parties(sites: &[Site], dates: &Dates) -> Columns {
    let heard = format!("last heard ({})", dates.zone_name());
    let mut table = Columns::new(&format!(
        "name, is a, state, address, {heard}, round trip, jobs run, jobs wait, version, attributes"
    ));
    for site in sites {
        table.row([
            site.name.to_string(),
            match site.role {
                Role::Site => "site".to_owned(),
                Role::Broker => "broker".to_owned(),
            },
            match site.state {
                Reachability::Up => "up".to_owned(),
                Reachability::Silent => "silent".to_owned(),
            },
            site.url.clone(),
            or_nothing(site.last_heard, |at| dates.wall(at)),
            or_nothing(site.round_trip_ms, |millis| format!("{millis} ms")),
            jobs(site, |load| load.running_jobs),
            jobs(site, |load| load.waiting_jobs),
            or_nothing(site.version.as_ref(), Clone::clone),
            attributes(&site.attributes),
        ]);
    }
    table
}

fn resources(server: Option<&Site>) -> Columns {
    let mut table = Columns::new("resource, site, capacity, kind, joins, price per hour, attributes");
    for Resource { name, kind, site, capacity, joins, attributes: more, price_thousandths, through: _ } in
        server.into_iter().flat_map(|site| &site.resources)
    {
        table.row([
            name.to_string(),
            site.to_string(),
            count(u64::from(*capacity)),
            kind.to_string(),
            or_nothing(joins.as_ref(), |[one, other]| format!("{one} and {other}")),
            cost(u64::from(*price_thousandths)),
            attributes(more),
        ]);
    }
    table
}

/// The sum over all resources; a dash if the site reports no load.
fn jobs(site: &Site, number: impl Fn(&Load) -> u32) -> String {
    let all: u64 = site.loads.iter().map(|load| u64::from(number(load))).sum();
    if site.loads.is_empty() { NOTHING.to_owned() } else { count(all) }
}

fn attributes(all: &BTreeMap<Name, AttributeValue>) -> String {
    let each: Vec<String> = all.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
    if each.is_empty() { NOTHING.to_owned() } else { each.join(" ") }
}

/// The cell of a row without a value.
const NOTHING: &str = "–";

/// A table whose empty columns are left out.
struct Columns {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// `head` is the list of column names, separated by `, `.
    fn new(head: &str) -> Columns {
        Columns { head: head.split(", ").map(str::to_owned).collect(), rows: Vec::new() }
    }

    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn table(&self) -> Table {
        let says = |cell: &String| !cell.is_empty() && cell != NOTHING;
        let spoken = |column: &usize| self.rows.iter().any(|row| row.get(*column).is_some_and(says));
        let kept: Vec<usize> = (0..self.head.len()).filter(|column| *column == 0 || spoken(column)).collect();
        let chosen = |row: &Vec<String>| -> Vec<String> {
            kept.iter().filter_map(|column| row.get(*column).cloned()).collect()
        };
        let mut table = Table::of_words(chosen(&self.head));
        for row in &self.rows {
            if let Some((first, rest)) = chosen(row).split_first() {
                table.row(first, rest.iter().cloned());
            }
        }
        table
    }
}

fn or_nothing<T>(value: Option<T>, say: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), say)
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
        let text = offer_table(&offers, &berlin).table().to_string();
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

#[cfg(test)]
mod columns_tests {
    use super::*;

    #[test]
    fn a_column_in_which_nobody_says_anything_is_left_out() {
        let mut columns = Columns::new("name, rating, cost");
        columns.row(["a", NOTHING, "3"].map(str::to_owned));
        columns.row(["b", "", NOTHING].map(str::to_owned));
        assert_eq!(columns.table().to_string(), "name  cost\n──────────\na     3\nb     –\n");
    }
}
