//! Human-readable answers: tables and key-value lines on standard output, as wide as the terminal. With `--json` the
//! documents are printed instead.

use crate::client::dates::{Dates, countdown, length};
use crate::client::request::values::shown;
use crate::client::session::Session;
use crate::output::{count, say, stdout};
use crate::table::{Column, NOTHING, Table, terminal_width, wrapped};
use bookahead_api::{
    AttributeValue, BatchState, Condition, Cost, FineSeconds, Job, JobState, Load, Loss, Lost, Offer, Offers,
    Part, Reachability, Replacement, Reservation, Resource, Role, Site, Slot, State,
};
use bookahead_protocol::{self as protocol, Name, life_cycle};
use std::collections::BTreeMap;
use std::io::{self, Write};

pub(crate) fn print_offers(offers: &Offers, dates: &Dates) -> io::Result<()> {
    offer_table(offers, dates).print()?;
    offers.maintenance.iter().try_for_each(|one| {
        let (begin, end) = (dates.short(one.begin), dates.short_end(one.begin, one.end));
        writeln!(stdout(), "maintenance `{}` on {}: {begin} until {end}", one.name, one.resource)
    })
}

fn offer_table(offers: &Offers, dates: &Dates) -> Table {
    let mut table = Table::new([
        Column::right("offer"),
        Column::right("part"),
        Column::left("site").drop(4),
        Column::left("resource"),
        Column::right("capacity"),
        Column::left(format!("begin ({})", dates.zone_name())),
        Column::left("end"),
        Column::left("begins at the latest"),
        Column::right("rating").drop(1),
        Column::right("jobs delayed").drop(5),
        Column::right("longest delay").drop(2),
        Column::right("cost").drop(3),
    ]);
    let mut rest = offers.offers.as_slice();
    let mut number = 0;
    while let Some((offer, latest, more)) = next_offer(rest) {
        number += 1;
        for (part, slot) in offer.slots.iter().enumerate() {
            let number = if part == 0 { number.to_string() } else { String::new() };
            let part = if offer.slots.len() > 1 { (part + 1).to_string() } else { String::new() };
            let latest = latest.or_else(|| {
                let latest = slot.begin.time() + bookahead_plan::Seconds(slot.slack_seconds);
                (slot.slack_seconds > 0).then(|| latest.try_into().ok()).flatten()
            });
            let latest = or_nothing(latest, |latest| dates.short_end(slot.begin, latest));
            let cells = [number, part].into_iter().chain(place(slot, dates)).chain([latest]);
            table.row(cells.chain(ratings(slot)));
        }
        rest = more;
    }
    table
}

/// Merges the first offer with the following ones that differ only in their start, if their ranges of starts are
/// contiguous. Returns the latest of these starts, and the remaining offers.
fn next_offer(offers: &[Offer]) -> Option<(&Offer, Option<bookahead_api::Timestamp>, &[Offer])> {
    let (first, mut rest) = offers.split_first()?;
    let [slot] = first.slots.as_slice() else { return Some((first, None, rest)) };
    let mut reached = slot.begin.time() + bookahead_plan::Seconds(slot.slack_seconds);
    let mut latest = None;
    while let Some((next, more)) = rest.split_first()
        && let [another] = next.slots.as_slice()
        && is_same_but_later(slot, another)
        && another.begin.time() <= reached
    {
        reached = reached.max(another.begin.time() + bookahead_plan::Seconds(another.slack_seconds));
        latest = reached.try_into().ok();
        rest = more;
    }
    Some((first, latest, rest))
}

fn is_same_but_later(slot: &Slot, later: &Slot) -> bool {
    let terms = |slot: &Slot| (slot.capacity, slot.rating, slot.impact, slot.cost);
    slot.resource == later.resource
        && slot.site == later.site
        && terms(slot) == terms(later)
        && slot.begin < later.begin
        && later.end.time() - later.begin.time() == slot.end.time() - slot.begin.time()
}

