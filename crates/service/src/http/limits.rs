//! Limits on load for all callers (the table `[server]`), and checks of documents and filters before they reach the
//! party. A document can only be extracted through its check, so that none is forgotten. Limits of single users are
//! the responsibility of the party.

use super::answer::Refusal;
use crate::config::{Length, Wrong};
use crate::security::name::is_visible;
use bookahead_api::{
    Attach, AttributeValue, CalendarQuery, Change, Code, Commit, Extend, FineSeconds, FinishChange,
    Heartbeat, Hold, InvitationAnswer, JobsQuery, Labels, ListQuery, OutputQuery, Part, PrepareChange, Probe,
    Release, Request, Requirement, Reserve, Resource, ScheduleQuery, SignIn, SubmitJob, TrySlot, TypedText,
    UsageQuery,
};
use bookahead_plan::Seconds;
use bookahead_protocol::request::{MOST_PARTS, MOST_SHARED, most_constraints};
use bookahead_protocol::{Description, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Limits on requests and connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct Limits {
    pub most_body: usize,
    pub requests_per_second: u32,
    pub burst: u32,
    pub most_parts: usize,
    pub longest_window: Length,
    pub most_page: usize,
    pub patience: Length,
    pub concurrent: usize,
    pub watchers: usize,
    pub connections: usize,
    pub connections_per_address: usize,
    pub trusted_proxies: Vec<IpAddr>,
    pub browser_origins: Vec<String>,
}

impl Default for Limits {
    /// One megabyte, a rate of one user that no person and few programs reach, and that a flood exceeds at once, 16
    /// parts, a leap year, pages of 1,000 entries, slightly more than the minute
    /// that a batch system may take, 1,000 concurrent requests, 256 event streams, and 1,024 connections, a quarter
    /// of them for one address.
    fn default() -> Limits {
        Limits {
            most_body: 1 << 20,
            requests_per_second: 50,
            burst: 200,
            most_parts: 16.min(MOST_PARTS),
            longest_window: Length::of_seconds(366 * 86_400),
            most_page: 1_000,
            patience: Length::of_seconds(75),
            concurrent: 1_000,
            watchers: 256,
            connections: 1_024,
            connections_per_address: 256,
            trusted_proxies: Vec::new(),
            browser_origins: Vec::new(),
        }
    }
}

impl Limits {
    /// Refuses limits with which no call could succeed.
    pub fn check(&self) -> Result<(), Wrong> {
        let fields = [
            ("most_body", self.most_body == 0),
            ("most_parts", self.most_parts == 0),
            ("most_page", self.most_page == 0),
            ("concurrent", self.concurrent == 0),
            ("connections", self.connections == 0),
            ("connections_per_address", self.connections_per_address == 0),
            ("patience", self.patience == Length::default()),
            ("longest_window", self.longest_window == Length::default()),
        ];
        match fields.into_iter().find(|(_, zero)| *zero) {
            Some((field, _)) => {
                Err(Wrong::new(field, "with 0 no call could succeed; give 1 or more, or remove it"))
            }
            None => match self.browser_origins.iter().find(|origin| !is_origin(origin)) {
                Some(wrong) => Err(Wrong::new(
                    "browser_origins",
                    format!(
                        "{wrong:?} is not an origin; write https://HOST or https://HOST:PORT, without a path"
                    ),
                )),
                None => Ok(()),
            },
        }
    }
}

/// Whether a text is the origin of a web page: a scheme and a host, as browsers send it. `*` is refused, because any
/// page could then use the service with a token that its user has pasted somewhere.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
        !host.is_empty() && host.bytes().all(plain)
    })
}

/// Most characters of a name, as in file systems and accounts.
const LONGEST_NAME: usize = 255;

/// Most constraints of a request, including duplicates: as many as 32 parts can have.
const MOST_CONSTRAINTS: usize = most_constraints(MOST_PARTS);

/// Most requirements of a part. Each is tested against each resource.
const MOST_REQUIREMENTS: usize = 16;

/// Most values that a requirement may allow.
const MOST_VALUES: usize = 64;

