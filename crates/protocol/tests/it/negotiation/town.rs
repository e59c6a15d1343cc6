//! A small town: a client, brokers and sites that receive messages at once. Calls to a party that is away are
//! kept back.

use bookahead_plan::placement::{Admission, Method, Request as Wanted, Rules as Placement, SlotRules};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use bookahead_protocol::broker::{Broker, Effects, Event, Rules};
use bookahead_protocol::deadline::Scheme;
use bookahead_protocol::ledger::{self, Ledger, Offered, Rules as SiteRules, Views};
use bookahead_protocol::{
    Answer, Call, Caller, Constraint, Envelope, Key, Millis, Moment, Name, Part, Request, Reservation,
    ReservationId, Resource, State, Why,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone)]
pub(crate) struct Town {
    pub(crate) now: Moment,
    pub(crate) sites: BTreeMap<Name, Ledger>,
    /// Queues of sites that have any.
    pub(crate) views: BTreeMap<Name, Views>,
    pub(crate) brokers: BTreeMap<Name, (Broker, Vec<Event>)>,
    /// Journals of the sites.
    pub(crate) written: Vec<ledger::Event>,
    /// Parties that receive nothing.
    pub(crate) away: BTreeSet<Name>,
    /// Every delivered call: from, to, name.
    pub(crate) heard: Vec<(Name, Name, &'static str)>,
    /// After this many more messages all others are lost.
    pub(crate) letters_left: Option<usize>,
    /// How brokers hold the parts of a candidate.
    pub(crate) holding: Scheme,
    answers: BTreeMap<Key, Answer>,
    keys: u128,
}

enum Mail {
    Call { from: Name, to: Name, envelope: Envelope },
    Answer { from: Name, to: Name, key: Key, answer: Answer },
}

pub(crate) fn name(text: &str) -> Name {
    text.into()
}

/// A resource on which all slots that fit are equally good.
pub(crate) fn offered(resource: Resource) -> Offered {
    let method = Method::EarliestStart { local_jobs_preferred: true };
    let slots = SlotRules::default();
    Offered {
        resource,
        placement: Placement { policy: Policy::EASY, method, slots, admission: Admission::default() },
    }
}

pub(crate) fn part(kind: &str, capacity: u32, earliest: i64, latest: i64, duration: i64) -> Part {
    let wanted = Wanted {
        earliest_start: Time(earliest),
        latest_end: Time(latest),
        duration: Seconds(duration),
        capacity: Capacity(capacity),
    };
    Part::new(wanted, kind)
}

/// All parts start together, at different sites.
pub(crate) fn together(parts: Vec<Part>) -> Request {
    let pairs = (1..parts.len()).map(|second| (second - 1, second));
    let constraints = pairs
        .flat_map(|(first, second)| {
            [Constraint::Offset { first, second, by: Seconds(0) }, Constraint::DifferentSites(first, second)]
        })
        .collect();
    Request::new(parts, constraints)
}

impl Town {
    pub(crate) fn new() -> Town {
        Town {
            now: Moment(0),
            sites: BTreeMap::new(),
            views: BTreeMap::new(),
            brokers: BTreeMap::new(),
            written: Vec::new(),
            away: BTreeSet::new(),
            heard: Vec::new(),
            letters_left: None,
            holding: Scheme::default(),
            answers: BTreeMap::new(),
            keys: 0,
        }
    }

    pub(crate) fn site(&mut self, site: &str, resources: Vec<Resource>) {
        self.site_by(SiteRules::new(site, resources.into_iter().map(offered).collect()));
    }

    pub(crate) fn site_by(&mut self, mut rules: SiteRules) {
        rules.holds.late_commits = false;
        rules.holds.longest = Millis::seconds(120);
        self.sites.insert(rules.site.clone(), Ledger::new(rules).unwrap());
    }

    /// Adds a site with a cluster of this many processors.
    pub(crate) fn cluster(&mut self, site: &str, processors: u32) {
        self.site(site, vec![Resource::new(site, "cluster", "processors", processors)]);
    }

