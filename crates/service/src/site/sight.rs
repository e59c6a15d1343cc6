//! What can be seen of a site. Of what belongs to others a user sees only that it is there.

use super::Site;
use crate::party::{Filter, Sight, Viewer};
use bookahead_api as api;
use bookahead_lrms::JobStatus;
use bookahead_plan::planner::{Cluster, Planner};
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::ledger::{Offered, View, Views};
use bookahead_protocol::{JobId, Moment, Name, Reservation, ReservationId, Resource, State};
use std::collections::BTreeMap;

/// Of one resource at most so much is drawn.
const MOST_BLOCKS: usize = 10_000;

impl Sight for Site {
    fn role(&self) -> api::Role {
        api::Role::Site
    }

    fn resources(&self) -> Vec<Resource> {
        self.rules.resources.iter().map(|offered| offered.resource.clone()).collect()
    }

    fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation> {
        self.ledger.reservation(now, id)
    }

    fn list(&self, now: Moment, filter: &Filter) -> (Vec<Reservation>, bool) {
        let all = self.ledger.ids_after(filter.after).filter_map(|id| self.ledger.reservation(now, id));
        filter.page(all)
    }

    fn schedule(
        &mut self,
        now: Moment,
        viewer: &Viewer,
        window: Interval,
        resource: Option<&Name>,
    ) -> api::Schedule {
        let views = self.lrms.views(now).unwrap_or_else(|why| {
            tracing::error!("cannot see the batch system: {why}");
            Views::default()
        });
        let wanted = |offered: &&Offered| resource.is_none_or(|name| *name == offered.resource.name);
        let offered = self.rules.resources.iter().filter(wanted);
        let drawn = offered.map(|offered| {
            let view = views.on(&offered.resource.name);
            self.drawn(now, viewer, window, offered, view)
        });
        api::Schedule { resources: drawn.collect() }
    }

    fn sites(&mut self, now: Moment) -> Vec<api::Site> {
        let views = self.lrms.views(now).unwrap_or_default();
        let loads = self.rules.resources.iter().map(|offered| {
            let name = offered.resource.name.clone();
            load(now.second(), views.on(&name), name)
        });
        let loads = loads.collect();
        let resources = self.resources().into_iter().map(Into::into).collect();
        let last_heard = Some(api::Timestamp::nearest(now.second()));
        vec![api::Site { resources, loads, last_heard, ..self.about.clone() }]
    }

    fn jobs(&self, viewer: &Viewer) -> Vec<api::Job> {
        let there = self.lrms.jobs();
        let there: BTreeMap<JobId, &JobStatus> = there.iter().map(|status| (status.id, status)).collect();
        let seen = self.jobs.all().filter(|record| viewer.sees(&record.job.user));
        let mut jobs: Vec<_> =
            seen.map(|record| self.show_job(record, there.get(&record.job.id).copied())).collect();
        jobs.sort_by_key(|job| (job.submitted, job.id));
        jobs
    }

    fn counts(&self) -> BTreeMap<State, usize> {
        self.ledger.counts()
    }
}

impl Site {
    fn drawn(
        &self,
        now: Moment,
        viewer: &Viewer,
        window: Interval,
        offered: &Offered,
        view: &View,
    ) -> api::ResourceSchedule {
        let name = &offered.resource.name;
        let mut blocks = self.reservations_in(viewer, window, name);
        let jobs = self.jobs_of(now.second(), offered, view);
        let jobs = jobs.into_iter().filter(|(_, span)| overlap(span.interval, window));
        blocks.extend(jobs.filter_map(|(kind, span)| block(kind, span)));
        blocks.sort_by_key(|block| (block.begin, block.end));
        blocks.truncate(MOST_BLOCKS);
        api::ResourceSchedule {
            resource: name.clone(),
            capacity: offered.resource.capacity.0,
            now: api::Timestamp::nearest(now.second()),
            lost: self.ledger.lost_capacity(name).0,
            blocks,
        }
    }

    /// Jobs that run, jobs that wait as they are planned at the moment, and what others reserved.
    fn jobs_of(&self, now: Time, offered: &Offered, view: &View) -> Vec<(api::BlockKind, Span)> {
        let own = self.ledger.reserved(&offered.resource.name).map(|(_, span)| span);
        let reservations: Vec<Span> = own.chain(view.foreign.iter().copied()).collect();
        let cluster = Cluster {
            capacity: offered.resource.capacity,
            now,
            running: &view.running,
            waiting: &view.waiting,
            reservations: &reservations,
        };
        let mut planner = Planner::new();
        let starts = planner.plan(offered.placement.policy, &cluster);
        let running = view.running.iter().map(|job| {
            let interval = Interval::new(now, job.expected_end.max(now + Seconds(1)));
            (api::BlockKind::RunningJob, Span { interval, capacity: job.capacity })
        });
        let waiting = view.waiting.iter().zip(starts).map(|(job, start)| {
            let interval = Interval::new(*start, *start + job.estimate);
            (api::BlockKind::WaitingJob, Span { interval, capacity: job.capacity })
        });
        let foreign = view.foreign.iter().map(|span| (api::BlockKind::Foreign, *span));
        running.chain(waiting).chain(foreign).collect()
    }

    fn reservations_in(&self, viewer: &Viewer, window: Interval, resource: &Name) -> Vec<api::Block> {
        let spans = self.ledger.reserved(resource).filter(|(_, span)| overlap(span.interval, window));
        let drawn = spans.take(MOST_BLOCKS).filter_map(|(id, span)| {
            let entry = self.ledger.entry(id)?;
            let held = entry.state == State::Held;
            let kind = if held { api::BlockKind::Hold } else { api::BlockKind::Reservation };
            let block = block(kind, span)?;
            if !viewer.sees(&entry.owner) {
                return Some(block);
            }
            let (owner, state) = (Some(entry.owner.clone()), Some(entry.state.into()));
            Some(api::Block { id: Some(id.to_string()), owner, state, ..block })
        });
        drawn.collect()
    }
}

fn load(now: Time, view: &View, resource: Name) -> api::Load {
    let count = |jobs: usize| u32::try_from(jobs).unwrap_or(u32::MAX);
    let running = view.running.iter().map(|job| (job.capacity, job.expected_end - now));
    let waiting = view.waiting.iter().map(|job| (job.capacity, job.estimate));
    let jobs = || running.clone().chain(waiting.clone());
    api::Load {
        resource,
        running_jobs: count(view.running.len()),
        waiting_jobs: count(view.waiting.len()),
        requested: jobs().map(|(capacity, _)| u64::from(capacity.0)).sum(),
        longest_wall_time_seconds: jobs().map(|(_, time)| time.0).max().unwrap_or(0).max(0),
    }
}

fn overlap(one: Interval, other: Interval) -> bool {
    one.begin < other.end && other.begin < one.end
}

fn block(kind: api::BlockKind, span: Span) -> Option<api::Block> {
    let Span { interval: Interval { begin, end }, capacity: Capacity(capacity) } = span;
    let stamp = |time: Time| api::Timestamp::try_from(time).ok();
    Some(api::Block {
        kind,
        begin: stamp(begin)?,
        end: stamp(end)?,
        capacity,
        id: None,
        owner: None,
        state: None,
    })
}
