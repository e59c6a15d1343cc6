//! Compares acknowledged answers with the reservations that sites and brokers list. No I/O and no clock.
//!
//! Two kinds of rules. *At once*: capacity, and each promise at the party that made it. *Settled*: the parts that a
//! broker books at sites may lag behind after a crash, so parts and orphans are checked once nothing changes any more.

use bookahead_protocol::{ReservationId, State};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Around the deadline of a hold both states are accepted, because checker and daemon read the clock at different
/// moments.
const MARGIN_MS: i64 = 3_000;

/// Capacity of a site from `begin` until just before `end`, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term {
    pub(crate) site: String,
    pub(crate) begin: i64,
    pub(crate) end: i64,
    pub(crate) capacity: u32,
}

/// The last acknowledged answer about one reservation. Every reservation has an owner of its own, so that the parts of
/// a co-reservation are found at the sites by their owner.
#[derive(Debug, Clone)]
pub(crate) struct Promise {
    /// The site or broker that answered.
    pub(crate) party: String,
    pub(crate) id: ReservationId,
    pub(crate) owner: String,
    pub(crate) expected: Expected,
    pub(crate) terms: Vec<Term>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Bounds of its deadline, in milliseconds: it was granted at some moment between the call and its answer.
    Held {
        at_least: i64,
        at_most: i64,
    },
    Committed,
    /// Refused, cancelled or expired: it takes no capacity.
    Over,
}

/// A live reservation as a party lists it.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) id: ReservationId,
    pub(crate) owner: String,
    pub(crate) state: State,
    /// Whether no part of it is reported as missing or lost.
    pub(crate) whole: bool,
    pub(crate) terms: Vec<Term>,
    /// Terms of a prepared change; they take capacity too.
    pub(crate) prepared: Vec<Term>,
}

/// All live reservations of one site or broker.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    pub(crate) party: String,
    /// None for a broker, which has no capacity of its own.
    pub(crate) capacity: Option<u32>,
    pub(crate) reservations: Vec<Listed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rule {
    /// An acknowledged answer is no longer true.
    LostPromise,
    /// More capacity is booked than the site has.
    DoubleSale,
    /// A co-reservation exists at some of its sites only.
    HalfBooked,
    /// A repeated call got another answer.
    NotOnce,
    /// A reservation takes capacity, but no client has it.
    Orphan,
    /// A call got no answer although all parties run, or an invalid one.
    NoAnswer,
    /// A journal does not agree with its checksums.
    BadJournal,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) detail: String,
}

impl Violation {
    pub(crate) fn new(rule: Rule, detail: impl Into<String>) -> Violation {
        Violation { rule, detail: detail.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = match self.rule {
            Rule::LostPromise => "promise lost",
            Rule::DoubleSale => "capacity sold twice",
            Rule::HalfBooked => "half booked",
            Rule::NotOnce => "repeated call answered differently",
            Rule::Orphan => "orphan",
            Rule::NoAnswer => "no answer",
            Rule::BadJournal => "damaged journal",
        };
        write!(f, "{rule}: {}", self.detail)
    }
}

impl Promise {
    fn name(&self) -> String {
        format!("{} of {} at {}", self.id, self.owner, self.party)
    }

    /// Whether it may take capacity, and whether it must.
    fn may_and_must(&self, now_ms: i64) -> (bool, bool) {
        match self.expected {
            Expected::Committed => (true, true),
            Expected::Held { at_least, at_most } => {
                (now_ms < at_most + MARGIN_MS, now_ms < at_least - MARGIN_MS)
            }
            Expected::Over => (false, false),
        }
    }

    /// Whether no later check can find it live.
    pub(crate) fn is_over(&self, now_ms: i64) -> bool {
        !self.may_and_must(now_ms).0
    }
}

/// Rules that hold whenever no call is under way.
pub(crate) fn check_at_once(promises: &[Promise], books: &[Book], now_ms: i64) -> Vec<Violation> {
    let lost = promises.iter().filter_map(|promise| {
        let book = books.iter().find(|book| book.party == promise.party)?;
        let listed = book.reservations.iter().find(|listed| listed.id == promise.id);
        let why = broken(promise, listed, now_ms)?;
        Some(Violation::new(Rule::LostPromise, format!("{} {why}", promise.name())))
    });
    let sold_twice = books.iter().filter_map(|book| {
        let terms = book.reservations.iter().flat_map(|listed| listed.terms.iter().chain(&listed.prepared));
        overbooked(&book.party, book.capacity?, terms)
    });
    lost.chain(sold_twice).collect()
}

/// Why a promise is not kept at the party that made it.
fn broken(promise: &Promise, listed: Option<&Listed>, now_ms: i64) -> Option<String> {
    let (may, must) = promise.may_and_must(now_ms);
    let Some(listed) = listed else { return must.then(|| format!("is gone, but was {promise}")) };
    if !may {
        // A hold past its deadline may still be listed until it is swept; if it stays, `check_settled` reports an
        // orphan.
        if promise.expected != Expected::Over {
            return None;
        }
        return Some(format!("is {}, but was {promise}", listed.state));
    }
    let right = match promise.expected {
        Expected::Committed => listed.state.is_standing(),
        Expected::Held { .. } => listed.state == State::Held,
        Expected::Over => false,
    };
    if must && !right {
        return Some(format!("is {}, but was {promise}", listed.state));
    }
    let same = sorted(&listed.terms) == sorted(&promise.terms);
    (must && !same).then(|| format!("has {:?}, but was {promise} with {:?}", listed.terms, promise.terms))
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.expected {
            Expected::Committed => "committed",
            Expected::Held { .. } => "held",
            Expected::Over => "over",
        })
    }
}