/// Most attributes of a site or resource. Brokers keep those of all their peers in memory.
pub(crate) const MOST_ATTRIBUTES: usize = 64;

/// Most resources, and most loads, in a registration.
const MOST_RESOURCES: usize = 1_024;

/// Most brokers that a resource is reached through. Calls do not go farther.
const MOST_THROUGH: usize = 8;

/// Most recent changes in a heartbeat.
const MOST_RECENT: usize = 256;

/// Most jobs in a commit.
const MOST_JOBS: usize = 1_024;

/// A document from a request.
pub(super) trait Checked {
    fn check(&self, limits: &Limits) -> Result<(), Refusal>;
}

impl Checked for Probe {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        self.request.check(limits)
    }
}

impl Checked for Reserve {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        hold(self.hold_for_seconds)?;
        self.request.check(limits)
    }
}

impl Checked for Change {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        self.request.check(limits)
    }
}

impl Checked for PrepareChange {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        hold(self.hold_for_seconds)?;
        self.request.iter().try_for_each(|request| request.check(limits))
    }
}

impl Checked for Hold {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        hold(self.hold_for_seconds)
    }
}

/// Documents without names or lists.
macro_rules! as_it_is {
    ($($document:ty),*) => {
        $(impl Checked for $document {
            fn check(&self, _: &Limits) -> Result<(), Refusal> {
                Ok(())
            }
        })*
    };
}

as_it_is!(Attach, Release, Extend, FinishChange, InvitationAnswer, OutputQuery);

impl Checked for Commit {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        at_most("the commit", "jobs", self.jobs.len(), MOST_JOBS)
    }
}

fn at_most(what: &str, things: &str, many: usize, most: usize) -> Result<(), Refusal> {
    if many > most {
        return Err(over_limit(format!("{what} has {many} {things}; at most {most} are allowed")));
    }
    Ok(())
}

impl Checked for Request {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        at_most("the request", "parts", self.parts.len(), limits.most_parts)?;
        at_most("the request", "constraints", self.constraints.len(), MOST_CONSTRAINTS)?;
        let (name, note, labels) = (self.name.clone(), self.note.clone(), self.labels.clone());
        described(&Description { name, note, labels, priority: self.priority.clone() })?;
        let users = self.shared_with.len().max(self.consents.len());
        at_most("the request", "users to share with", users, MOST_SHARED)?;
        self.shared_with
            .iter()
            .chain(self.consents.keys())
            .try_for_each(|user| self::name("a user to share with", user))?;
        self.parts.iter().enumerate().try_for_each(|(at, wanted)| part(at, wanted, limits))
    }
}

/// Bounds are those of the protocol. Characters that cannot be seen are refused here.
fn described(description: &Description) -> Result<(), Refusal> {
    check_description(description).map_err(Refusal::bad_request)
}

/// Checks name, note and labels.
pub(crate) fn check_description(description: &Description) -> Result<(), String> {
    description.check().map_err(|why| why.to_string())?;
    let Description { name, note, labels, .. } = description;
    let values = labels.iter().map(|(key, value)| (format!("the value of the label {key}"), value));
    let texts = [("the name", name), ("the note", note)];
    let texts = texts.into_iter().filter_map(|(what, text)| Some((what.to_owned(), text.as_ref()?)));
    texts.chain(values).try_for_each(|(what, text)| plain_text(&what, text))
}

/// Refuses characters that cannot be seen or change the text direction, except spaces and line breaks.
fn plain_text(what: &str, text: &str) -> Result<(), String> {
    let hidden = text.chars().find(|&character| !matches!(character, ' ' | '\n') && !is_visible(character));
    hidden.map_or(Ok(()), |character| {
        Err(format!("{what} contains {}, which cannot be seen; remove it", character.escape_unicode()))
    })
}

