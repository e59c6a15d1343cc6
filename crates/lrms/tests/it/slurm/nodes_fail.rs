//! Nodes that fail or are drained under reservations with jobs, driven as by a site. Slurm does not move a
//! reservation that has begun, and cannot change the nodes of one in cores.

use super::{Site, cores, dialect, nodes, start};
use bookahead_lrms::batch::tag::job_name;
use bookahead_lrms::batch::{Accounts, FactState, Place, Reserved, Settings, Unit};
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::{Backing, Ended, Job, JobState, Work};
use bookahead_plan::{Capacity, Interval, Seconds, Span};
use bookahead_protocol::{JobId, Moment, ReservationId};
use bookahead_tests::polling::until_true;

const ID: ReservationId = ReservationId(1);

/// A site that drives a cluster, which is also checked by hand.
struct Driven {
    site: Site,
    batch: Batch,
    place: Place,
    span: Span,
}

/// This many nodes with two cores each, and a reservation of this amount from now or later on. A node that is down
/// stays down until it is resumed.
fn driven(place: &Place, count: u32, amount: u32, from: i64) -> Driven {
    let mut site = start(place, |settings| {
        (settings.nodes, settings.cores_per_node) = (count, 2);
        settings.extra = vec!["ReturnToService=0".into()];
    });
    let capacity = if place.unit == Unit::Nodes { count } else { 2 * count };
    let accounts = Accounts::Service(site.account());
    let settings = Settings::new("uni".into(), vec![(place.clone(), Capacity(capacity))], accounts);
    let system = Box::new(dialect(&site.cluster, vec![place.clone()], None));
    let batch = Batch::new(system, settings).unwrap();
    let interval = Interval::starting(site.now() + Seconds(from), Seconds(600));
    let span = Span { interval, capacity: Capacity(amount) };
    let mut driven = Driven { site, batch, place: place.clone(), span };
    driven.back(amount, false).unwrap();
    driven
}

impl Driven {
    fn now(&mut self) -> Moment {
        Moment::of(self.site.now())
    }

    fn back(&mut self, amount: u32, replaces: bool) -> Result<(), LrmsError> {
        let spans = vec![Span { capacity: Capacity(amount), ..self.span }];
        let spans = if amount > 0 { spans } else { Vec::new() };
        let (resource, owner) = (self.place.resource.clone(), "ada".into());
        let now = self.now();
        self.batch.keep(
            now,
            &Backing {
                resource,
                id: ID,
                owner,
                terms: Default::default(),
                tres: Default::default(),
                spans,
                replaces,
            },
        )
    }

    /// Submits a job inside; it is checked by hand from then on.
    fn submit(&mut self, id: u128, amount: u32) -> String {
        let (user, resource) = ("ada".into(), self.place.resource.clone());
        let (capacity, limit, work) = (Capacity(amount), Seconds(500), Work::Pretended { run: Seconds(400) });
        let (id, reservation) = (JobId(id), Some(ID));
        let job = Job {
            rerun: Default::default(),
            id,
            user,
            resource,
            capacity,
            limit,
            reservation,
            work,
            claims: false,
            held: false,
            description: Default::default(),
        };
        let now = self.now();
        self.batch.submit(now, &job).unwrap();
        let name = job_name(id, &"uni".into());
        let named = self.site.look().jobs.into_iter().find(|job| job.name == name);
        named.unwrap().native
    }

    /// Fills both nodes of a reservation with jobs. Returns one node, the other, and a job on the latter.
    #[track_caller]
    fn fill(&mut self) -> (String, String, String) {
        let jobs: Vec<String> = (1..=4).map(|id| self.submit(id, 1)).collect();
        let on: Vec<String> = jobs.iter().flat_map(|job| self.runs_on(job)).collect();
        let other = on.iter().position(|node| *node != on[0]).unwrap();
        (on[0].clone(), on[other].clone(), jobs[other].clone())
    }

    /// The least that is reserved on nodes that are up.
    fn kept(&mut self) -> u32 {
        let now = self.now();
        let seen = self.batch.look(now).unwrap().resources.remove(&self.place.resource).unwrap();
        let kept = seen.backings[&ID].iter().map(|span| span.capacity.0).min().unwrap_or(0);
        kept - seen.away.get(&ID).map_or(0, |away| away.0)
    }

    /// The only reservation in Slurm.
    #[track_caller]
    fn one(&mut self) -> Reserved {
        let all = self.site.look().reservations;
        let [one] = &all[..] else { panic!("one should be there: {all:?}") };
        one.clone()
    }

    fn fail(&mut self, node: &str) {
        self.site.cluster.set_node(node, "down").unwrap();
    }

