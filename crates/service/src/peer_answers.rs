//! Validates answers of peers as strictly as requests before the broker sees them, because they end up on
//! terminals, in logs and in its journal. An answer with a name that a request could not have is rejected as a
//! whole. Free text, such as the reason of a refusal, is shortened and escaped.

use crate::http::limits;
use crate::security::name::is_visible;
use bookahead_api as api;
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::message::{Replacement, Reservation, Slot};
use bookahead_protocol::missing::{self, Missing};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::request::{MOST_PARTS, MOST_SHARED};
use bookahead_protocol::tres::MOST_TRES;
use bookahead_protocol::{Answer, Name, Test, Tres, Value};

/// Largest answer to a call, in bytes. A thousand slots, the largest number requested from a peer, take about 300
/// kB; at most 256 calls to a peer are in progress.
pub(crate) const MOST_CALL_BYTES: usize = 4 << 20;

/// Largest list of sites, in bytes: a thousand sites with ten resources each, at a few hundred bytes, listed by
/// site and again by the broker that offers them. Only one such list is fetched from a peer at a time.
pub(crate) const MOST_LIST_BYTES: usize = 16 << 20;

/// Most offers, and most slots in all of them: ten times the default number requested from a peer.
const MOST_OFFERED: usize = 10_000;

/// Most jobs of a reservation; no site accepts more.
const MOST_JOBS: usize = 65_536;

/// Most entries of any other list in an answer.
const MOST_LISTED: usize = 1_024;

/// Longest text for people, in characters: a few lines.
const LONGEST_TEXT: usize = 500;

/// Why an answer is rejected.
pub(crate) type Unfit = String;

/// Checks an answer about a reservation.
pub(crate) fn checked(mut answer: Answer) -> Result<Answer, Unfit> {
    match &mut answer {
        Answer::Offers(offers) => {
            at_most("offers", offers.len(), MOST_OFFERED)?;
            at_most("slots", offers.iter().map(|offer| offer.slots.len()).sum(), MOST_OFFERED)?;
            offers.iter().flat_map(|offer| &offer.slots).try_for_each(slot)?;
        }
        Answer::Reservation(shown) => {
            // The broker has the request itself.
            shown.request = None;
            reservation(shown)?;
        }
        Answer::Problem(why) => problem(why)?,
    }
    Ok(answer)
}

/// Checks an answer about a job.
pub(crate) fn checked_job(answer: Result<Box<JobView>, Problem>) -> Result<JobOutcome, Unfit> {
    match answer {
        Ok(mut job) => {
            name("the owner of a job", &job.owner)?;
            job.site.iter().try_for_each(|site| name("the site of a job", site))?;
            job.resource.iter().try_for_each(|resource| name("the resource of a job", resource))?;
            limits::check_description(&job.description)?;
            job.native_id.iter_mut().chain(&mut job.detail).for_each(|text| *text = plain(text));
            Ok(Ok(job))
        }
        Err(mut why) => problem(&mut why).map(|()| Err(why)),
    }
}

type JobOutcome = Result<Box<JobView>, Problem>;

/// Checks the heartbeat of a peer with the rules for registrations.
pub(crate) fn check_heartbeat(heartbeat: &api::Heartbeat) -> Result<(), Unfit> {
    limits::check_heartbeat(heartbeat)
}

/// Shortens a text for people, and escapes invisible characters and those that change the text direction.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars().take(LONGEST_TEXT) {
        if character == ' ' || is_visible(character) {
            plain.push(character);
        } else {
            plain.extend(character.escape_unicode());
        }
    }
    if text.chars().nth(LONGEST_TEXT).is_some() {
        plain.push('…');
    }
    plain
}

fn reservation(shown: &mut Reservation) -> Result<(), Unfit> {
    if let Some(refused) = &mut shown.refused {
        name("the code of a refusal", &refused.code)?;
        refused.detail = plain(&refused.detail);
    }
    let Reservation { owner, slots, prepared, jobs, missing, losses, replaced, .. } = shown;
    let Reservation { description, shared_with, consents, .. } = shown;
    name("the owner of a reservation", owner)?;
    at_most("slots", slots.len(), MOST_PARTS)?;
    at_most("prepared slots", prepared.len(), MOST_PARTS)?;
    at_most("missing capacities", missing.len(), MOST_PARTS)?;
    at_most("losses", losses.len(), MOST_LISTED)?;
    at_most("replacements", replaced.len(), MOST_LISTED)?;
    at_most("jobs", jobs.len(), MOST_JOBS)?;
    at_most("users that it is shared with", shared_with.len(), MOST_SHARED)?;
    at_most("answers to its invitations", consents.len(), MOST_SHARED)?;
    let users = shared_with.iter().chain(consents.keys());
    users.into_iter().try_for_each(|user| name("a user that it is shared with", user))?;
    limits::check_description(description)?;
    let was = replaced.iter().map(|Replacement { was, .. }| was);
    slots.iter().chain(prepared.iter()).chain(was).try_for_each(slot)
}