fn part(at: usize, part: &Part, limits: &Limits) -> Result<(), Refusal> {
    let window = part.latest_end.time() - part.earliest_start.time();
    let most = limits.longest_window.seconds();
    if window > most {
        let why = format!(
            "parts[{at}]: the window, from the earliest start to the latest end, is {}; at most {} are allowed",
            window.in_words(),
            most.in_words()
        );
        return Err(over_limit(why));
    }
    name(&format!("parts[{at}]: the kind"), &part.kind)?;
    optional_name(&format!("parts[{at}]: the resource"), part.resource.as_ref())?;
    let attribute = part.measured_on.as_ref().map(|machine| &machine.attribute);
    optional_name(&format!("parts[{at}]: the attribute of a machine"), attribute)?;
    requirements(&format!("parts[{at}]"), &part.requirements)
}

fn requirements(of: &str, requirements: &[Requirement]) -> Result<(), Refusal> {
    at_most(of, "requirements", requirements.len(), MOST_REQUIREMENTS)?;
    requirements.iter().try_for_each(|wanted| requirement(&format!("a requirement of {of}"), wanted))
}

impl Checked for SubmitJob {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        let (limit, most) = (self.limit_seconds, limits.longest_window.seconds());
        if limit > most.0 {
            let (limit, most) = (Seconds(limit).in_words(), most.in_words());
            return Err(over_limit(format!("the time limit is {limit}; at most {most} are allowed")));
        }
        name("the kind of resource", &self.kind)?;
        optional_name("the resource", self.resource.as_ref())?;
        let (name, note, labels) = (self.name.clone(), self.note.clone(), self.labels.clone());
        described(&Description { name, note, labels, priority: self.priority.clone() })?;
        requirements("the job", &self.requirements)
    }
}

impl Checked for Heartbeat {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        const LONGEST_URL: usize = 2_000;
        name("the name of the site", &self.name)?;
        attributes(&self.attributes)?;
        // A Unix socket needs an absolute path, because the broker has another working directory.
        let web = ["http://", "https://", "unix:/"].iter().any(|scheme| self.url.starts_with(scheme));
        if !web || self.url.len() > LONGEST_URL || !self.url.chars().all(is_visible) {
            let why = format!(
                "url is {:?}; it must be a web address such as https://north.example.org:7420",
                self.url
            );
            return Err(Refusal::bad_request(why));
        }
        at_most("the site", "resources", self.resources.len(), MOST_RESOURCES)?;
        at_most("the site", "loads", self.loads.len(), MOST_RESOURCES)?;
        let recent = self.changes.as_ref().map_or(0, |changes| changes.recent.len());
        at_most("the site", "recent changes", recent, MOST_RECENT)?;
        let version = self.version.as_deref().filter(|version| !version.is_empty());
        version.map_or(Ok(()), |version| name("the version", &version.into()))?;
        self.loads.iter().try_for_each(|load| name("the resource of a load", &load.resource))?;
        self.resources.iter().try_for_each(|resource| offered(&self.name, resource))
    }
}

/// A broker prefixes the name of a resource with that of the peer. The result must be a valid name, too.
fn offered(peer: &Name, resource: &Resource) -> Result<(), Refusal> {
    name("the name of a resource", &resource.name)?;
    name(
        "the name of a resource, with the name of the site before it,",
        &format!("{peer}/{}", resource.name).into(),
    )?;
    name("the kind of a resource", &resource.kind)?;
    name("the site of a resource", &resource.site)?;
    at_most("a resource", "brokers that it is reached through", resource.through.len(), MOST_THROUGH)?;
    resource
        .through
        .iter()
        .try_for_each(|broker| name("a broker that a resource is reached through", broker))?;
    resource.joins.iter().flatten().try_for_each(|site| name("a site that a link joins", site))?;
    at_most("a resource", "tres", resource.tres.len(), bookahead_protocol::tres::MOST_TRES)?;
    attributes(&resource.attributes)
}

fn attributes(attributes: &BTreeMap<Name, AttributeValue>) -> Result<(), Refusal> {
    at_most("a site or resource", "attributes", attributes.len(), MOST_ATTRIBUTES)?;
    attributes.iter().try_for_each(|(attribute, is)| {
        name("the name of an attribute", attribute)?;
        value("the value of an attribute", is)
    })
}

