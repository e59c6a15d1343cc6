//! A broker of a simulated grid: the party that the daemons run, its disk, and the peers that it asks whether they are there.

use super::flaw::Flaw;
use super::host::{Disk, Host, Worded, Written};
use super::site::about;
use bookahead_party::broker::{Broker as Party, BrokerEvent, JobEvent, JobRules};
use bookahead_party::{Heartbeat, Input, OfferedResource, Party as _, Queries, Role};
use bookahead_plan::Seconds;
use bookahead_protocol::broker::{Broker as Head, Event, Rules};
use bookahead_protocol::jobs::Patience;
use bookahead_protocol::jobs::race::Pace;
use bookahead_protocol::{Millis, Moment, Name, Resource};
use std::collections::{BTreeMap, BTreeSet};

/// A broker.
pub struct Broker {
    pub(super) host: Host<Party>,
    /// Those it asks whether they are there, and how often in a row they did not answer.
    pub(super) peers: BTreeMap<Name, u32>,
}

impl Broker {
    /// One that knows these peers and what they offer.
    pub fn new(name: &Name, rules: Rules, peers: Vec<(Name, Vec<Resource>)>) -> Broker {
        Broker::with(name, rules, job_rules(), Disk::INSTANT, peers)
    }

    /// One on a disk, with rules for jobs.
    pub(super) fn with(
        name: &Name,
        rules: Rules,
        job_rules: JobRules,
        disk: Disk,
        peers: Vec<(Name, Vec<Resource>)>,
    ) -> Broker {
        let named: BTreeSet<Name> = peers.iter().map(|(peer, _)| peer.clone()).collect();
        let missed = named.iter().map(|peer| (peer.clone(), 0)).collect();
        let mut party = Party::new(rules, job_rules, about(name, Role::Broker), name.clone(), named, false);
        for (peer, resources) in peers {
            let offered = |resource| OfferedResource { resource, through: Vec::new() };
            let resources = resources.into_iter().map(offered).collect();
            let heartbeat = Box::new(Heartbeat { resources, ..about(&peer, Role::Site) });
            party.step(Moment(0), Input::Heard { call: None, heartbeat, round_trip: Some(0) });
        }
        Broker { host: Host::new(party, disk), peers: missed }
    }

    /// Its negotiation.
    pub fn head(&self) -> &Head {
        self.host.party().head()
    }

    /// What it offers to whoever asks it.
    pub fn resources(&self) -> Vec<Resource> {
        self.host.party().resources()
    }

    /// What happened to its bookings.
    pub(super) fn bookings_journal(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.host.journal().iter().filter_map(|event| match event {
            BrokerEvent::Booking(event) => Some(event),
            BrokerEvent::Job(_) => None,
        })
    }

    pub(super) fn break_by(&mut self, flaw: Flaw) {
        self.host.alter(move |party| flaw.set_in_broker(party));
    }
}

/// Jobs are looked after often, so that much happens in a short time.
pub(super) fn job_rules() -> JobRules {
    let patience = Patience { first: Millis(500), longest: Millis(4_000) };
    let flood = Pace { patience, look_every: Millis(700), silence: Millis(9_000), doubt: Millis(6_000) };
    JobRules {
        notice: Millis::seconds(3),
        patience,
        look_every: Millis::seconds(2),
        flood,
        usual_window: Seconds(600),
        retention: Seconds(1_000_000),
    }
}

impl Worded for BrokerEvent {
    fn written(&self) -> Written {
        match self {
            BrokerEvent::Booking(event) => Written { word: event.word(), id: event.id() },
            BrokerEvent::Job(event) => {
                let word = match event {
                    JobEvent::Submitted { .. } => "job-submitted",
                    JobEvent::Choice { .. } => "job-choice",
                    JobEvent::Race { event, .. } => race_word(event),
                    JobEvent::Handed { .. } => "job-handed",
                    JobEvent::Unwanted { .. } => "job-unwanted",
                    JobEvent::Over { .. } => "job-over-at-broker",
                };
                Written { word, id: None }
            }
        }
    }
}

fn race_word(event: &bookahead_protocol::jobs::race::Event) -> &'static str {
    use bookahead_protocol::jobs::race::Event;
    match event {
        Event::Begun(_) => "race-begun",
        Event::Sent(_) => "copy-sent",
        Event::Queued(_) => "copy-queued",
        Event::Allowed => "copy-allowed",
        Event::Granted(_) => "claim-granted",
        Event::Late(_) => "copy-late",
        Event::Withdrawn => "race-withdrawn",
        Event::Gone { .. } => "copy-gone",
        Event::Found(_) => "copy-found",
        Event::Ended(_) => "race-ended",
    }
}
