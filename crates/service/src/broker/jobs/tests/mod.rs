//! A job that is flooded, as its owner sees it: one job with its site, whatever its copies do and whenever the broker is killed.

mod parts;

use super::*;
use bookahead_protocol::Resource;
use bookahead_protocol::jobs::Patience;
use bookahead_protocol::jobs::race::Pace;

const ID: JobId = JobId(0x70b);

fn rules() -> Rules {
    let patience = Patience::default();
    let hold_time = Millis::seconds(10);
    Rules {
        hold_for: Millis::seconds(30),
        answer_within: hold_time,
        patience,
        look_every: Millis::seconds(5),
        flood: Pace {
            patience,
            look_every: Millis::seconds(1),
            silence: Millis::seconds(30),
            doubt: hold_time,
        },
        notice: Millis::ZERO,
        usual_window: bookahead_plan::Seconds(604_800),
        retention: bookahead_plan::Seconds(86_400),
    }
}

fn ada() -> Caller {
    Caller { user: "ada".into(), roles: vec!["user".into()] }
}

/// A site with a cluster, at which so much is asked for already.
fn peer(name: &str, requested: u64) -> Peer {
    let resource = Resource::new(name, "cluster", "processors", 8);
    let load = api::Load {
        resource: "cluster".into(),
        running_jobs: 1,
        waiting_jobs: 0,
        requested,
        longest_wall_time_seconds: 600,
    };
    let about = api::Heartbeat {
        name: name.into(),
        url: format!("http://{name}"),
        role: api::Role::Site,
        resources: vec![resource.clone().into()],
        attributes: BTreeMap::new(),
        loads: vec![load],
        version: None,
    };
    let (url, resources, heard) = (about.url.clone(), vec![resource], Moment(0));
    Peer { name: name.into(), url, resources, about, heard, round_trip: None, up: true }
}

fn flooded() -> api::SubmitJob {
    let document = serde_json::json!({
        "capacity": 4, "limit_seconds": 60, "mode": "flood", "work": {"type": "pretended", "run_seconds": 30}
    });
    serde_json::from_value(document).unwrap()
}

/// The jobs of a broker, its journal, and what it sent last.
struct Desk {
    jobs: Jobs,
    journal: Vec<String>,
    sent: Vec<Errand>,
}

impl Desk {
    fn new() -> Desk {
        Desk { jobs: Jobs::new(rules()), journal: Vec::new(), sent: Vec::new() }
    }

    /// With a job that is flooded to these, the first the least loaded.
    fn flooding(asked: api::SubmitJob, sites: &[&str]) -> Desk {
        let mut desk = Desk::new();
        desk.submit(asked, sites).unwrap();
        desk
    }

    fn submit(&mut self, asked: api::SubmitJob, sites: &[&str]) -> Result<(), api::Problem> {
        let peers = sites.iter().zip(1..).map(|(name, at)| peer(name, at * 8)).collect::<Vec<_>>();
        let effects =
            self.jobs.submit(Moment(0), (&ada(), &[]), (Key(1), ID), asked, None, peers.into_iter())?;
        self.does(effects);
        Ok(())
    }

    fn does(&mut self, effects: Effects) {
        self.journal.extend(effects.events.iter().map(|event| serde_json::to_string(event).unwrap()));
        self.sent = effects.errands;
    }

    /// Killed and started again from what was written.
    fn restart(&mut self, at: i64) {
        self.jobs = Jobs::new(rules());
        for line in &self.journal {
            self.jobs.apply(&serde_json::from_str(line).unwrap());
        }
        let effects = self.jobs.resume(Moment(at));
        self.does(effects);
    }

    fn wait_until(&mut self, at: i64) {
        let effects = self.jobs.tick(Moment(at));
        self.does(effects);
    }

    /// What was sent last, as "where what".
    fn said(&self) -> Vec<String> {
        let said = |errand: &Errand| format!("{} {:?}", errand.to, errand.what.about().unwrap().2);
        self.sent.iter().map(said).collect()
    }

    fn copy_at(&self, site: &str) -> JobId {
        let mut entries = self.jobs.all[&ID].race.entries();
        entries.find(|entry| entry.site == Name::from(site)).unwrap().copy
    }

