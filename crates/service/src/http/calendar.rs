//! Reservations as a calendar to subscribe to (iCalendar, RFC 5545): one event for each reservation that the viewer
//! may see, with a stable UID, so that calendar programs follow its changes.

use super::Shared;
use super::answer::{Refusal, written};
use super::limits::{Checked, Limits, optional_name};
use super::openapi::Refused;
use super::request::Filters;
use super::requester::{Changing, Requester, route};
use crate::security::{Identity, NotChanged, Role, UserLists, wall_seconds};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bookahead_api as api;
use bookahead_api::Code;
use bookahead_party::Filter;
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::ledger::Maintenance;
use bookahead_protocol::{Condition, Loss, Moment, Name, Replacement, Reservation, Slot, State as Life};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most events of a calendar, to bound the size of the answer to a few megabytes.
const MOST_EVENTS: usize = 10_000;

/// How far ahead maintenance is in the calendar: a year is as far as people plan by it.
const MAINTENANCE_AHEAD: Seconds = Seconds(366 * 86_400);

/// Most maintenance windows of a calendar: two a day.
const MOST_MAINTENANCE: usize = 732;

/// What is still to come. Calendar programs remove an event that is no longer in the calendar.
const SHOWN: [Life; 4] = [Life::Held, Life::Committed, Life::ChangeRequested, Life::Active];

/// Calendar of reservations
///
/// iCalendar, for subscriptions: reservations that are held, committed or active. Users see their own reservations
/// and those shared with them; operators and readers see all. A site adds its maintenance of the next year.
#[utoipa::path(
    get, path = "/v1/calendar.ics", operation_id = "calendar", tag = "reservations",
    params(api::CalendarQuery),
    responses((status = 200, description = "The calendar", body = String, content_type = "text/calendar"), Refused)
)]
pub(super) async fn calendar(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(query): Filters<api::CalendarQuery>,
) -> Result<Response, Refusal> {
    calendar_of(&shared, &requester, query.owner).await
}

/// Path of the calendar of one user, for programs that cannot send a token.
const FEED: &str = "/v1/calendars/{address}";

/// The secret in the address of a calendar, which takes the place of a token.
pub(super) fn address(request: &Request) -> Option<&str> {
    let is_feed = route(request) == FEED;
    is_feed.then(|| request.uri().path().rsplit('/').next().unwrap_or_default().trim_end_matches(".ics"))
}

/// Calendar at its address
///
/// iCalendar, as of the user who made the address. Needs no authentication: the address has a secret.
#[utoipa::path(
    get, path = "/v1/calendars/{address}", operation_id = "calendar_at_address", tag = "reservations", security(()),
    params(("address" = String, Path, description = "The last part of the address")),
    responses(
        (status = 200, description = "The calendar", body = String, content_type = "text/calendar"),
        (status = 404, description = "There is no calendar at this address", body = api::Problem,
            content_type = "application/problem+json"),
        Refused
    )
)]
pub(super) async fn feed(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
) -> Result<Response, Refusal> {
    calendar_of(&shared, &requester, None).await
}

/// Show whether my calendar has an address
///
/// The address itself is shown only when it is made.
#[utoipa::path(
    get, path = "/v1/calendar-address", operation_id = "show_calendar_address", tag = "reservations",
    responses((status = 200, description = "Whether there is one", body = api::CalendarAddressState), Refused)
)]
pub(super) async fn show_address(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
) -> Result<Response, Refusal> {
    let user = requester.manages(None)?;
    let made = shared.authenticator.lists().feed_made(&user);
    let made = made.and_then(|made| api::Timestamp::try_from(Time(made)).ok());
    written(&api::CalendarAddressState { made })
}

/// Make an address for my calendar
///
/// For calendar programs, which cannot send a token. It has a secret, gives read access to the calendar of the caller
/// only, and is valid until it is withdrawn. An earlier one is withdrawn.
#[utoipa::path(
    post, path = "/v1/calendar-address", operation_id = "make_calendar_address", tag = "reservations",
    responses((status = 200, description = "The address", body = api::CalendarAddress), Refused)
)]
pub(super) async fn make_address(
    State(shared): State<Arc<Shared>>,
    Changing(requester): Changing,
) -> Result<Response, Refusal> {
    let user = requester.manages(None)?;
    let secret = shared.change_lists(move |lists| lists.make_feed(&user, wall_seconds())).await?;
    written(&api::CalendarAddress { path: FEED.replace("{address}", &format!("{secret}.ics")) })
}