fn place(slot: &Slot, dates: &Dates) -> [String; 5] {
    // A broker prefixes the name of a resource with that of its site.
    let is_named = slot.resource.as_str().starts_with(&format!("{}/", slot.site));
    [
        if is_named { String::new() } else { slot.site.to_string() },
        slot.resource.to_string(),
        with_tres(slot.capacity, &slot.tres),
        dates.short(slot.begin),
        dates.short_end(slot.begin, slot.end),
    ]
}

/// The capacity, and things beside it: `4 gres/gpu:a100=2`.
fn with_tres(capacity: u32, tres: &BTreeMap<Name, u32>) -> String {
    tres.iter().fold(count(u64::from(capacity)), |text, (name, amount)| format!("{text} {name}={amount}"))
}

fn ratings(slot: &Slot) -> [String; 4] {
    let impact = slot.impact;
    [
        or_nothing(slot.rating, |rating| format!("{:.3}", rating.number())),
        or_nothing(impact, |impact| impact.delayed_jobs.to_string()),
        or_nothing(impact, |impact| length(impact.longest_delay_seconds)),
        cost(slot.cost),
    ]
}

/// `3.200`; a dash if it is free.
fn cost(Cost(thousandths): Cost) -> String {
    if thousandths == 0 {
        NOTHING.to_owned()
    } else {
        format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
    }
}

pub(crate) fn state_word(state: State) -> &'static str {
    life_cycle::State::from(state).word()
}

/// ANSI colours of the states of reservations, jobs and sites. States that need attention are yellow or red.
fn state_colour(word: &str) -> Option<&'static str> {
    const GREEN: &str = "32";
    const YELLOW: &str = "33";
    const RED: &str = "31";
    const DIM: &str = "2";
    // A state may be followed by details, such as 'held for 4:59' or 'rejected: no-room'.
    let first = word.split([' ', ',', ':']).next().unwrap_or("");
    match first {
        _ if word.contains("broken") || word.contains("degraded") => Some(RED),
        _ if word.contains("batch system") || word.contains("invitation") => Some(YELLOW),
        "committed" | "active" | "running" | "up" => Some(GREEN),
        "held" | "requested" | "change-requested" | "waiting" | "placing" => Some(YELLOW),
        "rejected" | "terminated" | "lost" | "silent" | "could" | "out" => Some(RED),
        "expired" | "cancelled" | "completed" | "done" | "ended" => Some(DIM),
        _ => None,
    }
}

/// `held for 4:59`, `rejected: no-room`; `left` converts to the user's clock.
fn state(reservation: &Reservation, left: impl Fn(FineSeconds) -> i64) -> String {
    if let Some(refused) = &reservation.refused {
        return format!("{}: {}", state_word(reservation.state), refused.code);
    }
    if reservation.invitation {
        return format!("{}, invitation", state_word(reservation.state));
    }
    match reservation.held_for_seconds {
        Some(held) => format!("held for {}", countdown(left(held))),
        None if reservation.condition == Condition::Whole => state_word(reservation.state).to_owned(),
        None => {
            let condition = protocol::Condition::from(reservation.condition).word();
            format!("{}, {condition}", state_word(reservation.state))
        }
    }
}

/// `part 1, since 14:05: lost: cancelled by an operator of its site`.
fn loss(loss: &Loss, several: bool, dates: &Dates) -> String {
    let Loss { part, since, why, heal_at } = loss;
    let again = |at| format!("; no replacement was found, next attempt at {}", dates.wall(at));
    let again = heal_at.map(again).unwrap_or_default();
    format!("{}since {}: {}{again}", of_part(*part, several), dates.wall(*since), lost(*why))
}

/// `part 1, at 14:06: replaced south/cluster: lost: cancelled by an operator of its site`.
fn replacement(replacement: &Replacement, several: bool, dates: &Dates) -> String {
    let Replacement { part, at, was, why } = replacement;
    format!("{}at {}: {} was {}", of_part(*part, several), dates.wall(*at), was.resource, lost(*why))
}

/// Parts are numbered from 1, and only if there are several.
fn of_part(part: usize, several: bool) -> String {
    if several { format!("part {}, ", part + 1) } else { String::new() }
}