fn slot(slot: &Slot) -> Result<(), Unfit> {
    let Slot { resource, site, joins, .. } = slot;
    name("the resource of a slot", resource)?;
    name("the site of a slot", site)?;
    [&slot.tres, &slot.free_tres].into_iter().try_for_each(tres)?;
    joins.iter().flatten().try_for_each(|site| name("a site that a link joins", site))
}

fn tres(all: &Tres) -> Result<(), Unfit> {
    at_most("tres", all.0.len(), MOST_TRES)?;
    all.0.keys().try_for_each(|one| name("the name of a tres", one))
}

fn problem(problem: &mut Problem) -> Result<(), Unfit> {
    let Problem { why, blockers, relaxations, site, busy_for: _ } = problem;
    site.iter().try_for_each(|site| name("the site of a refusal", site))?;
    at_most("blockers", blockers.len(), MOST_LISTED)?;
    at_most("relaxations", relaxations.len(), MOST_LISTED)?;
    match why {
        Why::ShortOf { wanted, free } => [&**wanted, &**free].into_iter().try_for_each(tres)?,
        Why::NoSuchResource { kind, missing, .. } => {
            name("the kind of a resource", kind)?;
            missing.as_deref().map_or(Ok(()), offered_instead)?;
        }
        Why::Priority { class, usable } => {
            at_most("priority classes", usable.len(), MOST_LISTED)?;
            std::iter::once(&*class).chain(&*usable).try_for_each(|class| name("a priority class", class))?;
        }
        Why::NotGranted(text)
        | Why::MalformedJob(text)
        | Why::JobRefused(text)
        | Why::NotAdmittedAsPeer(text) => *text = plain(text),
        _ => {}
    }
    Ok(())
}

fn offered_instead(missing: &Missing) -> Result<(), Unfit> {
    let names = |names: &[Name]| {
        at_most("alternatives", names.len(), missing::MOST_OFFERED)?;
        names.iter().try_for_each(|offered| name("an offered name", offered))
    };
    match missing {
        Missing::Resource { name: wanted, offered } => {
            name("the name of a resource", wanted)?;
            names(offered)
        }
        Missing::Kind { offered } => names(offered),
        Missing::Attribute { wanted, offered } => {
            name("the name of an attribute", &wanted.attribute)?;
            at_most("alternatives", offered.len(), missing::MOST_OFFERED)?;
            offered.iter().try_for_each(value)?;
            match &wanted.test {
                Test::Is(one) => value(one),
                Test::OneOf(several) => {
                    at_most("values", several.len(), MOST_LISTED)?;
                    several.iter().try_for_each(value)
                }
                Test::Present | Test::AtLeast(_) | Test::AtMost(_) => Ok(()),
            }
        }
        Missing::Tres { name: wanted, .. } => name("the name of a tres", wanted),
        Missing::Capacity { .. } => Ok(()),
    }
}

fn value(given: &Value) -> Result<(), Unfit> {
    match given {
        Value::Text(text) => name("the value of an attribute", text),
        Value::Number(_) => Ok(()),
    }
}

fn name(what: &str, given: &Name) -> Result<(), Unfit> {
    limits::check_name(what, given)
}