fn requirement(what: &str, requirement: &Requirement) -> Result<(), Refusal> {
    let attribute = match requirement {
        Requirement::Present { attribute }
        | Requirement::AtLeast { attribute, .. }
        | Requirement::AtMost { attribute, .. } => attribute,
        Requirement::Is { attribute, value: wanted } => {
            value(what, wanted)?;
            attribute
        }
        Requirement::OneOf { attribute, values } => {
            at_most(what, "values", values.len(), MOST_VALUES)?;
            values.iter().try_for_each(|wanted| value(what, wanted))?;
            attribute
        }
    };
    name(what, attribute)
}

fn value(what: &str, value: &AttributeValue) -> Result<(), Refusal> {
    match value {
        // A text may be empty, unlike a name.
        AttributeValue::Text(text) if text.is_empty() => Ok(()),
        AttributeValue::Text(text) => name(what, &text.as_str().into()),
        AttributeValue::Number(_) => Ok(()),
    }
}

/// The begin of an id, `kind` included.
fn id_prefix(kind: &str, id: Option<&str>) -> Result<(), Refusal> {
    let Some(id) = id else { return Ok(()) };
    // Without the prefix there are no digits, which is refused below.
    let digits = id.strip_prefix(kind).unwrap_or_default();
    let plain = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if plain && (1..=32).contains(&digits.len()) {
        return Ok(());
    }
    Err(Refusal::bad_request(format!("id should be {kind} and 1 to 32 hexadecimal digits in small letters")))
}

impl Checked for ListQuery {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        id_prefix("rsv_", self.id.as_deref())?;
        optional_name("owner", self.owner.as_ref())?;
        optional_name("resource", self.resource.as_ref())?;
        searched(self.name.as_deref(), self.label.as_ref())?;
        page(self.limit, limits)?;
        match (self.from, self.until) {
            (Some(from), Some(until)) if until <= from => {
                Err(Refusal::bad_request("until must be after from"))
            }
            _ => Ok(()),
        }
    }
}

/// Filters by name and label, with the bounds of names and labels.
fn searched(name: Option<&str>, labels: Option<&Labels>) -> Result<(), Refusal> {
    let labels = labels.map(|labels| labels.0.clone()).unwrap_or_default();
    // An empty text matches every name.
    let name = name.filter(|name| !name.is_empty()).map(ToOwned::to_owned);
    described(&Description { name, note: None, labels, priority: None })
}

impl Checked for JobsQuery {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        id_prefix("job_", self.id.as_deref())?;
        optional_name("owner", self.owner.as_ref())?;
        searched(self.name.as_deref(), self.label.as_ref())?;
        page(self.limit, limits)
    }
}

impl Checked for CalendarQuery {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        optional_name("owner", self.owner.as_ref())
    }
}

/// Widest picture of a schedule: more than the widest screens have.
const MOST_PIXELS: u32 = 8_192;

impl Checked for ScheduleQuery {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        if let Some(pixels) = self.pixels.filter(|pixels| *pixels == 0 || *pixels > MOST_PIXELS) {
            let why = format!("pixels is {pixels}; it must be from 1 to {MOST_PIXELS}");
            return Err(Refusal::bad_request(why));
        }
        optional_name("resource", self.resource.as_ref())
    }
}

/// Longest text that is read as a time: longer than any that has a meaning.
const LONGEST_TYPED: usize = 100;

impl Checked for TypedText {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        if self.text.len().max(self.zone.as_ref().map_or(0, String::len)) > LONGEST_TYPED {
            return Err(Refusal::bad_request(format!("text and zone may have {LONGEST_TYPED} bytes")));
        }
        Ok(())
    }
}

impl Checked for SignIn {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        optional_name("user", self.user.as_ref())
    }
}

impl Checked for TrySlot {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        if self.capacity == 0 {
            return Err(Refusal::bad_request("capacity is 0; it must be 1 or more"));
        }
        if self.end <= self.begin {
            return Err(Refusal::bad_request("end must be after begin"));
        }
        optional_name("resource", Some(&self.resource))
    }
}

impl Checked for UsageQuery {
    fn check(&self, _: &Limits) -> Result<(), Refusal> {
        optional_name("owner", self.owner.as_ref())
    }
}