/// Withdraw the address of a calendar
///
/// It cannot be read there any more. Operators can withdraw the address of another user.
#[utoipa::path(
    delete, path = "/v1/calendar-address", operation_id = "withdraw_calendar_address", tag = "reservations",
    params(api::OfUser),
    responses((status = 204, description = "There is none now"), Refused)
)]
pub(super) async fn withdraw_address(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(of): Filters<api::OfUser>,
) -> Result<StatusCode, Refusal> {
    let user = requester.manages(of.user)?;
    shared.change_lists(move |lists| lists.withdraw_feed(&user)).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Checked for api::OfUser {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        optional_name("user", self.user.as_ref())
    }
}

impl Shared {
    /// The user at whose calendar's address a request arrived, with no other rights than to see what is its own.
    pub(super) fn calendar_reader(&self, secret: &str) -> Result<Identity, Refusal> {
        let user = self.authenticator.lists().reader(secret).ok_or_else(|| {
            Refusal::new(Code::NotFound, "there is no calendar at this address; it may have been withdrawn")
        })?;
        Ok(Identity { user, roles: [Role::User].into(), through: None })
    }

    /// Changes sign-outs or addresses of calendars, and waits until that is durable.
    pub(super) async fn change_lists<T: Send + 'static>(
        &self,
        change: impl FnOnce(&UserLists) -> Result<T, NotChanged> + Send + 'static,
    ) -> Result<T, Refusal> {
        let lists = self.authenticator.lists().clone();
        let changed = tokio::task::spawn_blocking(move || change(&lists)).await;
        let changed = changed.map_err(|_| Refusal::internal("a task ended unexpectedly"))?;
        changed.map_err(|why| {
            if !matches!(why, NotChanged::Full | NotChanged::BlocksTooMany) {
                tracing::error!(event = "user_list_not_written", "{why}");
            }
            Refusal::new(Code::Unavailable, why.to_string())
        })
    }
}

async fn calendar_of(
    shared: &Shared,
    requester: &Requester,
    owner: Option<Name>,
) -> Result<Response, Refusal> {
    let (owner, user) = requester.lists(owner)?;
    let mut filter = Filter {
        owner,
        user,
        blocked: requester.blocked(),
        states: SHOWN.into_iter().collect(),
        limit: shared.limits.most_page,
        ..Filter::default()
    };
    let mut calendar = Calendar::begin(&shared.about.name, &shared.about.version);
    let mut events = 0;
    // In pages, so that other readers do not wait long for the copy.
    loop {
        let wanted = Filter { limit: filter.limit.min(MOST_EVENTS - events), ..filter.clone() };
        let seen = shared.read_long(move |queries, now| (queries.list(now, &wanted), now));
        let (page, now) = seen.await?;
        page.reservations.iter().for_each(|reservation| {
            event(&mut calendar, &shared.about.name, now, reservation, requester.user());
        });
        events += page.reservations.len();
        filter.after = page.next;
        if page.next.is_none() || events >= MOST_EVENTS {
            break;
        }
    }
    let (seen, now) = shared.read(|queries, now| {
        let ahead = Interval::new(now.second(), now.second() + MAINTENANCE_AHEAD);
        (queries.maintenance(ahead), now)
    });
    let mut together: BTreeMap<(Interval, Name), Vec<Name>> = BTreeMap::new();
    for (resource, Maintenance { name, span }) in seen {
        together.entry((span.interval, name)).or_default().push(resource);
    }
    for ((interval, name), resources) in together.into_iter().take(MOST_MAINTENANCE) {
        maintenance(&mut calendar, &shared.about.name, now, interval, &name, &resources);
    }
    Ok(([(CONTENT_TYPE, "text/calendar; charset=utf-8")], calendar.end()).into_response())
}