fn at_most(what: &str, many: usize, most: usize) -> Result<(), Unfit> {
    if many > most { Err(format!("it has {many} {what}; at most {most} are allowed")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::{Capacity, Interval, Seconds, Time};
    use bookahead_protocol::jobs::JobWord;
    use bookahead_protocol::message::{Condition, Offer};
    use bookahead_protocol::{JobId, ReservationId, State};

    /// ESC, CSI, a direction override, a zero-width space, an empty name, and one that is too long.
    fn unfit_names() -> Vec<Name> {
        let texts = ["a\u{1b}[31m", "a\u{9b}31m", "a\u{202e}b", "a\u{200b}", "", &"x".repeat(256)];
        texts.into_iter().map(Name::from).collect()
    }

    fn slot_of(resource: &str) -> Slot {
        Slot {
            resource: resource.into(),
            site: "north".into(),
            joins: None,
            interval: Interval::new(Time(0), Time(60)),
            capacity: Capacity(1),
            slack: Seconds(0),
            free: None,
            tres: Default::default(),
            free_tres: Default::default(),
            rating: None,
            impact: None,
            cost: 0,
        }
    }

    fn shown() -> Reservation {
        Reservation {
            id: ReservationId(1),
            owner: "ada".into(),
            state: State::Committed,
            slots: vec![slot_of("cluster")],
            held_for: None,
            prepared: Vec::new(),
            jobs: Vec::new(),
            missing: Vec::new(),
            condition: Condition::Whole,
            losses: Vec::new(),
            replaced: Vec::new(),
            given_up: None,
            refused: None,
            version: 1,
            description: Default::default(),
            shared_with: Default::default(),
            consents: Default::default(),
            created: None,
            request: None,
        }
    }

    #[test]
    fn an_answer_with_a_name_that_is_unfit_is_none() {
        let offers = |slot| checked(Answer::Offers(vec![Offer { slots: vec![slot] }]));
        assert!(offers(slot_of("rack 1/gpu nodes")).is_ok());
        assert!(checked(Answer::Reservation(shown())).is_ok());
        for unfit in unfit_names() {
            assert!(offers(Slot { resource: unfit.clone(), ..slot_of("a") }).is_err(), "{unfit:?}");
            assert!(offers(Slot { site: unfit.clone(), ..slot_of("a") }).is_err(), "{unfit:?}");
            let joins = Some(["a".into(), unfit.clone()]);
            assert!(offers(Slot { joins, ..slot_of("a") }).is_err(), "{unfit:?}");
            let owner = Reservation { owner: unfit.clone(), ..shown() };
            assert!(checked(Answer::Reservation(owner)).is_err(), "{unfit:?}");
            let prepared = vec![Slot { resource: unfit.clone(), ..slot_of("a") }];
            assert!(checked(Answer::Reservation(Reservation { prepared, ..shown() })).is_err(), "{unfit:?}");
            let why = Why::no_such_resource(0, 1, unfit.clone(), None);
            assert!(checked(Problem::new(why).into()).is_err());
            let missing = Missing::Kind { offered: vec![unfit] };
            let why = Why::no_such_resource(0, 1, "qpu".into(), Some(missing));
            assert!(checked(Problem::new(why).into()).is_err());
        }
    }

    #[test]
    fn an_answer_with_too_much_is_none() {
        let offers =
            |many: usize| checked(Answer::Offers(vec![Offer { slots: vec![slot_of("a")] }; many])).is_ok();
        assert_eq!((offers(10_000), offers(10_001)), (true, false));
        let slots = |many: usize| {
            checked(Answer::Reservation(Reservation { slots: vec![slot_of("a"); many], ..shown() })).is_ok()
        };
        assert_eq!((slots(32), slots(33)), (true, false));
    }

    #[test]
    fn text_for_people_is_escaped_and_shortened() {
        assert_eq!(plain("no room, Zoë: 3 < 4"), "no room, Zoë: 3 < 4");
        assert_eq!(plain("a\u{1b}[2J\n\u{9b}\u{202e}b"), r"a\u{1b}[2J\u{a}\u{9b}\u{202e}b");
        assert_eq!(plain(&"x".repeat(501)), "x".repeat(500) + "…");
        let refused = checked(Problem::new(Why::NotGranted("\u{1b}c".into())).into()).unwrap();
        assert_eq!(refused, Problem::new(Why::NotGranted(r"\u{1b}c".into())).into());
    }

    #[test]
    fn an_answer_about_a_job_is_checked_too() {
        let job = |owner: &str, detail: &str| {
            checked_job(Ok(Box::new(JobView {
                rerun: Default::default(),
                runs: Default::default(),
                id: JobId(1),
                owner: owner.into(),
                site: Some("north".into()),
                resource: None,
                reservation: None,
                capacity: Capacity(1),
                limit: Seconds(60),
                state: JobWord::Waiting,
                submitted: Time(0),
                started: None,
                ended: None,
                expected_start: None,
                exit: None,
                native_id: Some("12\u{7}".into()),
                detail: Some(detail.into()),
                description: Default::default(),
            })))
        };
        let told = job("ada", "\u{1b}c").unwrap().unwrap();
        assert_eq!((told.native_id.unwrap(), told.detail.unwrap()), (r"12\u{7}".into(), r"\u{1b}c".into()));
        assert!(job("ada\u{202e}", "").is_err());
        let refused = checked_job(Err(Problem::new(Why::JobRefused("\u{9b}".into())))).unwrap();
        assert_eq!(refused.unwrap_err().why, Why::JobRefused(r"\u{9b}".into()));
    }
}
