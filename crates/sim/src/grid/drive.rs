//! Delivery in a simulated grid: turns messages into inputs, and outputs into messages and batch orders. As in the
//! daemons, nothing leaves a party before the events that it depends on are durable.

use super::external::{Work, Worked};
use super::host::{Asker, Driven};
use super::network::{About, Fate, Message, Packet};
use super::witness::Rule;
use super::work::kind_of;
use super::{CrashPoint, Flaw, Grid, Happening, Role, What};
use bookahead_party::{
    BatchOrder, CallId, Heartbeat, Input, JobCall, Origin, PeerCall, PeerRequest, Queries, Reply,
};
use bookahead_protocol::{Answer, Key, Millis, Moment, Name, State};

/// Interval of heartbeats: short enough that a broker knows all peers again soon after the faults end.
const BEAT: Millis = Millis(6_000);

impl Grid {
    pub(super) fn arrive(&mut self, packet: Packet) {
        let kind = packet.kind();
        let Packet { from, to, sent, message, .. } = packet;
        if !self.parties[to].up {
            self.log.row(self.now, || What::Lost { from, to, sent, word: message.word() });
            return;
        }
        self.log.row(self.now, || What::Message { from, to, sent, word: message.word(), kind });
        self.witness.heard(to, &message);
        if let Role::Client(client) = &mut self.parties[to].role {
            client.hear(self.now, &message);
            return self.arrange_waking(to);
        }
        let name = self.parties[from].name.clone();
        self.hand(to, Some(from), &name, message);
    }

    /// Turns a message into an input. `from` is None for commands without a caller that waits.
    pub(super) fn hand(&mut self, to: usize, from: Option<usize>, name: &Name, message: Message) {
        self.has_jobs |= matches!(message, Message::Job { .. });
        let Some(message) = self.message_waits(to, from, name, message) else { return };
        let since = self.local(to);
        let Some(host) = self.parties[to].driven() else { return };
        let about = message.about();
        let mut asker = || host.call(Asker { from, about, since });
        let origin = Origin::default();
        let input = match message {
            Message::Call(envelope) => Input::Call { call: asker(), envelope, origin },
            Message::Answer { key, answer } => Input::Answered { from: name.clone(), key, answer, origin },
            Message::JobAnswer { id, asked, answer } => {
                Input::JobAnswered { from: name.clone(), id, asked, answer }
            }
            Message::Job { caller, id, ask, job } => {
                let call = asker();
                match (ask, job) {
                    (JobCall::Submit, Some(job)) => {
                        Input::Submit { call, caller, key: Key(id.0), id, job, origin }
                    }
                    (JobCall::Drop, _) => Input::CancelJob { call, caller, id },
                    (JobCall::Go, _) => Input::Go { call, caller, id },
                    _ => {
                        // Queued behind all decisions, so that the answer never shows a state that a crash could undo.
                        host.show_job(call, id);
                        return self.write(to);
                    }
                }
            }
        };
        self.give(to, input);
    }

    /// A command that is sent at the party itself; its answer is dropped.
    pub(super) fn command(&mut self, at: usize, message: Message) {
        self.witness.heard(at, &message);
        self.hand(at, None, &"".into(), message);
    }

    pub(super) fn wake(&mut self, at: usize) {
        let now = self.now;
        if let Role::Client(client) = &mut self.parties[at].role {
            let (asks, messages) = (client.asks().clone(), client.tick(now));
            messages.iter().for_each(|message| self.say(at, &asks, message));
            return self.arrange_waking(at);
        }
        self.give(at, Input::Time);
    }

    pub(super) fn give(&mut self, at: usize, input: Input) {
        let Some(input) = self.input_waits(at, input) else { return };
        let kind = kind_of(&input);
        let local = self.local(at);
        self.parties[at].latest = self.parties[at].latest.max(local);
        match &mut self.parties[at].role {
            Role::Site(site) => site.take(local, input),
            Role::Broker(broker) => drop(broker.host.step(local, input)),
            Role::Client(_) => {}
        }
        if !self.occupy(at, kind) {
            self.write(at);
        }
    }