pub(super) fn page(limit: Option<u32>, limits: &Limits) -> Result<(), Refusal> {
    let most = limits.most_page;
    match limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)) {
        Some(limit) if limit == 0 || limit > most => {
            Err(Refusal::bad_request(format!("limit is {limit}; it must be from 1 to {most}")))
        }
        _ => Ok(()),
    }
}

fn hold(hold_for: FineSeconds) -> Result<(), Refusal> {
    // There is no upper bound: the party shortens each hold to the longest that it grants.
    let negative =
        || Refusal::bad_request(format!("hold_for_seconds is {}; it must be 0 or more", hold_for.number()));
    if hold_for.0 < 0 { Err(negative()) } else { Ok(()) }
}

pub(super) fn optional_name(what: &str, given: Option<&Name>) -> Result<(), Refusal> {
    given.map_or(Ok(()), |given| name(what, given))
}

fn name(what: &str, name: &Name) -> Result<(), Refusal> {
    check_name(what, name).map_err(Refusal::bad_request)
}

/// Rule for all names in documents: 1 to 255 visible characters or spaces. Names that look the same must be the
/// same, and none may contain control sequences for terminals.
pub(crate) fn check_name(what: &str, name: &Name) -> Result<(), String> {
    let length = name.as_str().chars().count();
    if !name.as_str().chars().all(|character| character == ' ' || is_visible(character)) {
        return Err(format!("{what} has invisible characters; use letters, digits, signs and spaces"));
    }
    if !(1..=LONGEST_NAME).contains(&length) {
        return Err(format!("{what} has {length} characters; it must have 1 to {LONGEST_NAME}"));
    }
    Ok(())
}

/// Checks the heartbeat of a peer with the default limits.
pub(crate) fn check_heartbeat(heartbeat: &Heartbeat) -> Result<(), String> {
    heartbeat.check(&Limits::default()).map_err(|refusal| refusal.detail().to_owned())
}