    #[track_caller]
    fn runs_on(&mut self, native: &str) -> Vec<String> {
        self.site.until_state(native, &FactState::Running).placed.into_keys().collect()
    }

    #[track_caller]
    fn is_gone(&mut self, native: &str) {
        until_true("it is over", || self.site.job(native).is_none_or(|job| job.state.is_over()));
    }
}

#[track_caller]
fn is_refused(said: &Result<(), LrmsError>) {
    assert!(said.as_ref().is_err_and(LrmsError::is_refusal), "{said:?}");
}

#[test]
fn what_has_begun_is_made_anew_where_there_is_room_and_its_jobs_go_on() {
    let mut driven = driven(&cores(), 4, 4, 0);
    assert_eq!(driven.one().cores.into_keys().collect::<Vec<_>>(), ["n1", "n2"]);
    let (failed, left, job) = driven.fill();
    driven.fail(&failed);
    until_true("it is seen", || driven.kept() == 2);
    driven.back(4, false).unwrap();
    assert_eq!(driven.kept(), 2, "no order to move it");
    driven.back(4, true).unwrap();
    let new = driven.one();
    assert_eq!(new.cores.keys().collect::<Vec<_>>(), ["n3", "n4"]);
    assert_eq!((driven.kept(), driven.runs_on(&job)), (4, vec![left]));
    assert_eq!(driven.site.job(&job).unwrap().reservations, [new.handle], "it is one of its jobs");
    // The full amount is available for new jobs.
    let wide = driven.submit(5, 4);
    assert_eq!(driven.runs_on(&wide), ["n3", "n4"]);
    driven.back(0, false).unwrap();
    driven.is_gone(&job);
    assert_eq!(driven.site.look().reservations, []);
}

#[test]
fn a_running_job_whose_node_failed_is_told_to_have_ended_by_that() {
    let mut driven = driven(&cores(), 2, 4, 0);
    let (failed, left, job) = driven.fill();
    driven.fail(&failed);
    let mut ends = Vec::new();
    until_true("both of its jobs have ended", || {
        let now = driven.now();
        driven.batch.look(now).unwrap();
        let changes = driven.batch.changes().into_iter().map(|change| change.state);
        ends.extend(changes.filter(JobState::is_over));
        ends.len() >= 2
    });
    assert_eq!(ends, [(); 2].map(|()| JobState::Killed(Ended::NodeFailed("its node failed".into()))));
    assert_eq!(driven.runs_on(&job), [left]);
}

#[test]
fn without_room_it_stays_with_its_jobs_until_the_node_is_back() {
    let mut driven = driven(&cores(), 3, 4, 0);
    let (failed, left, job) = driven.fill();
    let before = driven.one();
    driven.fail(&failed);
    until_true("it is seen", || driven.kept() == 2);
    is_refused(&driven.back(4, true));
    assert_eq!((driven.one(), driven.runs_on(&job)), (before.clone(), vec![left.clone()]));
    driven.fail("n3");
    // A drained node takes no new jobs, and those on it continue.
    driven.site.cluster.set_node(&left, "drain").unwrap();
    until_true("it is seen", || driven.kept() == 0);
    is_refused(&driven.back(4, true));
    driven.back(4, false).unwrap();
    assert_eq!(driven.runs_on(&job), std::slice::from_ref(&left));
    for node in [&failed, &left] {
        driven.site.cluster.set_node(node, "resume").unwrap();
    }
    until_true("it is seen", || driven.kept() == 4);
    driven.back(4, false).unwrap();
    assert_eq!((driven.one().name, driven.runs_on(&job)), (before.name, vec![left]));
}

#[test]
fn what_was_named_moves_with_the_jobs_that_wait_for_it() {
    let mut driven = driven(&nodes(), 4, 2, 3600);
    let job = driven.submit(1, 2);
    let before = driven.one();
    driven.fail("n1");
    until_true("it is seen", || driven.kept() == 1);
    driven.back(2, true).unwrap();
    let after = driven.one();
    assert_eq!((driven.kept(), after.interval), (2, before.interval));
    assert!(!after.cores.contains_key("n1"), "{after:?}");
    let waits = driven.site.job(&job).unwrap();
    assert_eq!((waits.state, waits.reservations), (FactState::Waiting, vec![after.handle]));
}

#[test]
fn what_slurm_moves_by_itself_is_whole() {
    let mut driven = driven(&cores(), 2, 2, 3600);
    let job = driven.submit(1, 2);
    let node = driven.one().cores.into_keys().next().unwrap();
    driven.fail(&node);
    until_true("Slurm has moved it", || driven.kept() == 2 && !driven.one().cores.contains_key(&node));
    driven.back(2, false).unwrap();
    assert_eq!(driven.site.job(&job).unwrap().reservations, [driven.one().handle]);
}