    /// Starts a party, at the beginning or after a crash.
    pub(super) fn start(&mut self, at: usize) {
        self.compare_clock(at);
        let (now, local) = (self.now, self.local(at));
        match &mut self.parties[at].role {
            Role::Site(site) => site.start(now, local),
            Role::Broker(broker) => drop(broker.host.start(local)),
            Role::Client(_) => {}
        }
        self.write(at);
    }

    /// Begins to write the decided events, unless another group is being written.
    pub(super) fn write(&mut self, at: usize) {
        let Some(host) = self.parties[at].driven() else { return self.arrange_waking(at) };
        let life = host.life();
        match host.begin_write() {
            Some(takes) if takes.0 > 0 => {
                self.push_at((self.now + takes, self.nanos), Happening::Durable(at, life));
            }
            Some(_) => return self.durable(at, life),
            None => {}
        }
        self.arrange_waking(at);
    }

    /// The written events are durable: their output leaves, or a scheduled crash happens.
    pub(super) fn durable(&mut self, at: usize, life: u32) {
        let unsafe_send = self.flaw == Some(Flaw::AnswerBeforeWriting);
        self.parties[at].latest = self.parties[at].latest.max(self.local(at));
        let crash = self.parties[at].armed;
        // A write that began before a crash never completes.
        let Some(host) = self.parties[at].driven().filter(|host| host.life() == life) else { return };
        let leaving = host.end_write(crash, unsafe_send);
        for written in leaving.written {
            self.witness.written(&written);
            self.log.row(self.now, || What::Written { party: at, word: written.word, id: written.id });
        }
        for (call, reply) in leaving.replies {
            self.reply(at, call, reply);
        }
        for PeerCall { to, request, .. } in leaving.calls {
            let message = match request {
                PeerRequest::Call(envelope) => Message::Call(*envelope),
                PeerRequest::Job { caller, id, ask, job } => Message::Job { caller, id, ask, job },
            };
            self.say(at, &to, &message);
        }
        for order in leaving.batch {
            self.order(at, life, order, crash.is_some());
        }
        if let Some(point) = crash {
            self.parties[at].armed = None;
            return self.crash(at, point);
        }
        self.witness.look(self.now, &mut self.parties[at], at);
        self.check_runs();
        self.write(at);
    }

    fn reply(&mut self, at: usize, call: CallId, reply: Reply) {
        let Some(asker) = self.parties[at].driven().and_then(|host| host.asker(call)) else { return };
        let message = match (reply, asker.about) {
            (Reply::Answer(answer), About::Key(key)) => Message::Answer { key, answer },
            (Reply::Job(answer), About::Job(id, asked)) => Message::JobAnswer { id, asked, answer },
            _ => return,
        };
        // A promise counts as soon as it leaves, even if the network loses the message.
        let times = (self.local(at), self.parties[at].latest);
        self.witness.said(times, at, &message);
        self.witness.backed(self.now, &self.parties[at], &message);
        if let Some(to) = asker.from {
            // The witness got the true answer: it checks what the site keeps, and the broker must cope with the lie.
            let message = self.perhaps_lie(at, to, message);
            self.send(at, to, &message);
        }
    }

    fn say(&mut self, at: usize, to: &Name, message: &Message) {
        self.witness.said((self.local(at), self.parties[at].latest), at, message);
        if let Some(to) = self.place(to) {
            self.send(at, to, message);
        }
    }

    /// A lying site answers a broker's hold with another id, capacity, begin or state than was granted.
    fn perhaps_lie(&mut self, at: usize, to: usize, mut message: Message) -> Message {
        let (Role::Site(site), Role::Broker(_)) = (&self.parties[at].role, &self.parties[to].role) else {
            return message;
        };
        let Message::Answer { answer: Answer::Reservation(held), .. } = &mut message else { return message };
        if held.state == State::Held && self.network.happens(site.lies) {
            self.troubles.count("lies");
            let kind = self.network.draw(4);
            match (kind, held.slots.first_mut()) {
                (0, _) | (_, None) => held.id.0 ^= 1,
                (1, Some(slot)) => slot.capacity.0 += 1,
                (2, Some(slot)) => slot.interval.begin.0 += 7,
                (_, Some(_)) => held.state = State::Committed,
            }
        }
        message
    }