fn lost(why: Lost) -> &'static str {
    match why {
        Lost::Degraded => "degraded: less capacity than promised",
        Lost::GivenUp => "lost: cancelled by its owner",
        Lost::Revoked => "lost: cancelled by an operator of its site",
        Lost::Ended => "lost: ended by its site",
        Lost::Forgotten => "lost: unknown at its site",
        Lost::NotChanged => "not changed: its site could not apply the new terms",
    }
}

/// Prints key-value lines below a first line.
fn details(out: &mut impl Write, lines: &[(&str, String)]) -> io::Result<()> {
    let lines: Vec<_> = lines.iter().filter(|(_, value)| !value.is_empty() && value != NOTHING).collect();
    let widest = lines.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let room = terminal_width().map_or(usize::MAX, |width| width.saturating_sub(widest + 4).max(20));
    for (key, value) in lines {
        for (at, line) in wrapped(value, room).iter().enumerate() {
            let key = if at == 0 { key } else { &"" };
            writeln!(out, "  {key:<widest$}  {line}")?;
        }
    }
    Ok(())
}

pub(crate) fn print_reservation(reservation: &Reservation, session: &Session) -> io::Result<()> {
    let dates = session.dates();
    let mut out = stdout();
    writeln!(out, "{}: {}", reservation.id, state(reservation, |millis| session.left_ms(millis)))?;
    let mut lines =
        described(&reservation.name, &reservation.note, &reservation.labels, &reservation.priority);
    lines.push(("owner", reservation.owner.to_string()));
    lines.push(("shared with", super::invitation::guests(reservation)));
    let jobs = |part: usize| {
        let jobs = reservation.jobs.iter().filter(|job| job.part == part).map(|job| session.short(job.job));
        jobs.collect::<Vec<_>>().join(", ")
    };
    let missing = |part: usize| reservation.missing.get(part).copied().filter(|missing| *missing > 0);
    if let [slot] = reservation.slots.as_slice() {
        let missing =
            missing(0).map(|missing| format!(", of which {missing} are missing")).unwrap_or_default();
        lines.extend([
            ("resource", format!("{} at {}", slot.resource, slot.site)),
            ("capacity", format!("{}{missing}", with_tres(slot.capacity, &slot.tres))),
            ("begin", dates.both(slot.begin)),
            ("end", dates.both(slot.end)),
            ("jobs", jobs(0)),
            ("cost", cost(slot.cost)),
        ]);
    }
    lines.extend(reservation.refused.iter().map(|refused| ("reason", refused.detail.clone())));
    let several = reservation.slots.len() > 1;
    lines.extend(reservation.losses.iter().map(|one| ("lost", loss(one, several, &dates))));
    lines.extend(reservation.replaced.iter().map(|one| ("replaced", replacement(one, several, &dates))));
    lines.push(("created", or_nothing(reservation.created, |at| dates.both(at))));
    let asked = reservation.request.iter().flat_map(|request| request.parts.iter().enumerate());
    lines.extend(asked.map(|(part, asked)| ("asked for", asked_for(part, several, asked, &dates))));
    lines.push(("version", reservation.version.to_string()));
    details(&mut out, &lines)?;
    if several {
        writeln!(out)?;
        drop(out);
        let mut table = Table::new([
            Column::right("part"),
            Column::left("site").drop(3),
            Column::left("resource"),
            Column::right("capacity"),
            Column::left(format!("begin ({})", dates.zone_name())),
            Column::left("end"),
            Column::right("missing"),
            Column::left("jobs").drop(2),
            Column::right("cost").drop(1),
        ]);
        for (part, slot) in reservation.slots.iter().enumerate() {
            let missing = or_nothing(missing(part), |missing| missing.to_string());
            let rest = [missing, jobs(part), cost(slot.cost)];
            table.row([(part + 1).to_string()].into_iter().chain(place(slot, &dates)).chain(rest));
        }
        table.print()?;
    }
    Ok(())
}