/// The first moment at which more than `capacity` is taken, if there is one.
pub(crate) fn overbooked<'t>(
    site: &str,
    capacity: u32,
    terms: impl Iterator<Item = &'t Term>,
) -> Option<Violation> {
    // Ends and begins at the same second cancel out in one entry, so that adjacent terms do not count as overlapping.
    let mut steps = BTreeMap::<i64, i64>::new();
    for term in terms {
        *steps.entry(term.begin).or_default() += i64::from(term.capacity);
        *steps.entry(term.end).or_default() -= i64::from(term.capacity);
    }
    let mut taken = 0;
    for (at, step) in steps {
        taken += step;
        if taken > i64::from(capacity) {
            let detail = format!("{taken} of {capacity} processors are taken at {site} at second {at}");
            return Some(Violation::new(Rule::DoubleSale, detail));
        }
    }
    None
}

/// Rules that hold once the brokers have finished all calls to their sites.
pub(crate) fn check_settled(promises: &[Promise], books: &[Book], now_ms: i64) -> Vec<Violation> {
    let by_owner: BTreeMap<&str, &Promise> =
        promises.iter().map(|promise| (promise.owner.as_str(), promise)).collect();
    let mut parts: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
    let mut violations = Vec::new();
    for book in books {
        for listed in &book.reservations {
            let promise = by_owner.get(listed.owner.as_str());
            if !promise.is_some_and(|promise| promise.may_and_must(now_ms).0) {
                let known = promise.map_or_else(|| "unknown".to_owned(), ToString::to_string);
                let detail =
                    format!("{} of {} is {} at {}", listed.id, listed.owner, listed.state, book.party);
                violations.push(Violation::new(Rule::Orphan, format!("{detail}, but is {known} to clients")));
            } else if book.capacity.is_some() {
                // Only entries of sites are parts; that of a broker is the whole booking.
                parts.entry(&listed.owner).or_default().push(listed);
            }
        }
    }
    for promise in promises.iter().filter(|promise| promise.may_and_must(now_ms).1) {
        let there = parts.get(promise.owner.as_str()).map(Vec::as_slice).unwrap_or_default();
        if let Some(why) = half(promise, there) {
            violations.push(Violation::new(Rule::HalfBooked, format!("{} {why}", promise.name())));
        }
    }
    let listed = books.iter().flat_map(|book| &book.reservations);
    violations.extend(listed.filter(|listed| !listed.whole).map(|listed| {
        Violation::new(Rule::LostPromise, format!("{} of {} is not whole", listed.id, listed.owner))
    }));
    violations
}

/// Why the parts at the sites differ from the promise; None if they agree.
fn half(promise: &Promise, parts: &[&Listed]) -> Option<String> {
    let terms: Vec<Term> = parts.iter().flat_map(|part| part.terms.clone()).collect();
    if sorted(&terms) != sorted(&promise.terms) {
        return Some(format!("is {promise} with {:?}, but its sites have {terms:?}", promise.terms));
    }
    let state = match promise.expected {
        Expected::Held { .. } => State::Held,
        // `Over` does not get here: only promises that must take capacity are compared.
        Expected::Committed | Expected::Over => State::Committed,
    };
    let other = parts.iter().find(|part| part.state != state)?;
    Some(format!("is {promise}, but its part {} is {}", other.id, other.state))
}