    pub(crate) fn offers(&self, peer: &str) -> Vec<Resource> {
        match self.brokers.get(&name(peer)) {
            Some((broker, _)) => broker.resources(),
            None => {
                self.sites[&name(peer)].rules().resources.iter().map(|one| one.resource.clone()).collect()
            }
        }
    }

    pub(crate) fn broker(&mut self, broker: &str, peers: &[&str]) {
        let maker = 100 + self.brokers.len() as u64;
        let mut head = self.new_broker(peers, maker);
        let effects = head.resume(self.now);
        self.brokers.insert(name(broker), (head, effects.events));
    }

    fn new_broker(&self, peers: &[&str], maker: u64) -> Broker {
        let mut head = Broker::new(Rules { maker: maker.into(), holding: self.holding, ..Rules::default() });
        for peer in peers {
            head.register(name(peer), self.offers(peer), None);
        }
        head
    }

    /// The broker crashes and restarts from its journal.
    pub(crate) fn restart(&mut self, broker: &str, peers: &[&str], maker: u64) {
        let events = self.brokers[&name(broker)].1.clone();
        let mut head = self.new_broker(peers, maker);
        events.iter().for_each(|event| head.apply(event));
        let effects = head.resume(self.now);
        self.brokers.insert(name(broker), (head, events));
        self.deliver(&name(broker), effects);
    }

    pub(crate) fn envelope(&mut self, call: Call) -> Envelope {
        self.keys += 1;
        Envelope { key: Key(self.keys), caller: Caller { user: name("ada"), roles: vec![] }, call }
    }

    /// Sends a call, and returns the answer if there is one at once.
    pub(crate) fn call(&mut self, to: &str, call: Call) -> Option<Answer> {
        let envelope = self.envelope(call);
        self.send(to, &envelope)
    }

    pub(crate) fn send(&mut self, to: &str, envelope: &Envelope) -> Option<Answer> {
        self.answers.remove(&envelope.key);
        let mail = Mail::Call { from: name("ada"), to: name(to), envelope: envelope.clone() };
        self.carry(VecDeque::from([mail]));
        self.answer(envelope)
    }

    /// The answer to a call, if it has come.
    pub(crate) fn answer(&self, envelope: &Envelope) -> Option<Answer> {
        self.answers.get(&envelope.key).cloned()
    }

    pub(crate) fn reserve(&mut self, to: &str, id: u128, request: Request, book: bool) -> Option<Answer> {
        let hold_for = Millis::seconds(30);
        self.call(to, Call::Reserve { id: ReservationId(id), request, hold_for, book })
    }

    pub(crate) fn commit(&mut self, to: &str, id: u128) -> Option<Answer> {
        self.call(to, Call::Commit { id: ReservationId(id), jobs: vec![] })
    }

    fn deliver(&mut self, from: &Name, effects: Effects) {
        let mail = self.mail(from, effects);
        self.carry(mail);
    }

    fn mail(&mut self, from: &Name, effects: Effects) -> VecDeque<Mail> {
        if let Some((_, journal)) = self.brokers.get_mut(from) {
            journal.extend(effects.events);
        }
        let calls = effects.send.into_iter().map(|call| Mail::Call {
            from: from.clone(),
            to: call.to,
            envelope: call.envelope,
        });
        let replies = effects.replies.into_iter().map(|reply| Mail::Answer {
            from: from.clone(),
            to: reply.to,
            key: reply.key,
            answer: reply.answer,
        });
        calls.chain(replies).collect()
    }