/// One event per reservation, from its first start to its last end.
fn event(calendar: &mut Calendar, party: &Name, now: Moment, reservation: &Reservation, reader: &Name) {
    let begin = reservation.slots.iter().map(|slot| slot.interval.begin).min();
    let end = reservation.slots.iter().map(|slot| slot.interval.end).max();
    let (Some(begin), Some(end)) = (begin.and_then(date_time), end.and_then(date_time)) else { return };
    let Some(now) = date_time(now.second()) else { return };
    let slots = &reservation.slots;
    calendar.line("BEGIN", "VEVENT");
    calendar.text("UID", &format!("{}@{party}", reservation.id));
    calendar.line("DTSTAMP", &now);
    calendar.line("DTSTART", &begin);
    calendar.line("DTEND", &end);
    // Programs may ignore an event with a lower number than the one they have; a version only grows.
    calendar.line("SEQUENCE", &reservation.version.to_string());
    let is_invited = reservation.owner != *reader && reservation.guests().is_invited(reader);
    calendar.line("STATUS", if is_invited { "TENTATIVE" } else { status(reservation.state) });
    if is_invited {
        // It does not make the reader busy.
        calendar.line("TRANSP", "TRANSPARENT");
    }
    let capacities = || slots.iter().map(summary).collect::<Vec<_>>().join(", ");
    let summary = reservation.description.name.clone().unwrap_or_else(capacities);
    let summary = if is_invited { format!("Invitation: {summary}") } else { summary };
    calendar.text(
        "SUMMARY",
        &match reservation.condition {
            Condition::Whole => format!("{summary} ({})", reservation.owner),
            condition => format!("{}: {summary} ({})", condition.word(), reservation.owner),
        },
    );
    calendar.text("LOCATION", &sites(slots));
    calendar.text("DESCRIPTION", &description(reservation));
    calendar.line("END", "VEVENT");
}

/// One event per maintenance window, for all resources that it concerns.
fn maintenance(
    calendar: &mut Calendar,
    party: &Name,
    now: Moment,
    interval: Interval,
    name: &Name,
    resources: &[Name],
) {
    let (Some(begin), Some(end)) = (date_time(interval.begin), date_time(interval.end)) else { return };
    let Some(now) = date_time(now.second()) else { return };
    let resources = resources.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
    calendar.line("BEGIN", "VEVENT");
    calendar.text("UID", &format!("maintenance-{name}-{resources}-{begin}@{party}"));
    calendar.line("DTSTAMP", &now);
    calendar.line("DTSTART", &begin);
    calendar.line("DTEND", &end);
    calendar.line("CATEGORIES", "MAINTENANCE");
    // It does not make the reader busy.
    calendar.line("TRANSP", "TRANSPARENT");
    calendar.text("SUMMARY", &format!("Maintenance: {name}"));
    calendar.text("LOCATION", party.as_str());
    calendar.text("DESCRIPTION", &format!("Nothing can be booked on {resources}"));
    calendar.line("END", "VEVENT");
}

/// Status for calendar programs.
fn status(state: Life) -> &'static str {
    match state {
        Life::Requested | Life::Held => "TENTATIVE",
        Life::Committed | Life::ChangeRequested | Life::Active | Life::Completed => "CONFIRMED",
        Life::Rejected | Life::Expired | Life::Cancelled | Life::Terminated => "CANCELLED",
    }
}

fn summary(slot: &Slot) -> String {
    format!("{} of {}", slot.capacity, slot.resource)
}

fn sites(slots: &[Slot]) -> String {
    let mut sites: Vec<&str> = slots.iter().map(|slot| slot.site.as_str()).collect();
    sites.sort_unstable();
    sites.dedup();
    sites.join(", ")
}