pub(super) fn over_limit(why: String) -> Refusal {
    Refusal::new(Code::OverLimit, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_api::Constraint;
    use serde_json::json;

    fn request(change: impl FnOnce(&mut serde_json::Value)) -> Result<(), Refusal> {
        let mut part = json!({
            "capacity": 4, "duration_seconds": 60,
            "earliest_start": "2026-11-16T09:00:00Z", "latest_end": "2026-11-16T18:00:00Z"
        });
        change(&mut part);
        let request: Request = serde_json::from_value(json!({"parts": [part.clone(), part]})).unwrap();
        request.check(&Limits { most_parts: 2, ..Limits::default() })
    }

    fn code(checked: Result<(), Refusal>) -> String {
        checked.map_or_else(|refusal| refusal.code().to_owned(), |()| "fine".into())
    }

    #[test]
    fn what_is_too_much_or_has_no_name_is_refused() {
        assert_eq!(code(request(|_| {})), "fine");
        assert_eq!(code(request(|part| part["latest_end"] = json!("2028-11-16T09:00:00Z"))), "over-limit");
        assert_eq!(code(request(|part| part["kind"] = json!(""))), "bad-request");
        assert_eq!(code(request(|part| part["kind"] = json!("x".repeat(256)))), "bad-request");
        assert_eq!(code(request(|part| part["kind"] = json!("ü".repeat(255)))), "fine");
        assert_eq!(code(request(|part| part["resource"] = json!("a\nb"))), "bad-request");
        for unseen in ["a\u{1b}b", "a\u{9b}b", "a\u{202e}b", "a\u{200d}b", "\u{3164}"] {
            assert_eq!(code(request(|part| part["resource"] = json!(unseen))), "bad-request", "{unseen:?}");
            assert_eq!(code(request(|part| part["kind"] = json!(unseen))), "bad-request", "{unseen:?}");
        }
        let gpus = |value: &str| json!([{"attribute": "gpu", "test": "one-of", "values": [value]}]);
        assert_eq!(code(request(|part| part["requirements"] = gpus(""))), "fine");
        assert_eq!(code(request(|part| part["requirements"] = gpus("\u{7f}"))), "bad-request");
        let present = json!({"attribute": "gpu", "test": "present"});
        assert_eq!(code(request(|part| part["requirements"] = json!(vec![&present; 16]))), "fine");
        assert_eq!(code(request(|part| part["requirements"] = json!(vec![&present; 17]))), "over-limit");
        let one_of = |many: usize| json!([{"attribute": "gpu", "test": "one-of", "values": vec![1; many]}]);
        assert_eq!(code(request(|part| part["requirements"] = one_of(64))), "fine");
        assert_eq!(code(request(|part| part["requirements"] = one_of(65))), "over-limit");
        let apart = |many| vec![Constraint::DifferentSites { first: 0, second: 1 }; many];
        let said = |many| code(Request::new(Vec::new(), apart(many)).check(&Limits::default()));
        assert_eq!((said(2_048).as_str(), said(2_049).as_str()), ("fine", "over-limit"));
        let none = Request::new(Vec::new(), Vec::new());
        assert!(none.check(&Limits::default()).is_ok(), "the party reports what is wrong with it");
        let many: Request = serde_json::from_value(json!({"parts": vec![json!({
            "capacity": 4, "duration_seconds": 60,
            "earliest_start": "2026-11-16T09:00:00Z", "latest_end": "2026-11-16T18:00:00Z"
        }); 33]}))
        .unwrap();
        assert_eq!(code(many.check(&Limits::default())), "over-limit");
    }

    #[test]
    fn a_heartbeat_has_an_address_and_names_that_fit_together() {
        let beat = |url: &str, resource: &str| {
            let heartbeat: Heartbeat = serde_json::from_value(json!({
                "name": "north", "url": url, "role": "site",
                "resources": [{"name": resource, "kind": "processors", "site": "north", "capacity": 4}]
            }))
            .unwrap();
            code(heartbeat.check(&Limits::default()))
        };
        assert_eq!(beat("https://north.example.org", "cluster"), "fine");
        assert_eq!(beat("ftp://north.example.org", "cluster"), "bad-request");
        assert_eq!(beat("https://north.example.org/\r\nx", "cluster"), "bad-request");
        assert_eq!(beat("https://north.example.org", &"x".repeat(250)), "bad-request");
        for unseen in ["\u{1b}[2J", "\u{9b}", "\u{202e}", "\u{200b}", "\u{feff}", "\u{a0}"] {
            assert_eq!(
                beat("https://north.example.org", &format!("a{unseen}b")),
                "bad-request",
                "{unseen:?}"
            );
            assert_eq!(
                beat(&format!("https://north.example.org/{unseen}"), "a"),
                "bad-request",
                "{unseen:?}"
            );
        }
        assert_eq!(beat("https://north.example.org", "gpu nodes, rack 3 (grün)"), "fine");
        assert_eq!(beat("https://north.example.org", &"x".repeat(249)), "fine");
        let loaded: Heartbeat = serde_json::from_value(json!({
            "name": "north", "url": "https://north.example.org", "role": "site",
            "loads": [{"resource": "\u{9b}", "running_jobs": 0, "waiting_jobs": 0, "requested": 0, "longest_wall_time_seconds": 0}]
        }))
        .unwrap();
        assert_eq!(code(loaded.check(&Limits::default())), "bad-request");
        let resource = json!({"name": "cluster", "kind": "processors", "site": "north", "capacity": 4});
        let offers = |many: usize, attributes: usize| {
            let mut resources = vec![resource.clone(); many];
            let given = (0..attributes).map(|at| (format!("a{at}"), json!(1)));
            resources[0]["attributes"] = given.collect::<serde_json::Map<_, _>>().into();
            let heartbeat: Heartbeat = serde_json::from_value(json!({
                "name": "north", "url": "https://north.example.org", "role": "site", "resources": resources
            }))
            .unwrap();
            code(heartbeat.check(&Limits::default()))
        };
        assert_eq!((offers(1_024, 64).as_str(), offers(1_025, 0).as_str()), ("fine", "over-limit"));
        assert_eq!(offers(1, 65), "over-limit");
    }
}
