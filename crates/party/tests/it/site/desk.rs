//! A site with one cluster, driven by hand. Outputs count as durable at once.

use bookahead_party::site::{Site, SiteEvent, SiteOptions, SiteState};
use bookahead_party::{
    Attracting, BatchError, BatchOrder, BatchReport, CallId, Heartbeat, Input, JobStatus, Look, OrderId,
    Origin, Output, Party, Reply, Role, Seen, Sharing, Work,
};
use bookahead_plan::placement::{Admission, Method, Request as Wanted, Rules as Placement, SlotRules};
use bookahead_plan::{Capacity, Interval, Policy, Seconds, Span, Time};
use bookahead_protocol::jobs::JobRequest;
use bookahead_protocol::ledger::{Offered, ResourceNotice, Rules, UserLimits};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, JobId, Key, Millis, Moment, Part, Request, ReservationId, Resource,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Out = Output<SiteEvent>;

pub(crate) struct Desk {
    pub(crate) site: Site,
    rules: Rules,
    journal: Vec<SiteEvent>,
    calls: u64,
    options: SiteOptions,
}

impl Desk {
    /// With eight processors, and a batch system with this time limit; a built-in scheduler without.
    pub(crate) fn new(consent: Option<Millis>) -> Desk {
        let slots = SlotRules::default();
        let method = Method::EarliestStart { local_jobs_preferred: true };
        let placement = Placement { policy: Policy::EASY, method, slots, admission: Admission::default() };
        let resource = Resource::new("hill", "cluster", "processors", 8);
        let mut rules = Rules::new("hill", vec![Offered { resource, placement }]);
        rules.consent = consent;
        let options = SiteOptions::default();
        Desk { site: site(&rules, options), rules, journal: Vec::new(), calls: 0, options }
    }

    /// The same, with a batch system that shares reservations like this.
    pub(crate) fn sharing(mut self, sharing: Sharing) -> Desk {
        self.options.sharing = sharing;
        Desk { site: site(&self.rules, self.options), ..self }
    }

    /// The same, with four GPUs.
    pub(crate) fn with_gpus(consent: Option<Millis>) -> Desk {
        let mut desk = Desk::new(consent);
        desk.rules.resources[0].resource.tres = [("gres/gpu", 4)].into_iter().collect();
        Desk { site: site(&desk.rules, desk.options), ..desk }
    }

    /// The same, with a batch system that attracts jobs like this.
    pub(crate) fn attracting(mut self, attracting: Attracting) -> Desk {
        self.options.attracting = attracting;
        Desk { site: site(&self.rules, self.options), ..self }
    }

    /// The same, with default limits.
    pub(crate) fn limited(limits: UserLimits) -> Desk {
        let mut desk = Desk::new(None);
        desk.rules.limits.default = limits;
        Desk { site: site(&desk.rules, desk.options), ..desk }
    }

    /// The same, with a shortest notice of its cluster.
    pub(crate) fn with_notice(notice: ResourceNotice) -> Desk {
        let mut desk = Desk::new(None);
        desk.rules.notices.insert("cluster".into(), notice);
        Desk { site: site(&desk.rules, desk.options), ..desk }
    }

    pub(crate) fn start(&mut self, now: i64) -> Out {
        let out = self.site.start(Moment(now)).expect("it can start");
        self.note(out)
    }

    /// Restarts the site from its journal.
    pub(crate) fn restart(&mut self, now: i64) -> Out {
        self.site = site(&self.rules, self.options);
        self.journal.iter().for_each(|event| self.site.apply(event));
        self.start(now)
    }

    /// Restarts the site from a snapshot.
    pub(crate) fn restart_from(&mut self, now: i64, state: SiteState) -> Out {
        self.site = site(&self.rules, self.options);
        self.site.restore(state).expect("it was its state");
        self.start(now)
    }

    pub(crate) fn step(&mut self, now: i64, input: Input) -> Out {
        let out = self.site.step(Moment(now), input);
        self.note(out)
    }

    fn note(&mut self, out: Out) -> Out {
        self.journal.extend(out.events.iter().cloned());
        out
    }

    pub(crate) fn next_call(&mut self) -> CallId {
        self.calls += 1;
        CallId(self.calls)
    }

    pub(crate) fn call(&mut self, now: i64, key: u128, call: Call) -> Out {
        let envelope = Envelope { key: Key(key), caller: ada(), call };
        let call = self.next_call();
        self.step(now, Input::Call { call, envelope, origin: Origin::default() })
    }

    /// The batch system reports the result of an order.
    pub(crate) fn kept(&mut self, now: i64, order: OrderId, id: u128) -> Out {
        let report = BatchReport::Kept { order, id: ReservationId(id), outcome: Ok(()) };
        self.step(now, Input::Batch(report))
    }

    /// The batch system refuses an order.
    pub(crate) fn refused(&mut self, now: i64, order: OrderId, id: u128) -> Out {
        let outcome = Err(BatchError::Refused("no room".to_owned()));
        self.step(now, Input::Batch(BatchReport::Kept { order, id: ReservationId(id), outcome }))
    }

