//! Chooses hosts for a reservation. LSF takes as many slots as it finds from the first named host, then from the
//! next, and considers only reservations. Here, running jobs outside of reservations that reach into the interval
//! count as well; a job without a limit runs forever.

use super::times::{PERIOD, widened};
use crate::batch::{FactState, Handle, JobFact, Node, Picture, Place, Share, Unit};
use bookahead_plan::{Interval, Time};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Choice {
    /// Hosts without conflicting jobs: LSF itself takes the right number of slots there, in this order.
    pub(super) clear: Vec<Share>,
    /// Hosts where jobs use some of the slots: to be added one at a time, with their numbers.
    pub(super) partly: Vec<Share>,
}

/// Use of a host in an interval.
struct Room<'a> {
    node: &'a Node,
    reserved: u32,
    busy: u32,
}

impl Room<'_> {
    fn free(&self) -> u32 {
        // More may be in use than there is: LSF ignores jobs, and slot limits may be lowered.
        self.node.cores.saturating_sub(self.reserved).saturating_sub(self.busy)
    }
}

/// Hosts for this many slots or whole hosts, considering all reservations but one; the error is the number available.
pub(super) fn choose(
    place: &Place,
    amount: u32,
    interval: Interval,
    picture: &Picture,
    but: Option<&Handle>,
) -> Result<Choice, u32> {
    let usable = picture.nodes.iter().filter(|node| node.usable && node.resources.contains(&place.resource));
    let mut rooms: Vec<Room<'_>> = usable.map(|node| room(node, interval, picture, but)).collect();
    match place.unit {
        Unit::Nodes => whole(&rooms, amount),
        Unit::Cores => {
            // Use few hosts: those with the most room first, and those without conflicting jobs before the others.
            rooms.sort_by_key(|room| (room.busy > 0, std::cmp::Reverse(room.free())));
            slots(&rooms, amount)
        }
    }
}

/// Splits an earlier choice into hosts with and without conflicting jobs.
pub(super) fn apart(shares: &[Share], interval: Interval, picture: &Picture) -> Choice {
    let is_busy = |host: &str| {
        let mut in_the_way = picture.jobs.iter().filter(|job| reaches(job, interval.begin));
        in_the_way.any(|job| job.placed.contains_key(host))
    };
    let (partly, clear) = shares.iter().cloned().partition(|(host, _)| is_busy(host));
    Choice { clear, partly }
}

fn whole(rooms: &[Room<'_>], amount: u32) -> Result<Choice, u32> {
    // A host without a slot limit shows zero slots, and LSF cannot reserve it.
    let free = rooms.iter().filter(|room| room.node.cores > 0 && room.free() == room.node.cores);
    let clear: Vec<Share> = free.map(|room| share(room, room.node.cores)).collect();
    let there = u32::try_from(clear.len()).unwrap_or(u32::MAX);
    if there < amount {
        return Err(there);
    }
    let wanted = usize::try_from(amount).unwrap_or(usize::MAX);
    Ok(Choice { clear: clear.into_iter().take(wanted).collect(), partly: Vec::new() })
}

fn slots(rooms: &[Room<'_>], amount: u32) -> Result<Choice, u32> {
    let mut choice = Choice::default();
    let mut missing = amount;
    for room in rooms {
        let slots = room.free().min(missing);
        missing -= slots;
        match (slots, room.busy) {
            (0, _) => {}
            (_, 0) => choice.clear.push(share(room, slots)),
            _ => choice.partly.push(share(room, slots)),
        }
    }
    if missing == 0 { Ok(choice) } else { Err(amount - missing) }
}

fn share(room: &Room<'_>, slots: u32) -> Share {
    (room.node.name.clone(), slots)
}

fn room<'a>(node: &'a Node, interval: Interval, picture: &Picture, but: Option<&Handle>) -> Room<'a> {
    // Two reservations in one period conflict in LSF, even if their minutes do not overlap.
    let window = widened(interval, PERIOD);
    let others = picture.reservations.iter().filter(|reserved| but != Some(&reserved.handle));
    let spans = others.filter_map(|reserved| {
        let span = widened(reserved.interval, PERIOD);
        let cores = *reserved.cores.get(&node.name)?;
        (span.begin < window.end && window.begin < span.end).then_some((span, cores))
    });
    let spans: Vec<(Interval, u32)> = spans.collect();
    // By the exact begin: only reservations take whole periods.
    let in_the_way = picture.jobs.iter().filter(|job| reaches(job, interval.begin));
    let busy = in_the_way
        .filter_map(|job| job.placed.get(&node.name))
        .fold(0, |sum: u32, cores| sum.saturating_add(*cores));
    Room { node, reserved: peak(&spans, window.begin), busy }
}