/// Name, note, labels and priority class, as far as they are there.
fn described(
    name: &Option<String>,
    note: &Option<String>,
    labels: &BTreeMap<String, String>,
    priority: &Option<String>,
) -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> = name.iter().map(|name| ("name", name.clone())).collect();
    let note = note.iter().flat_map(|note| note.lines()).filter(|line| !line.is_empty()).enumerate();
    lines.extend(note.map(|(at, line)| (if at == 0 { "note" } else { "" }, line.to_owned())));
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    lines.push(("labels", labels.join(", ")));
    lines.push(("priority", priority.clone().unwrap_or_default()));
    lines
}

/// `64 processors for 2h, between 2026-11-16 09:00 and 18:00`.
fn asked_for(part: usize, several: bool, asked: &Part, dates: &Dates) -> String {
    let Part { capacity, kind, duration_seconds, earliest_start, latest_end, .. } = asked;
    let (capacity, duration) = (count(u64::from(*capacity)), length(*duration_seconds));
    let (begin, end) = (dates.wall(*earliest_start), dates.short_end(*earliest_start, *latest_end));
    format!("{}{capacity} {kind} for {duration}, between {begin} and {end}", of_part(part, several))
}

/// One row per part; the reservation is named in its first row only.
pub(crate) fn print_reservations(reservations: &[Reservation], session: &Session) -> io::Result<()> {
    let dates = session.dates();
    let named = reservations.iter().any(|reservation| reservation.name.is_some());
    let name = named.then(|| Column::left("name").drop(3));
    let columns = [Column::left("reservation").whole()].into_iter().chain(name).chain([
        Column::left("state").paint(state_colour),
        Column::left("owner").drop(2),
        Column::left("site").drop(1),
        Column::left("resource"),
        Column::right("capacity"),
        Column::left(format!("begin ({})", dates.zone_name())),
        Column::left("end"),
    ]);
    let mut table = Table::new(columns);
    for reservation in reservations {
        let state = state(reservation, |millis| session.left_ms(millis));
        let name = named.then(|| reservation.name.clone().unwrap_or_default());
        let first = [session.short(reservation.id)].into_iter().chain(name);
        let first: Vec<_> = first.chain([state, reservation.owner.to_string()]).collect();
        // Blank in the rows of further parts.
        let blank = vec![String::new(); first.len()];
        if reservation.slots.is_empty() {
            table.row(first.clone());
        }
        for (part, slot) in reservation.slots.iter().enumerate() {
            let begins = if part == 0 { &first } else { &blank };
            table.row(begins.iter().cloned().chain(place(slot, &dates)));
        }
    }
    print_unless_empty(&table, "no reservations; see also --state all")
}

fn print_unless_empty(table: &Table, otherwise: &str) -> io::Result<()> {
    if table.is_empty() {
        say!("{otherwise}");
        return Ok(());
    }
    table.print()
}

pub(crate) fn job_word(job: &Job) -> String {
    job_state_word(job.state, job.exit)
}

pub(crate) fn job_state_word(state: JobState, exit: Option<i32>) -> String {
    let word = match state {
        JobState::Placing => "placing",
        JobState::Waiting => "waiting",
        JobState::Claiming => "waiting for permission to start",
        JobState::Running => "running",
        JobState::Done => match exit {
            Some(exit) => return format!("done, exit code {exit}"),
            None => "done",
        },
        JobState::Cancelled => "cancelled",
        JobState::OutOfTime => "out of time",
        JobState::ReservationOver => "ended with its reservation",
        JobState::Lost => "lost",
        JobState::CouldNotStart => "could not start",
    };
    word.to_owned()
}

