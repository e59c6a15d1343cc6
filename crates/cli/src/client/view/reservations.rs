//! Reservations for people: one in every detail, or many in a table.

use super::columns::{Columns, NOTHING};
use super::offers::{cost, place};
use crate::client::dates::{Dates, countdown};
use bookahead_api::{Reservation, State};
use bookahead_protocol::life_cycle;
use std::io::{self, Write, stdout};

/// The name of a state.
pub(crate) fn word(state: State) -> &'static str {
    life_cycle::State::from(state).word()
}

/// `held for 4:59`; `left` is on the user's clock.
pub(crate) fn state(reservation: &Reservation, left: impl Fn(i64) -> i64) -> String {
    match reservation.held_for_ms {
        Some(millis) => format!("held for {}", countdown(left(millis))),
        None => word(reservation.state).to_owned(),
    }
}

/// One, in every detail.
pub(crate) fn print(reservation: &Reservation, dates: &Dates, left: impl Fn(i64) -> i64) -> io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}: {}", reservation.id, state(reservation, left))?;
    writeln!(out, "of {}, version {}", reservation.owner, reservation.version)?;
    if !reservation.slots.is_empty() {
        write!(out, "\n{}", parts(reservation, dates).table())?;
    }
    Ok(())
}

fn parts(reservation: &Reservation, dates: &Dates) -> Columns {
    let from = format!("from ({})", dates.zone_name());
    let mut table = Columns::new(&[
        "part", "site", "resource", "capacity", &from, "until", "UTC", "missing", "jobs", "cost",
    ]);
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

/// Many, a row for each part.
pub(crate) fn print_list(
    reservations: &[Reservation],
    dates: &Dates,
    left: impl Fn(i64) -> i64,
) -> io::Result<()> {
    let from = format!("from ({})", dates.zone_name());
    let mut table = Columns::new(&[
        "reservation",
        "state",
        "owner",
        "site",
        "resource",
        "capacity",
        &from,
        "until",
        "UTC",
    ]);
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
    write!(stdout().lock(), "{}", table.table())
}