/// Peak of reserved slots from `begin` on.
fn peak(spans: &[(Interval, u32)], begin: Time) -> u32 {
    let at = |moment: Time| {
        let there = spans.iter().filter(|(span, _)| span.contains(moment));
        there.fold(0, |sum: u32, (_, cores)| sum.saturating_add(*cores))
    };
    // The sum rises only where a span begins, so no other moments need a check.
    let moments = spans.iter().map(|(span, _)| span.begin.max(begin)).chain([begin]);
    moments.map(at).max().unwrap_or(0)
}

/// Whether a job runs outside of reservations and may still run then.
fn reaches(job: &JobFact, then: Time) -> bool {
    let runs = job.state == FactState::Running && job.reservations.is_empty();
    runs && job.started.zip(job.limit).is_none_or(|(started, limit)| started + limit > then)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Reserved;
    use bookahead_plan::Seconds;
    use bookahead_protocol::Name;
    use std::collections::BTreeMap;

    fn place(unit: Unit) -> Place {
        Place { resource: Name::from("cpu"), unit, partition: None, features: Vec::new() }
    }

    fn node(name: &str, cores: u32) -> Node {
        Node { name: name.into(), cores, usable: true, resources: vec![Name::from("cpu")] }
    }

    fn reserved(id: &str, begin: i64, end: i64, host: &str, cores: u32) -> Reserved {
        Reserved {
            handle: Handle(id.into()),
            name: id.into(),
            interval: Interval::new(Time(begin), Time(end)),
            cores: BTreeMap::from([(host.into(), cores)]),
            spread: true,
            accounts: Vec::new(),
            maintenance: false,
        }
    }

    fn running(host: &str, cores: u32, limit: Option<i64>) -> JobFact {
        JobFact {
            native: "1".into(),
            name: String::new(),
            account: "ann".into(),
            resources: vec![Name::from("cpu")],
            state: FactState::Running,
            cores,
            nodes: 1,
            placed: BTreeMap::from([(host.into(), cores)]),
            submitted: Time(0),
            eligible: None,
            started: Some(Time(0)),
            ended: None,
            limit: limit.map(Seconds),
            reservations: Vec::new(),
            expected_start: None,
            awaits_go: false,
            restarts: 0,
        }
    }

    fn picture(reservations: Vec<Reserved>, jobs: Vec<JobFact>) -> Picture {
        Picture { nodes: vec![node("a", 8), node("b", 8)], reservations, jobs, ..Picture::default() }
    }

    const WINDOW: Interval = Interval::new(Time(6000), Time(12_000));

    fn shares(shares: &[Share]) -> Vec<(&str, u32)> {
        shares.iter().map(|(host, slots)| (host.as_str(), *slots)).collect()
    }

    #[test]
    fn slots_are_taken_where_no_job_is_in_the_way_before_others() {
        let picture = picture(Vec::new(), vec![running("a", 3, None)]);
        let choice = choose(&place(Unit::Cores), 10, WINDOW, &picture, None).unwrap();
        assert_eq!((shares(&choice.clear), shares(&choice.partly)), (vec![("b", 8)], vec![("a", 2)]));
        assert_eq!(choose(&place(Unit::Cores), 14, WINDOW, &picture, None), Err(13));
    }

    #[test]
    fn a_job_that_ends_before_the_window_is_not_in_the_way() {
        let picture = picture(Vec::new(), vec![running("a", 3, Some(6000))]);
        assert!(choose(&place(Unit::Cores), 16, WINDOW, &picture, None).unwrap().partly.is_empty());
    }

    #[test]
    fn reservations_one_after_the_other_do_not_add_up() {
        let there = vec![reserved("x", 6000, 7200, "a", 5), reserved("y", 9000, 12_000, "a", 4)];
        let picture = picture(there, Vec::new());
        let choice = choose(&place(Unit::Cores), 11, WINDOW, &picture, None).unwrap();
        assert_eq!(shares(&choice.clear), [("b", 8), ("a", 3)]);
    }

    #[test]
    fn a_reservation_takes_whole_periods_of_ten_minutes() {
        let picture = picture(vec![reserved("x", 5000, 5700, "a", 8)], Vec::new());
        let window = |begin| Interval::new(Time(begin), Time(12_000));
        assert_eq!(choose(&place(Unit::Cores), 16, window(5940), &picture, None), Err(8));
        assert!(choose(&place(Unit::Cores), 16, window(6000), &picture, None).is_ok());
        assert!(choose(&place(Unit::Cores), 16, window(5940), &picture, Some(&Handle("x".into()))).is_ok());
    }

    #[test]
    fn whole_hosts_are_free_of_everything() {
        let mut picture = picture(vec![reserved("x", 6000, 7000, "a", 1)], Vec::new());
        assert_eq!(choose(&place(Unit::Nodes), 2, WINDOW, &picture, None), Err(1));
        assert_eq!(
            shares(&choose(&place(Unit::Nodes), 1, WINDOW, &picture, None).unwrap().clear),
            [("b", 8)]
        );
        picture.nodes[1].usable = false;
        assert_eq!(choose(&place(Unit::Nodes), 1, WINDOW, &picture, None), Err(0));
    }
}