    fn carry(&mut self, mut mail: VecDeque<Mail>) {
        while let Some(letter) = mail.pop_front() {
            match &mut self.letters_left {
                Some(0) => return,
                Some(left) => *left -= 1,
                None => {}
            }
            match letter {
                Mail::Call { to, .. } if self.away.contains(&to) => {}
                Mail::Call { from, to, envelope } => {
                    self.heard.push((from.clone(), to.clone(), envelope.call.word()));
                    if let Some(ledger) = self.sites.get_mut(&to) {
                        let views = self.views.get(&to).cloned().unwrap_or_default();
                        let handled = ledger.handle(self.now, &envelope, &views);
                        self.written.extend(handled.events);
                        let answer = handled.answer;
                        mail.push_back(Mail::Answer { from: to, to: from, key: envelope.key, answer });
                    } else if let Some((broker, _)) = self.brokers.get_mut(&to) {
                        let effects = broker.handle(self.now, &from, &envelope);
                        mail.extend(self.mail(&to, effects));
                    }
                }
                Mail::Answer { to, .. } if self.away.contains(&to) => {}
                Mail::Answer { from, to, key, answer } => {
                    if let Some((broker, _)) = self.brokers.get_mut(&to) {
                        let effects = broker.on_answer(self.now, &from, key, &answer);
                        mail.extend(self.mail(&to, effects));
                    } else {
                        self.answers.insert(key, answer);
                    }
                }
            }
        }
    }

    /// A site's operator cancels a reservation there.
    pub(crate) fn revoke(&mut self, site: &str, id: ReservationId) {
        let mut envelope = self.envelope(Call::Cancel { id });
        envelope.caller = Caller { user: name("olga"), roles: vec![name("operator")] };
        self.send(site, &envelope);
    }

    /// Some capacity of a site's cluster fails.
    pub(crate) fn fail(&mut self, site: &str, capacity: u32) {
        let ledger = self.sites.get_mut(&name(site)).unwrap();
        ledger.lost(self.now, &name("cluster"), Capacity(capacity), Some(&BTreeSet::new()));
    }

    /// The capacity comes back.
    pub(crate) fn mend(&mut self, site: &str, capacity: u32) {
        let ledger = self.sites.get_mut(&name(site)).unwrap();
        ledger.restored(self.now, &name("cluster"), Capacity(capacity));
    }

    /// A broker is told that something changed at a peer.
    pub(crate) fn hears(&mut self, broker: &str, peer: &str) {
        let now = self.now;
        let (head, _) = self.brokers.get_mut(&name(broker)).unwrap();
        let effects = head.look_after(now, &name(peer), None);
        self.deliver(&name(broker), effects);
    }

    /// Advances time; all timers on the way fire.
    pub(crate) fn wait(&mut self, millis: i64) {
        let until = self.now + Millis(millis);
        loop {
            let timers = self.brokers.values().filter_map(|(broker, _)| broker.next_timer());
            let Some(next) = timers.min().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            let names: Vec<Name> = self.brokers.keys().cloned().collect();
            for broker in names {
                let now = self.now;
                let Some((head, _)) = self.brokers.get_mut(&broker) else { continue };
                let effects = head.tick(now);
                self.deliver(&broker, effects);
            }
        }
        self.now = until;
        let now = self.now;
        self.sites.values_mut().for_each(|ledger| {
            ledger.tick(now);
        });
    }

    /// The states of all reservations at a site.
    pub(crate) fn states(&self, site: &str) -> Vec<State> {
        self.sites[&name(site)].entries().map(|(_, entry)| entry.state).collect()
    }

    /// Number of calls of a kind that a party received.
    pub(crate) fn heard(&self, by: &str, word: &str) -> usize {
        self.heard.iter().filter(|(_, to, said)| *to == name(by) && *said == word).count()
    }

    pub(crate) fn head(&self, broker: &str) -> &Broker {
        &self.brokers[&name(broker)].0
    }
}

/// The reservation in an answer.
#[track_caller]
pub(crate) fn reservation(answer: Option<Answer>) -> Reservation {
    match answer {
        Some(Answer::Reservation(reservation)) => reservation,
        other => panic!("no reservation but {other:?}"),
    }
}

/// The problem in an answer.
#[track_caller]
pub(crate) fn why(answer: Option<Answer>) -> Why {
    match answer {
        Some(Answer::Problem(problem)) => problem.why,
        other => panic!("no problem but {other:?}"),
    }
}