    /// A site tells how its copy is.
    fn tell(&mut self, at: i64, site: &str, asked: Ask, state: api::JobState, since: Option<i64>) {
        let stamp = |second: i64| api::Timestamp::nearest(Time(second));
        let job = api::Job {
            id: self.copy_at(site),
            owner: "ada".into(),
            site: Some(site.into()),
            resource: Some("cluster".into()),
            reservation: None,
            capacity: 4,
            limit_seconds: 60,
            state,
            submitted: stamp(0),
            started: since.map(stamp),
            ended: state.is_over().then(|| stamp(at / 1_000)),
            expected_start: (state == api::JobState::Waiting).then(|| stamp(90)),
            exit: (state == api::JobState::Done).then_some(0),
            detail: None,
        };
        self.answer(at, site, asked, Ok(Box::new(job)));
    }

    fn answer(&mut self, at: i64, site: &str, asked: Ask, answer: Result<Box<api::Job>, api::Problem>) {
        let copy = self.copy_at(site);
        let effects = self.jobs.on_job(Moment(at), &site.into(), (copy, asked), answer);
        self.does(effects);
    }

    fn refuse(&mut self, at: i64, site: &str, asked: Ask, code: api::Code) {
        self.answer(at, site, asked, Err(api::Problem::new(code, format!("{site} says no"))));
    }

    fn shown(&self) -> api::Job {
        self.jobs.job(ID).unwrap()
    }
}

#[test]
fn the_owner_sees_one_job_and_in_the_end_its_site() {
    let mut desk = Desk::flooding(flooded(), &["north", "south", "east", "west"]);
    assert_eq!(desk.said(), ["north Submit", "south Submit", "east Submit"], "the best three");
    assert_eq!(desk.shown().state, api::JobState::Placing);
    desk.tell(100, "north", Ask::Submit, api::JobState::Waiting, None);
    desk.tell(100, "south", Ask::Submit, api::JobState::Waiting, None);
    let waiting = desk.shown();
    assert_eq!((waiting.id, waiting.state, waiting.site), (ID, api::JobState::Waiting, None));
    assert_eq!(waiting.detail.unwrap(), "waits at north, south; the first that starts runs it");
    assert_eq!(waiting.expected_start.unwrap().time(), Time(90));
    desk.tell(1_100, "north", Ask::Look, api::JobState::Waiting, None);
    desk.tell(1_200, "south", Ask::Look, api::JobState::Running, Some(1));
    assert_eq!(desk.said(), ["east Submit"], "it may have started before");
    desk.tell(1_250, "east", Ask::Submit, api::JobState::Waiting, None);
    assert_eq!(desk.said(), ["north Drop", "east Drop"]);
    let running = desk.shown();
    assert_eq!((running.id, running.state, running.site), (ID, api::JobState::Running, Some("south".into())));
    assert!(running.detail.unwrap().contains("a copy at north is cancelled as soon as the site answers"));
    desk.tell(1_300, "north", Ask::Drop, api::JobState::Cancelled, None);
    desk.tell(1_300, "east", Ask::Drop, api::JobState::Cancelled, None);
    desk.tell(31_000, "south", Ask::Look, api::JobState::Done, Some(1));
    let done = desk.shown();
    assert_eq!((done.id, done.state, done.exit), (ID, api::JobState::Done, Some(0)));
    assert_eq!((done.site, done.started.unwrap().time()), (Some("south".into()), Time(1)));
    assert_eq!(done.detail, None);
    assert!(desk.jobs.next_timer().is_none() && desk.jobs.all[&ID].is_settled());
}

#[test]
fn what_a_second_copy_ran_is_told_also_when_that_is_known_after_the_end() {
    let mut desk = Desk::flooding(flooded(), &["north", "south"]);
    desk.tell(100, "north", Ask::Submit, api::JobState::Running, Some(0));
    desk.tell(150, "south", Ask::Submit, api::JobState::Running, Some(0));
    assert_eq!(desk.said(), ["south Drop"], "of two that start in one second the better ranked is kept");
    desk.tell(30_000, "north", Ask::Look, api::JobState::Done, Some(0));
    assert!(desk.shown().detail.unwrap().contains("at south is cancelled as soon as the site answers"));
    desk.restart(31_000);
    assert_eq!(desk.said(), ["south Drop"]);
    desk.tell(33_000, "south", Ask::Drop, api::JobState::Cancelled, Some(0));
    let detail = desk.shown().detail.unwrap();
    assert_eq!(detail, "a copy at south had started too, and ran 33 s in vain until it was cancelled");
    assert_eq!((desk.shown().state, desk.shown().site), (api::JobState::Done, Some("north".into())));
}