    fn send(&mut self, from: usize, to: usize, message: &Message) {
        match self.network.carry(self.now, from, to) {
            Fate::Arrives(arrivals) => {
                for (nth, at) in arrivals.into_iter().enumerate() {
                    self.travelling += 1;
                    let (sent, message) = (self.now, message.clone());
                    let packet = Packet { from, to, sent, message, copy: nth > 0 };
                    self.push_at((at, self.nanos), Happening::Arrival(Box::new(packet)));
                }
            }
            Fate::Lost | Fate::CutOff => {
                let sent = self.now;
                self.log.row(sent, || What::Lost { from, to, sent, word: message.word() });
            }
        }
    }

    /// Passes an order to the batch system of a site. A site that is about to crash gets no report.
    fn order(&mut self, at: usize, life: u32, order: BatchOrder, crashing: bool) {
        let (now, local) = (self.now, self.local(at));
        let Role::Site(site) = &mut self.parties[at].role else { return };
        self.log.row(now, || What::Ordered { site: at, word: order_word(&order) });
        if let BatchOrder::Keep { backing, .. } = &order {
            // What a pending release leaves out is given up on purpose.
            let promised = site.ledger().entry(backing.id).map_or(&[][..], |entry| entry.backed());
            if site.batch.is_given_away(backing, promised) {
                let what = format!("{}: {} gives up nodes that are away", self.parties[at].name, backing.id);
                self.witness.violated(Rule::NothingGivenAway, now, what);
            }
        }
        let Role::Site(site) = &mut self.parties[at].role else { return };
        match &mut site.batch.external {
            Some(external) => {
                let (due, work, slow) = external.take(now, life, order);
                slow.into_iter().for_each(|slow| site.batch.tally.count(slow));
                self.push(due, Happening::Batch(at, Box::new(work)));
            }
            // An in-process batch system is lost with the site before it can carry the order out.
            None if crashing => {}
            None => site.obey(local, order),
        }
    }

    pub(super) fn batch_works(&mut self, at: usize, work: Work) {
        let (now, local, up) = (self.now, self.local(at), self.parties[at].up);
        let Role::Site(site) = &mut self.parties[at].role else { return };
        let life = Some(site.host.life()).filter(|_| up);
        let Worked { report, later } = site.batch.work(now, local, life, work);
        if let Some((then, work)) = later {
            self.push(then, Happening::Batch(at, Box::new(work)));
        }
        match report {
            Some((to, report)) if life == Some(to) => {
                self.log.row(now, || What::Reported { site: at, word: report_word(&report) });
                self.give(at, Input::Batch(report));
            }
            _ => self.witness.look(now, &mut self.parties[at], at),
        }
        self.check_runs();
    }

    /// Starts the heartbeats of all brokers.
    pub(super) fn begin_beating(&mut self) {
        for at in 0..self.parties.len() {
            if matches!(self.parties[at].role, Role::Broker(_)) {
                self.push(self.now, Happening::Beat(at));
            }
        }
    }

    /// One round of heartbeats. A peer that has missed two in a row is silent.
    pub(super) fn beat(&mut self, at: usize) {
        // Scheduled even while the broker is down, so that heartbeats continue after its restart.
        self.push(self.now + BEAT, Happening::Beat(at));
        let Role::Broker(broker) = &self.parties[at].role else { return };
        for peer in broker.peers.keys().cloned().collect::<Vec<_>>() {
            let there = self.place(&peer).filter(|there| self.network.carries(at, *there));
            let said = there.and_then(|there| self.says(there));
            let Role::Broker(broker) = &mut self.parties[at].role else { return };
            let missed = broker.peers.entry(peer.clone()).or_default();
            *missed = if said.is_some() { 0 } else { *missed + 1 };
            let input = match (said, *missed) {
                (Some(said), _) => {
                    Input::Heard { call: None, heartbeat: Box::new(said), round_trip: Some(50) }
                }
                (None, 2) => Input::Silent { peer },
                _ => continue,
            };
            if self.parties[at].up {
                self.give(at, input);
            }
        }
    }