    /// A look for this order shows the spans kept for reservations.
    pub(crate) fn looked(&mut self, now: i64, order: OrderId, backings: &[(u128, Vec<Span>)]) -> Out {
        self.saw(now, Some(order), backings, 0, Vec::new())
    }

    /// A look shows kept spans, failed capacity, and jobs.
    pub(crate) fn saw(
        &mut self,
        now: i64,
        order: Option<OrderId>,
        backings: &[(u128, Vec<Span>)],
        lost: u32,
        jobs: Vec<JobStatus>,
    ) -> Out {
        let backings = backings.iter().map(|(id, spans)| (ReservationId(*id), spans.clone())).collect();
        self.saw_all(now, order, Seen { backings, lost: Capacity(lost), ..Seen::default() }, jobs)
    }

    /// Reports a look.
    pub(crate) fn saw_all(
        &mut self,
        now: i64,
        order: Option<OrderId>,
        seen: Seen,
        jobs: Vec<JobStatus>,
    ) -> Out {
        let seen = Arc::new(seen);
        let look = Look { resources: BTreeMap::from([("cluster".into(), seen)]), jobs, ..Look::default() };
        let report = BatchReport::Looked { order, at: Moment(now), outcome: Ok(look) };
        self.step(now, Input::Batch(report))
    }

    /// Submits a job; a claiming one if it is one of several copies.
    pub(crate) fn submit(&mut self, now: i64, id: JobId, claims: bool) -> Out {
        self.submit_with(now, id, |job| job.claims = claims)
    }

    /// The same, with a changed request.
    pub(crate) fn submit_with(&mut self, now: i64, id: JobId, change: impl FnOnce(&mut JobRequest)) -> Out {
        let mut job = JobRequest {
            rerun: Default::default(),
            reservation: None,
            resource: None,
            kind: "processors".into(),
            capacity: Capacity(1),
            limit: Seconds(5),
            latest_end: None,
            requirements: Vec::new(),
            reference_mhz: None,
            input_bytes: None,
            work: Work::Pretended { run: Seconds(1) },
            mode: None,
            copies: None,
            claims: false,
            description: Default::default(),
        };
        change(&mut job);
        let (call, origin, job) = (self.next_call(), Origin::default(), Box::new(job));
        self.step(now, Input::Submit { call, caller: ada(), key: Key(id.0), id, job, origin })
    }

    /// Missing capacity of a reservation.
    pub(crate) fn missing(&self, id: u128) -> u32 {
        self.site.ledger().entry(ReservationId(id)).map_or(0, |entry| entry.missing.0)
    }
}

fn site(rules: &Rules, options: SiteOptions) -> Site {
    let about = Heartbeat {
        changes: None,
        registered_by: None,
        name: "hill".into(),
        url: String::new(),
        role: Role::Site,
        resources: Vec::new(),
        attributes: BTreeMap::new(),
        loads: Vec::new(),
        hold_takes: None,
        batch: None,
        version: None,
    };
    Site::new(rules.clone(), about, options).expect("the rules make sense")
}

pub(crate) fn ada() -> Caller {
    Caller { user: "ada".into(), roles: Vec::new() }
}

/// Four processors for ten seconds from an instant on.
pub(crate) fn book(id: u128, begin: i64, book: bool) -> Call {
    let wanted = Wanted {
        earliest_start: Time(begin),
        latest_end: Time(begin + 10),
        duration: Seconds(10),
        capacity: Capacity(4),
    };
    let part = Part::new(wanted, "processors");
    let hold_for = Millis::seconds(60);
    Call::Reserve { id: ReservationId(id), request: Request::single(part), hold_for, book }
}

pub(crate) fn span(begin: i64, end: i64, capacity: u32) -> Span {
    Span { interval: Interval::new(Time(begin), Time(end)), capacity: Capacity(capacity) }
}

/// The keep orders, with their spans.
pub(crate) fn keeps(orders: &[BatchOrder]) -> Vec<(OrderId, Vec<Span>)> {
    let keep = |order: &BatchOrder| match order {
        BatchOrder::Keep { order, backing } => Some((*order, backing.spans.clone())),
        _ => None,
    };
    orders.iter().filter_map(keep).collect()
}

/// The look that was ordered.
pub(crate) fn look(out: &Out) -> OrderId {
    let look = |order: &BatchOrder| matches!(order, BatchOrder::Look { .. }).then(|| order.order());
    out.batch.iter().find_map(look).expect("a look is ordered")
}

/// The stable name of the answer.
pub(crate) fn words(out: &Out) -> Vec<&'static str> {
    let word = |reply: &Reply| match reply {
        Reply::Answer(answer) => Answer::word(answer),
        Reply::Job(Ok(_)) => "job",
        Reply::Job(Err(problem)) => problem.why.code(),
        Reply::Registered(_) => "registered",
    };
    out.replies.iter().map(|(_, reply)| word(reply)).collect()
}