#[test]
fn a_copy_is_a_job_of_its_own_at_its_site_with_nothing_for_brokers_in_it() {
    let asked = api::SubmitJob { reference_mhz: Some(2_000), input_bytes: Some(7), ..flooded() };
    let desk = Desk::flooding(asked, &["north"]);
    let What::Submit(caller, copy) = &desk.sent[0].what else { panic!("{:?}", desk.sent) };
    assert_eq!(*caller, ada());
    assert_eq!((copy.id, copy.copies), (Some(desk.copy_at("north")), Some(1)));
    assert_eq!((copy.resource.clone(), copy.reservation), (Some("cluster".into()), None));
    assert_eq!((copy.reference_mhz, copy.input_bytes, copy.capacity), (None, None, 4));
    assert_ne!(copy.id, Some(ID));
}

#[test]
fn wherever_the_broker_is_killed_it_asks_everybody_who_may_have_a_copy() {
    let mut desk = Desk::flooding(flooded(), &["north", "south"]);
    desk.restart(1_000);
    assert_eq!(desk.said(), ["north Submit", "south Submit"]);
    desk.tell(1_100, "north", Ask::Submit, api::JobState::Waiting, None);
    desk.restart(2_000);
    assert_eq!(desk.said(), ["north Look", "south Submit"]);
    desk.tell(2_100, "south", Ask::Submit, api::JobState::Waiting, None);
    desk.tell(2_100, "north", Ask::Look, api::JobState::Running, Some(2));
    assert_eq!(desk.said(), ["south Drop"]);
    desk.restart(3_000);
    assert_eq!(desk.said(), ["north Look", "south Drop"]);
    let running = desk.shown();
    assert_eq!((running.state, running.site), (api::JobState::Running, Some("north".into())));
}

#[test]
fn a_cancelled_job_is_over_and_its_copies_are_cancelled_however_long_that_takes() {
    let mut desk = Desk::flooding(flooded(), &["north", "south"]);
    desk.tell(100, "north", Ask::Submit, api::JobState::Waiting, None);
    let effects = desk.jobs.cancel(Moment(200), &ada(), ID).unwrap();
    desk.does(effects);
    assert_eq!(desk.said(), ["north Drop", "south Drop"]);
    assert_eq!(desk.shown().state, api::JobState::Cancelled);
    desk.tell(300, "north", Ask::Drop, api::JobState::Cancelled, None);
    desk.restart(400);
    assert_eq!(desk.said(), ["south Drop"]);
    // A day after its end it is still known, since something of it may be at south.
    let other = Desk::flooding(flooded(), &[]).shown();
    let over = Event::Over { job: Box::new(api::Job { id: JobId(9), ..other }), at: Time(200_000) };
    desk.jobs.apply(&over);
    assert!(desk.jobs.job(ID).is_some());
    desk.refuse(200_000_000, "south", Ask::Drop, api::Code::UnknownJob);
    desk.refuse(200_010_000, "south", Ask::Drop, api::Code::UnknownJob);
    desk.jobs.apply(&over);
    assert!(desk.jobs.job(ID).is_none() && desk.jobs.copies.is_empty() && desk.jobs.agenda.is_empty());
    let bob = Caller { user: "bob".into(), roles: Vec::new() };
    let desk = &mut Desk::flooding(flooded(), &["north"]);
    assert_eq!(desk.jobs.cancel(Moment(0), &bob, ID).unwrap_err().code, "forbidden");
}