    /// Starts heartbeats of all peers, spread evenly over the interval as those of independent daemons are.
    pub fn begin_heartbeats(&mut self, every: Millis) {
        let brokers = self.parties.iter().enumerate().filter_map(|(at, party)| match &party.role {
            Role::Broker(broker) => Some((at, &broker.peers)),
            _ => None,
        });
        let mut first = Vec::new();
        for (at, peers) in brokers {
            let number = i64::try_from(peers.len()).unwrap_or(i64::MAX);
            let places = peers.keys().filter_map(|peer| self.place(peer));
            first.extend((0..).zip(places).map(|(nth, peer)| (Millis(every.0 * nth / number), at, peer)));
        }
        for (after, at, peer) in first {
            self.push(self.now + after, Happening::Heartbeat(at, peer, every));
        }
    }

    pub(super) fn heartbeat(&mut self, at: usize, peer: usize, every: Millis) {
        self.push(self.now + every, Happening::Heartbeat(at, peer, every));
        if let Some(heartbeat) = self.says(peer).filter(|_| self.parties[at].up).map(Box::new) {
            self.give(at, Input::Heard { call: None, heartbeat, round_trip: Some(50) });
        }
    }

    /// The heartbeat of a party that is up.
    fn says(&self, at: usize) -> Option<Heartbeat> {
        let known = match &self.parties[at].role {
            _ if !self.parties[at].up => return None,
            Role::Site(site) => site.party().sites(self.local(at)),
            Role::Broker(broker) => broker.host.party().sites(self.local(at)),
            Role::Client(_) => return None,
        };
        known.into_iter().next().map(|known| known.said)
    }

    pub(super) fn arrange_waking(&mut self, at: usize) {
        let now = self.now;
        let party = &mut self.parties[at];
        if !party.up {
            return;
        }
        let Some(timer) = party.next_timer() else { return };
        let timer = timer.max(now);
        // An earlier wake-up that is already scheduled arranges the next one itself.
        if timer < Moment::MAX && party.wakes.is_none_or(|wakes| timer < wakes) {
            party.wakes = Some(timer);
            self.push(timer, Happening::Wake(at));
        }
    }

    pub(super) fn crash(&mut self, at: usize, point: CrashPoint) {
        let word = match point {
            CrashPoint::Idle => "crashes_idle",
            CrashPoint::BeforeWriting => "crashes_before_writing",
            CrashPoint::AfterWriting => "crashes_after_writing",
            CrashPoint::WhileSending => "crashes_while_sending",
        };
        self.troubles.count(word);
        self.log.row(self.now, || What::Crash { party: at, point });
        let party = &mut self.parties[at];
        party.up = false;
        party.server.clear();
        if let Role::Site(site) = &mut party.role {
            site.batch.site_crashes();
        }
        party.driven().into_iter().for_each(Driven::crash);
    }
}

fn order_word(order: &BatchOrder) -> &'static str {
    match order {
        BatchOrder::Keep { backing, .. } if backing.spans.is_empty() => "give back",
        BatchOrder::Keep { .. } => "keep",
        BatchOrder::Submit { .. } => "submit",
        BatchOrder::Bind { .. } => "bind",
        BatchOrder::Release { .. } => "release",
        BatchOrder::Go { .. } => "go",
        BatchOrder::Requeue { .. } => "requeue",
        BatchOrder::Warn { .. } => "warn",
        BatchOrder::Cancel { .. } => "cancel job",
        BatchOrder::Look { .. } => "look",
    }
}

fn report_word(report: &bookahead_party::BatchReport) -> &'static str {
    use bookahead_party::{BatchError, BatchReport};
    let said = |outcome: &Result<(), BatchError>| match outcome {
        Ok(()) => "done",
        Err(BatchError::Refused(_)) => "refused",
        Err(BatchError::Unknown(_)) => "no answer",
    };
    match report {
        BatchReport::Kept { outcome, .. } | BatchReport::Job { outcome, .. } => said(outcome),
        BatchReport::Looked { outcome: Ok(_), .. } => "seen",
        BatchReport::Looked { .. } => "not seen",
        BatchReport::JobNamed { .. } => "job named",
        BatchReport::JobChanged(_) => "job changed",
    }
}