pub(crate) fn print_jobs(jobs: &[Job], session: &Session) -> io::Result<()> {
    let dates = session.dates();
    let named = jobs.iter().any(|job| job.name.is_some());
    let name = named.then(|| Column::left("name").drop(7));
    let columns = [Column::left("job").whole()].into_iter().chain(name).chain([
        Column::left("state").paint(state_colour),
        Column::left("owner").drop(4),
        Column::left("resource"),
        Column::right("capacity").drop(8),
        Column::right("limit").drop(6),
        Column::left(format!("submitted ({})", dates.zone_name())).drop(3),
        Column::left("started"),
        Column::left("expected"),
        Column::left("ended"),
        Column::left("reservation").whole().drop(5),
        Column::left("native id").drop(2),
        Column::left("detail").drop(1),
    ]);
    let mut table = Table::new(columns);
    for job in jobs {
        let name = named.then(|| job.name.clone().unwrap_or_default());
        let first = [session.short(job.id)].into_iter().chain(name);
        table.row(first.chain([
            job_word(job),
            job.owner.to_string(),
            job_place(job),
            job.capacity.to_string(),
            length(job.limit_seconds),
            dates.short(job.submitted),
            or_nothing(job.started, |at| dates.short(at)),
            or_nothing(job.expected_start, |at| dates.short(at)),
            or_nothing(job.ended, |at| dates.short(at)),
            or_nothing(job.reservation, |id| session.short(id)),
            or_nothing(job.native_id.as_ref(), Clone::clone),
            or_nothing(job.detail.as_ref(), Clone::clone),
        ]));
    }
    print_unless_empty(&table, "no jobs")
}

fn job_place(job: &Job) -> String {
    match (&job.site, &job.resource) {
        // A broker's name of a resource begins with the name of its site.
        (Some(site), Some(resource)) if resource.as_str().starts_with(&format!("{site}/")) => {
            resource.to_string()
        }
        (Some(site), Some(resource)) => format!("{site}/{resource}"),
        (site, resource) => or_nothing(site.as_ref().or(resource.as_ref()), ToString::to_string),
    }
}

pub(crate) fn print_job(job: &Job, session: &Session) -> io::Result<()> {
    let dates = session.dates();
    let mut out = stdout();
    writeln!(out, "{}: {}", job.id, job_word(job))?;
    let mut lines = described(&job.name, &job.note, &job.labels, &job.priority);
    lines.extend([
        ("owner", job.owner.to_string()),
        ("resource", job_place(job)),
        ("capacity", count(u64::from(job.capacity))),
        ("limit", length(job.limit_seconds)),
        ("submitted", dates.both(job.submitted)),
        ("started", or_nothing(job.started, |at| dates.both(at))),
        ("expected", or_nothing(job.expected_start, |at| dates.both(at))),
        ("ended", or_nothing(job.ended, |at| dates.both(at))),
        ("reservation", or_nothing(job.reservation, |id| id.to_string())),
        ("native id", or_nothing(job.native_id.as_ref(), Clone::clone)),
        ("detail", or_nothing(job.detail.as_ref(), Clone::clone)),
    ]);
    lines.extend((job.restarts > 0).then(|| ("restarts", job.restarts.to_string())));
    let lost =
        job.attempts.iter().map(|lost| format!("{} at {}: {}", lost.site, dates.short(lost.at), lost.why));
    lines.extend(lost.map(|lost| ("lost at", lost)));
    details(&mut out, &lines)
}

/// All parties, and the resources under the names that the server uses. The server itself is the first party.
pub(crate) fn print_sites(sites: &[Site], dates: &Dates) -> io::Result<()> {
    parties(sites, dates).print()?;
    writeln!(stdout())?;
    resources(sites.first()).print()
}

fn parties(sites: &[Site], dates: &Dates) -> Table {
    let mut table = Table::new([
        Column::left("name"),
        Column::left("role"),
        Column::left("state").paint(state_colour),
        Column::left("address").drop(4),
        Column::left(format!("last heard ({})", dates.zone_name())).drop(3),
        Column::right("round trip").drop(5),
        Column::right("running jobs"),
        Column::right("waiting jobs"),
        Column::left("version").drop(1),
        Column::left("attributes").drop(2),
    ]);
    for site in sites {
        table.row([
            site.name.to_string(),
            match site.role {
                Role::Site => "site".to_owned(),
                Role::Broker => "broker".to_owned(),
            },
            match (site.state, site.batch) {
                (Reachability::Up, Some(BatchState::Slow)) => "up, batch system slow".to_owned(),
                (Reachability::Up, Some(BatchState::Silent)) => "up, batch system silent".to_owned(),
                (Reachability::Up, _) => "up".to_owned(),
                (Reachability::Silent, _) => "silent".to_owned(),
            },
            site.url.clone(),
            or_nothing(site.last_heard, |at| dates.short(at)),
            or_nothing(site.round_trip_seconds, |took| format!("{} ms", took.0)),
            jobs(site, |load| load.running_jobs),
            jobs(site, |load| load.waiting_jobs),
            or_nothing(site.version.as_ref(), Clone::clone),
            attributes(&site.attributes),
        ]);
    }
    table
}