#[test]
fn where_all_refuse_the_job_could_not_start_and_says_why() {
    let mut desk = Desk::flooding(api::SubmitJob { copies: Some(1), ..flooded() }, &["north", "south"]);
    assert_eq!(desk.said(), ["north Submit"]);
    desk.refuse(100, "north", Ask::Submit, api::Code::Unavailable);
    assert_eq!(desk.said(), Vec::<String>::new(), "it may take it a little later");
    desk.wait_until(1_000);
    assert_eq!(desk.said(), ["north Submit"]);
    desk.refuse(1_100, "north", Ask::Submit, api::Code::JobRefused);
    assert_eq!(desk.said(), ["south Submit"], "the next of the ranking");
    desk.refuse(1_200, "south", Ask::Submit, api::Code::Circle);
    let over = desk.shown();
    assert_eq!(over.state, api::JobState::CouldNotStart);
    assert_eq!(
        over.detail.unwrap(),
        "no site is left that would run it: north does not take it (north says no); south does not take it (south says no)"
    );
    let nowhere = Desk::flooding(flooded(), &[]).shown();
    assert_eq!(nowhere.state, api::JobState::CouldNotStart);
    assert!(nowhere.detail.unwrap().contains("no resource of kind processors"));
    let late = api::SubmitJob { latest_end: Some(api::Timestamp::nearest(Time(59))), ..flooded() };
    assert!(Desk::flooding(late, &["north"]).shown().detail.unwrap().contains("window"));
}

#[test]
fn a_job_that_was_lost_where_it_ran_is_lost() {
    let mut desk = Desk::flooding(flooded(), &["north"]);
    desk.tell(100, "north", Ask::Submit, api::JobState::Running, Some(0));
    desk.refuse(1_000, "north", Ask::Look, api::Code::UnknownJob);
    assert_eq!(desk.shown().state, api::JobState::Running);
    desk.refuse(11_000, "north", Ask::Look, api::Code::UnknownJob);
    let lost = desk.shown();
    assert_eq!((lost.state, lost.site), (api::JobState::Lost, Some("north".into())));
    assert_eq!(lost.detail.unwrap(), "north knows nothing of it any more");
}

#[test]
fn a_resource_that_is_named_is_the_only_one_that_is_asked() {
    let named = api::SubmitJob { resource: Some("south/cluster".into()), ..flooded() };
    assert_eq!(Desk::flooding(named, &["north", "south"]).said(), ["south Submit"]);
}

#[test]
fn what_makes_no_sense_is_refused_and_the_same_twice_is_taken_once() {
    let refused = |asked: api::SubmitJob| Desk::new().submit(asked, &["north"]).unwrap_err().detail;
    assert!(refused(api::SubmitJob { copies: Some(0), ..flooded() }).contains("1 to 32"));
    assert!(refused(api::SubmitJob { copies: Some(33), ..flooded() }).contains("1 to 32"));
    assert!(refused(api::SubmitJob { copies: Some(2), mode: None, ..flooded() }).contains("flood"));
    let mut desk = Desk::flooding(flooded(), &["north"]);
    desk.submit(flooded(), &["north"]).unwrap();
    assert!(desk.sent.is_empty());
    // A copy is no job that somebody could submit.
    let copy = desk.copy_at("north");
    let taken =
        desk.jobs.submit(Moment(0), (&ada(), &[]), (Key(2), copy), flooded(), None, std::iter::empty());
    assert_eq!(taken.unwrap_err().code, "job-taken");
}

#[test]
fn the_more_jobs_wait_the_less_often_each_is_looked_at() {
    let mut jobs = Jobs::new(rules());
    for number in 0..1_000 {
        let ids = (Key(number), JobId(number));
        jobs.submit(Moment(0), (&ada(), &[]), ids, flooded(), None, std::iter::once(peer("north", 0)))
            .unwrap();
        let copy = *jobs.copies.keys().find(|copy| jobs.copies[copy] == JobId(number)).unwrap();
        let waits = api::Job { id: copy, state: api::JobState::Waiting, ..jobs.job(JobId(number)).unwrap() };
        jobs.on_job(Moment(0), &"north".into(), (copy, Ask::Submit), Ok(Box::new(waits)));
    }
    let mut looks = 0;
    for second in 1..=60 {
        for errand in jobs.tick(Moment(second * 1_000)).errands {
            let (_, copy, asked) = errand.what.about().unwrap();
            let job = jobs.copies[&copy];
            let waits = api::Job { id: copy, state: api::JobState::Waiting, ..jobs.job(job).unwrap() };
            jobs.on_job(Moment(second * 1_000), &"north".into(), (copy, asked), Ok(Box::new(waits)));
            looks += 1;
        }
    }
    assert!((4_000..9_000).contains(&looks), "about a hundred in a second: {looks}");
}