fn description(reservation: &Reservation) -> String {
    let part = |slot: &Slot| {
        let [begin, end] = [slot.interval.begin, slot.interval.end].map(readable);
        format!("{} at {}, {begin} to {end}", summary(slot), slot.site)
    };
    let parts: Vec<_> = reservation.slots.iter().map(part).collect();
    let lost = |loss: &Loss| {
        let since = readable(loss.since);
        format!("\npart {}: {} since {since}", loss.part + 1, loss.why.word())
    };
    let mut losses: String = reservation.losses.iter().map(lost).collect();
    for Replacement { part, at, was, .. } in &reservation.replaced {
        let (part, at) = (part + 1, readable(*at));
        losses.push_str(&format!("\npart {part}: replaced {} at {at}", was.resource));
    }
    let Reservation { id, owner, state, .. } = reservation;
    let note = reservation.description.note.as_ref().map_or_else(String::new, |note| format!("{note}\n\n"));
    format!("{note}{id} of {owner}, {state}\n{}{losses}", parts.join("\n"))
}

/// An instant for people, such as `2026-11-16 09:00 UTC`. The zone of the reader is not known.
fn readable(time: Time) -> String {
    let instant =
        jiff::Timestamp::from_second(time.0).map(|instant| instant.to_zoned(jiff::tz::TimeZone::UTC));
    let Ok(zoned) = instant else { return String::new() };
    zoned
        .strftime(if zoned.second() == 0 { "%Y-%m-%d %H:%M UTC" } else { "%Y-%m-%d %H:%M:%S UTC" })
        .to_string()
}

/// An instant in UTC, such as 20261116T090000Z. `None` outside of the years 0 to 9999.
fn date_time(time: Time) -> Option<String> {
    let date = jiff::Timestamp::from_second(time.0).ok()?;
    let date = date.to_zoned(jiff::tz::TimeZone::UTC);
    (0..=9999).contains(&date.year()).then(|| date.strftime("%Y%m%dT%H%M%SZ").to_string())
}

/// Longest line in bytes, without the line break (RFC 5545, 3.1).
const LONGEST: usize = 75;

struct Calendar(String);

impl Calendar {
    fn begin(party: &Name, version: &str) -> Calendar {
        let mut calendar = Calendar(String::new());
        calendar.line("BEGIN", "VCALENDAR");
        calendar.line("VERSION", "2.0");
        calendar.text("PRODID", &format!("-//Bookahead//bookahead {version}//EN"));
        calendar.text("NAME", &format!("Reservations at {party}"));
        // NAME is of RFC 7986; older programs know only this property.
        calendar.text("X-WR-CALNAME", &format!("Reservations at {party}"));
        calendar.line("REFRESH-INTERVAL;VALUE=DURATION", "PT5M");
        calendar
    }

    /// A value other than text: an instant, a number, a keyword.
    fn line(&mut self, name: &str, value: &str) {
        self.folded(&format!("{name}:{value}"));
    }

    fn text(&mut self, name: &str, text: &str) {
        let mut escaped = String::with_capacity(text.len());
        for sign in text.chars() {
            match sign {
                '\\' | ';' | ',' => escaped.extend(['\\', sign]),
                '\n' => escaped.push_str("\\n"),
                // RFC 5545 allows no other control characters in text.
                control if control.is_control() => {}
                other => escaped.push(other),
            }
        }
        self.line(name, &escaped);
    }

    /// Folds a long line: the next line begins with a space.
    fn folded(&mut self, line: &str) {
        let mut length = 0;
        for sign in line.chars() {
            // The limit counts bytes, but a fold inside of a character would break its encoding.
            if length + sign.len_utf8() > LONGEST {
                self.0.push_str("\r\n ");
                length = 1;
            }
            self.0.push(sign);
            length += sign.len_utf8();
        }
        self.0.push_str("\r\n");
    }