fn resources(server: Option<&Site>) -> Table {
    let mut table = Table::new([
        Column::left("resource"),
        Column::left("site").drop(1),
        Column::right("capacity"),
        Column::left("kind"),
        Column::left("joins"),
        Column::right("price per hour"),
        Column::left("attributes").drop(2),
    ]);
    for Resource { name, kind, site, capacity, tres, joins, attributes: more, price, through: _ } in
        server.into_iter().flat_map(|site| &site.resources)
    {
        table.row([
            name.to_string(),
            site.to_string(),
            with_tres(*capacity, tres),
            kind.to_string(),
            or_nothing(joins.as_ref(), |[one, other]| format!("{one} and {other}")),
            cost(Cost(u64::from(price.0))),
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

fn or_nothing<T>(value: Option<T>, say: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), say)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_api::{Impact, Timestamp};
    use bookahead_plan::Seconds;
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
            tres: BTreeMap::new(),
            free_tres: BTreeMap::new(),
            rating: Some(bookahead_api::Rating(970_000)),
            impact: Some(Impact { delayed_jobs: 1, total_delay_seconds: 120, longest_delay_seconds: 120 }),
            cost: Cost(3_200),
        };
        let offers = Offers {
            offers: vec![Offer { slots: vec![slot] }],
            looked_seconds_ago: None,
            maintenance: Vec::new(),
        };
        let now = "2026-11-15T15:30:00Z".parse().unwrap();
        let berlin = Dates::new(TimeZone::get("Europe/Berlin").unwrap(), now);
        let text = offer_table(&offers, &berlin).render(None, false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("begin (Europe/Berlin)") && !lines[0].contains("part"), "{text}");
        for word in ["north", "tomorrow 09:00", "11:00", "09:15", "0.970", "2m 00s", "3.200"] {
            assert!(lines[2].contains(word), "{word} is missing:\n{text}");
        }
        let narrow = offer_table(&offers, &berlin).render(Some(80), false);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }

    fn offer(begin: &str, slack_seconds: i64, rating: u32) -> Offer {
        let begin: bookahead_api::Timestamp = begin.parse().unwrap();
        let end = Timestamp::nearest(begin.time() + Seconds(3_600));
        Offer {
            slots: vec![Slot {
                resource: "cluster".into(),
                site: "north".into(),
                joins: None,
                begin,
                end,
                capacity: 4,
                slack_seconds,
                free: None,
                tres: BTreeMap::new(),
                free_tres: BTreeMap::new(),
                rating: Some(bookahead_api::Rating(rating)),
                impact: None,
                cost: Cost(0),
            }],
        }
    }

    #[test]
    fn offers_that_differ_only_in_their_begin_are_one_line() {
        let offers = Offers {
            offers: vec![
                offer("2026-11-16T08:00:00Z", 600, 1),
                offer("2026-11-16T08:10:00Z", 600, 1),
                offer("2026-11-16T08:20:00Z", 300, 1),
                offer("2026-11-16T08:30:00Z", 0, 1),
                offer("2026-11-16T08:30:00Z", 0, 2),
            ],
            looked_seconds_ago: None,
            maintenance: Vec::new(),
        };
        let utc = Dates::new(TimeZone::UTC, "2026-11-15T15:30:00Z".parse().unwrap());
        let text = offer_table(&offers, &utc).render(None, false);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 3, "a gap or another rating begins a new line:\n{text}");
        assert!(lines[0].contains("tomorrow 08:00") && lines[0].contains("08:25"), "{text}");
    }
}