fn sorted(terms: &[Term]) -> Vec<&Term> {
    let mut terms: Vec<&Term> = terms.iter().collect();
    terms.sort();
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn term(site: &str, begin: i64, end: i64, capacity: u32) -> Term {
        Term { site: site.into(), begin, end, capacity }
    }

    fn listed(id: u128, owner: &str, state: State, term: Term) -> Listed {
        let (id, owner, terms) = (ReservationId(id), owner.into(), vec![term]);
        Listed { id, owner, state, whole: true, terms, prepared: Vec::new() }
    }

    fn book(party: &str, capacity: Option<u32>, reservations: Vec<Listed>) -> Book {
        Book { party: party.into(), capacity, reservations }
    }

    fn promise(party: &str, id: u128, owner: &str, expected: Expected, terms: &[Term]) -> Promise {
        let (party, id, owner, terms) = (party.into(), ReservationId(id), owner.into(), terms.to_vec());
        Promise { party, id, owner, expected, terms }
    }

    /// One reservation at a site, and one at a broker with parts at two sites.
    fn all_is_well() -> (Vec<Promise>, Vec<Book>) {
        let (alone, north, south) =
            (term("north", 0, 10, 4), term("north", 10, 20, 8), term("south", 10, 20, 8));
        let mut both = listed(2, "bob", State::Committed, north.clone());
        both.terms.push(south.clone());
        let promises = vec![
            promise("north", 1, "ada", Expected::Committed, std::slice::from_ref(&alone)),
            promise("grid", 2, "bob", Expected::Committed, &both.terms),
            promise("south", 5, "eve", Expected::Over, &[]),
        ];
        let books = vec![
            book(
                "north",
                Some(8),
                vec![listed(1, "ada", State::Committed, alone), listed(3, "bob", State::Committed, north)],
            ),
            book("south", Some(8), vec![listed(4, "bob", State::Committed, south)]),
            book("grid", None, vec![both]),
        ];
        (promises, books)
    }

    fn rules((promises, books): &(Vec<Promise>, Vec<Book>)) -> Vec<Rule> {
        let now = check_at_once(promises, books, NOW).into_iter();
        now.chain(check_settled(promises, books, NOW)).map(|violation| violation.rule).collect()
    }

    #[test]
    fn nothing_is_found_where_all_is_well() {
        assert_eq!(rules(&all_is_well()), []);
    }

    #[test]
    fn a_lost_promise_is_found() {
        let mut gone = all_is_well();
        gone.1[0].reservations.remove(0);
        assert_eq!(rules(&gone), [Rule::LostPromise, Rule::HalfBooked]);
        let mut only_held = all_is_well();
        only_held.1[0].reservations[0].state = State::Held;
        assert!(rules(&only_held).contains(&Rule::LostPromise));
        let mut other_terms = all_is_well();
        other_terms.1[0].reservations[0].terms[0].capacity = 3;
        assert!(rules(&other_terms).contains(&Rule::LostPromise));
        let mut cancelled_and_back = all_is_well();
        cancelled_and_back.1[1].reservations.push(listed(
            5,
            "eve",
            State::Committed,
            term("south", 0, 10, 1),
        ));
        assert_eq!(rules(&cancelled_and_back), [Rule::LostPromise, Rule::Orphan]);
        let mut degraded = all_is_well();
        degraded.1[2].reservations[0].whole = false;
        assert_eq!(rules(&degraded), [Rule::LostPromise]);
    }

    #[test]
    fn a_double_sale_is_found_also_with_prepared_terms() {
        let mut sold = all_is_well();
        sold.1[0].reservations[1].prepared.push(term("north", 9, 10, 5));
        assert_eq!(rules(&sold), [Rule::DoubleSale]);
        let touching = [term("north", 0, 10, 8), term("north", 10, 20, 8)];
        assert_eq!(overbooked("north", 8, touching.iter()), None);
        let detail = overbooked("north", 7, touching.iter()).unwrap().to_string();
        assert_eq!(detail, "capacity sold twice: 8 of 7 processors are taken at north at second 0");
    }

    #[test]
    fn a_half_co_reservation_is_found() {
        let mut half = all_is_well();
        half.1[1].reservations.clear();
        assert_eq!(rules(&half), [Rule::HalfBooked]);
        let mut half_committed = all_is_well();
        half_committed.1[1].reservations[0].state = State::Held;
        assert_eq!(rules(&half_committed), [Rule::HalfBooked]);
        let mut half_changed = all_is_well();
        half_changed.1[1].reservations[0].terms[0].begin = 11;
        assert_eq!(rules(&half_changed), [Rule::HalfBooked]);
        let mut half_cancelled = all_is_well();
        half_cancelled.0[1].expected = Expected::Over;
        half_cancelled.1[0].reservations.remove(1);
        half_cancelled.1[2].reservations.clear();
        assert_eq!(rules(&half_cancelled), [Rule::Orphan]);
    }

    #[test]
    fn an_orphan_is_found() {
        let mut orphan = all_is_well();
        orphan.1[1].reservations.push(listed(9, "stranger", State::Held, term("south", 0, 1, 1)));
        assert_eq!(rules(&orphan), [Rule::Orphan]);
    }

    #[test]
    fn a_hold_must_be_there_until_its_deadline_and_not_after() {
        let held = |until: i64, there: bool| {
            let expected = Expected::Held { at_least: until, at_most: until + 2_000 };
            let slot = term("north", 0, 10, 4);
            let promises = vec![promise("north", 1, "ada", expected, std::slice::from_ref(&slot))];
            let reservations = if there { vec![listed(1, "ada", State::Held, slot)] } else { Vec::new() };
            rules(&(promises, vec![book("north", Some(8), reservations)]))
        };
        assert_eq!(held(NOW + 60_000, true), []);
        assert_eq!(held(NOW + 60_000, false), [Rule::LostPromise, Rule::HalfBooked]);
        assert_eq!((held(NOW + 1_000, true), held(NOW + 1_000, false)), (vec![], vec![]));
        assert_eq!((held(NOW - 4_000, true), held(NOW - 4_000, false)), (vec![], vec![]));
        assert_eq!(held(NOW - 60_000, true), [Rule::Orphan]);
        assert_eq!(held(NOW - 60_000, false), []);
    }
}