    fn end(mut self) -> String {
        self.line("END", "VCALENDAR");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::Capacity;
    use bookahead_protocol::ReservationId;

    fn slot(resource: &str, begin: i64, end: i64) -> Slot {
        Slot {
            resource: resource.into(),
            site: "north, by the lake".into(),
            joins: None,
            interval: Interval::new(Time(begin), Time(end)),
            capacity: Capacity(64),
            slack: Seconds(0),
            free: None,
            tres: Default::default(),
            free_tres: Default::default(),
            rating: None,
            impact: None,
            cost: 0,
        }
    }

    #[test]
    fn an_event_spans_all_parts_of_its_reservation() {
        let nine = 1_794_819_600;
        let reservation = Reservation {
            given_up: None,
            refused: None,
            prepared: Vec::new(),
            losses: Vec::new(),
            replaced: Vec::new(),
            id: ReservationId(0x4f),
            owner: "ada".into(),
            state: Life::Committed,
            slots: vec![slot("cluster", nine, nine + 7_200), slot("link", nine - 60, nine + 3_600)],
            held_for: None,
            jobs: Vec::new(),
            missing: Vec::new(),
            condition: Default::default(),
            version: 3,
            description: Default::default(),
            shared_with: Default::default(),
            consents: Default::default(),
            created: None,
            request: None,
        };
        let mut calendar = Calendar::begin(&"north".into(), "0.1.0");
        event(&mut calendar, &"north".into(), Moment::of(Time(nine)), &reservation, &"ada".into());
        let text = calendar.end();
        for line in [
            "UID:rsv_4f@north",
            "DTSTAMP:20261116T090000Z",
            "DTSTART:20261116T085900Z",
            "DTEND:20261116T110000Z",
            "SEQUENCE:3",
            "STATUS:CONFIRMED",
            "SUMMARY:64 of cluster\\, 64 of link (ada)",
            "LOCATION:north\\, by the lake",
        ] {
            assert!(text.contains(&format!("\r\n{line}\r\n")), "{line} in {text}");
        }
        assert!(text.split("\r\n").all(|line| line.len() <= 75), "{text}");
        let unfolded = text.replace("\r\n ", "");
        assert!(unfolded.contains("2026-11-16 09:00 UTC to 2026-11-16 11:00 UTC"), "{unfolded}");
    }

    #[test]
    fn maintenance_is_one_event_for_all_its_resources() {
        let nine = 1_794_819_600;
        let mut calendar = Calendar::begin(&"north".into(), "0.1.0");
        let (interval, now) = (Interval::new(Time(nine), Time(nine + 14_400)), Moment::of(Time(nine - 60)));
        maintenance(
            &mut calendar,
            &"north".into(),
            now,
            interval,
            &"weekly".into(),
            &["a".into(), "b".into()],
        );
        let text = calendar.end().replace("\r\n ", "");
        for line in [
            "UID:maintenance-weekly-a\\, b-20261116T090000Z@north",
            "DTEND:20261116T130000Z",
            "SUMMARY:Maintenance: weekly",
            "DESCRIPTION:Nothing can be booked on a\\, b",
        ] {
            assert!(text.contains(&format!("\r\n{line}\r\n")), "{line} in {text}");
        }
    }

    #[test]
    fn what_has_no_date_is_left_out() {
        assert_eq!(date_time(Time(0)).as_deref(), Some("19700101T000000Z"));
        assert_eq!(date_time(Time::MAX), None);
        assert_eq!(date_time(Time(-62_167_219_201)), None);
    }
}

#[cfg(test)]
mod text_tests {
    use super::*;

    #[test]
    fn long_lines_are_folded_between_characters_and_can_be_unfolded() {
        let long = "ünïcödé; and, more \\ ".repeat(20);
        let mut calendar = Calendar::begin(&"north".into(), "0.1.0");
        calendar.text("SUMMARY", &format!("{long}\nsecond line\r"));
        let text = calendar.end();
        assert!(text.ends_with("END:VCALENDAR\r\n") && text.starts_with("BEGIN:VCALENDAR\r\n"));
        assert!(text.split("\r\n").all(|line| line.len() <= LONGEST), "{text}");
        assert!(!text.replace("\r\n", "").contains(['\r', '\n']));
        let unfolded = text.replace("\r\n ", "");
        let summary = unfolded.split("\r\n").find_map(|line| line.strip_prefix("SUMMARY:")).unwrap();
        let plain =
            summary.replace("\\n", "\n").replace("\\;", ";").replace("\\,", ",").replace("\\\\", "\\");
        assert_eq!(plain, format!("{long}\nsecond line"));
    }
}
