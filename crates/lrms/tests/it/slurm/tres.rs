//! GPUs, memory and licences on a real Slurm.

use super::{Site, Wanted, cores, nodes, refusal, start};
use bookahead_lrms::batch::{Accounts, Batch, BatchSystem, Place, Settings};
use bookahead_party::Backing;
use bookahead_plan::{Capacity, Seconds, Span};
use bookahead_protocol::{Moment, Name, ReservationId, Tres};
use std::collections::BTreeMap;

const A100: &str = "gres/gpu:a100";
const QPU: &str = "license/qpu";

/// Three nodes with four cores; n2 has four GPUs, n3 two. Three QPUs and ten seats of matlab as licences.
fn with_gpus(place: &Place) -> Site {
    start(place, |cluster| {
        cluster.nodes = 3;
        cluster.gpus = BTreeMap::from([(2, ("a100".into(), 4)), (3, ("a100".into(), 2))]);
        cluster.extra.push("Licenses=qpu:3,matlab:10".into());
    })
}

fn tres(amounts: &[(&str, u32)]) -> Tres {
    amounts.iter().copied().collect()
}

fn with(wanted: Wanted, amounts: &[(&str, u32)]) -> Wanted {
    Wanted { tres: tres(amounts), ..wanted }
}

fn on(site: &mut Site, name: &str) -> Vec<String> {
    site.reserved(name).unwrap().cores.into_keys().collect()
}

#[test]
fn totals_and_the_licences_of_reservations_and_jobs_are_read() {
    let mut site = with_gpus(&nodes());
    site.foreign(&[
        "ReservationName=theirs",
        "StartTime=now+3600",
        "Duration=10",
        "Nodes=n1",
        "CoreCnt=4",
        "Licenses=qpu:1",
    ]);
    site.local_job(&["-w", "n3", "-n1", "-t", "10", "-L", "qpu:2"]);
    let picture = site.look().tres;
    assert_eq!(picture.totals, tres(&[("license/matlab", 10), (QPU, 3)]));
    assert_eq!(picture.nodes["n1"], tres(&[("feature/n1", 1), ("mem", 16_000)]));
    assert_eq!(picture.nodes["n2"], tres(&[("feature/n2", 1), ("gres/gpu", 4), (A100, 4), ("mem", 16_000)]));
    let reserved: Vec<String> =
        picture.reserved.iter().map(|(name, tres)| format!("{name} {tres}")).collect();
    assert_eq!(reserved, ["theirs license/qpu=1"]);
    let [job] = picture.jobs.as_slice() else { panic!("{:?}", picture.jobs) };
    assert_eq!((&job.tres, job.reservations.len()), (&tres(&[(QPU, 2)]), 0));
    let left = job.ends.unwrap() - site.now();
    assert!((Seconds(500)..=Seconds(600)).contains(&left), "{left}");
}

#[test]
fn nodes_are_chosen_by_their_gpus_and_nodes_with_gpus_are_left_to_those_who_want_them() {
    let place = nodes();
    let mut site = with_gpus(&place);
    let plain = site.wanted("ba.plain", &place, 600, 60, 1);
    site.create(&plain).unwrap();
    assert_eq!(on(&mut site, "ba.plain"), ["n1"]);
    let five = site.wanted("ba.five", &place, 600, 60, 2);
    site.create(&with(five, &[(A100, 5), ("mem", 32_000)])).unwrap();
    assert_eq!(on(&mut site, "ba.five"), ["n2", "n3"]);
    let four = with(site.wanted("ba.four", &place, 1200, 60, 1), &[(A100, 4)]);
    site.create(&four).unwrap();
    assert_eq!(on(&mut site, "ba.four"), ["n2"]);
    // Two nodes are free, but they have two GPUs together.
    let two = site.wanted("ba.more", &place, 1200, 60, 2);
    let said = refusal(site.create(&with(two.clone(), &[(A100, 3)])));
    assert!(said.contains("only 2 of gres/gpu:a100") && said.contains("3 are wanted"), "{said}");
    let said = refusal(site.create(&with(two.clone(), &[("mem", 32_001)])));
    assert!(said.contains("only 32000 of mem"), "{said}");
    site.create(&with(two, &[(A100, 2)])).unwrap();
    // Repeated, it is the same one; with more GPUs than its nodes have, it is not.
    site.create(&four).unwrap();
    let said = refusal(site.create(&with(four, &[(A100, 5)])));
    assert!(said.contains("5 are wanted") || said.contains("instead of 5"), "{said}");
}

#[test]
fn gpus_and_memory_by_number_need_whole_nodes_and_odd_names_are_refused() {
    let place = cores();
    let mut site = with_gpus(&place);
    let wanted = site.wanted("ba.one", &place, 600, 60, 2);
    for thing in [A100, "mem"] {
        let said = refusal(site.create(&with(wanted.clone(), &[(thing, 1)])));
        assert!(said.contains("only with whole nodes"), "{said}");
    }
    let said = refusal(site.create(&with(wanted, &[("license/a:b", 1)])));
    assert!(said.contains("not the name of a licence"), "{said}");
}

#[test]
fn licences_come_with_cores_are_read_back_change_in_place_and_are_refused_when_gone() {
    let place = cores();
    let mut site = with_gpus(&place);
    let two = with(site.wanted("ba.two", &place, 600, 60, 2), &[(QPU, 2), ("license/matlab", 4)]);
    let handle = site.create(&two).unwrap();
    assert!(
        site.shown("ba.two").contains("Licenses=qpu:2,matlab:4")
            || site.shown("ba.two").contains("matlab:4,qpu:2")
    );
    assert_eq!(site.look().tres.reserved[&handle], two.tres);
    let more = with(site.wanted("ba.more", &place, 600, 60, 2), &[(QPU, 2)]);
    let said = refusal(site.create(&more));
    assert!(said.contains("Invalid license specification") && said.contains("other reservations"), "{said}");
    assert_eq!(site.reserved("ba.more"), None);
    let unknown = with(site.wanted("ba.cad", &place, 600, 60, 2), &[("license/cad", 1)]);
    refusal(site.create(&unknown));
    // Fewer in place, with a later end.
    let mut fewer = with(two.clone(), &[(QPU, 1)]);
    fewer.interval.end = fewer.interval.end + Seconds(30);
    assert_eq!(site.change(&handle, &fewer).unwrap(), Some(handle.clone()));
    assert_eq!(site.look().tres.reserved[&handle], fewer.tres);
    site.create(&more).unwrap();
    let none = Wanted { tres: Tres::default(), ..fewer };
    assert_eq!(site.change(&handle, &none).unwrap(), Some(handle.clone()));
    assert!(!site.look().tres.reserved.contains_key(&handle));
}

fn batch(site: &Site, place: &Place, capacity: u32, offered: &[(&str, u32)]) -> Batch {
    let slurm = super::dialect(&site.cluster, vec![place.clone()], None);
    let places = vec![(place.clone(), Capacity(capacity))];
    let accounts = Accounts::Service(site.account());
    let settings = Settings {
        tres: BTreeMap::from([(super::cpu(), tres(offered))]),
        ..Settings::new(Name::from("north"), places, accounts)
    };
    Batch::new(Box::new(slurm) as Box<dyn BatchSystem>, settings).unwrap()
}

/// What is taken of a thing in the view of the resource, at most at any time.
fn most_taken(batch: &Batch, now: Moment, name: &str) -> u32 {
    let look = batch.look(now).unwrap();
    let spans = look.resources[&super::cpu()].view.tres.get(&Name::from(name)).cloned().unwrap_or_default();
    let at = |begin| bookahead_protocol::ledger::taken(&spans, begin).0;
    spans.iter().map(|span| at(span.interval.begin)).max().unwrap_or(0)
}

fn keep(site: &mut Site, id: u128, from: i64, amount: u32, amounts: &[(&str, u32)]) -> (Moment, Backing) {
    let now = site.now();
    let span = Span::starting(now + Seconds(from), Seconds(60), Capacity(amount));
    let backing = Backing {
        resource: super::cpu(),
        id: ReservationId(id),
        owner: "ann".into(),
        terms: Default::default(),
        spans: vec![span],
        tres: tres(amounts),
        replaces: false,
    };
    (Moment::of(now), backing)
}

#[test]
fn the_view_counts_what_others_use_and_what_is_left_over_on_our_nodes() {
    let place = nodes();
    let mut site = with_gpus(&place);
    let all = [(A100, 6), ("mem", 48_000), (QPU, 3)];
    let batch = batch(&site, &place, 3, &all);
    let now = Moment::of(site.now());
    for (name, _) in all {
        assert_eq!(most_taken(&batch, now, name), 0, "{name}");
    }
    // Two of the four GPUs of n2, and a QPU: the rest of n2 cannot be promised, the QPUs are counted by the ledger.
    let (now, backing) = keep(&mut site, 1, 600, 1, &[(A100, 3), (QPU, 1)]);
    batch.keep(now, &backing).unwrap();
    assert_eq!((most_taken(&batch, now, A100), most_taken(&batch, now, QPU)), (1, 0));
    // A job of another user on n3, with a QPU.
    site.local_job(&["-w", "n3", "-n1", "-t", "5", "-L", "qpu:1"]);
    assert_eq!((most_taken(&batch, now, A100), most_taken(&batch, now, QPU)), (2, 1));
    // A node that is away takes its GPUs with it.
    site.by_hand("scontrol", &["update", "NodeName=n2", "State=down", "Reason=test"]);
    assert_eq!(most_taken(&batch, now, A100), 4 + 2);
}

#[test]
fn amounts_change_in_one_order_and_survive_a_new_adapter() {
    let place = nodes();
    let mut site = with_gpus(&place);
    let offered = [(A100, 6), (QPU, 3)];
    let first = batch(&site, &place, 3, &offered);
    let (now, one) = keep(&mut site, 1, 600, 1, &[(QPU, 1)]);
    first.keep(now, &one).unwrap();
    let handles = |batch: &Batch| -> Vec<String> {
        batch
            .look(now)
            .unwrap()
            .tagged
            .iter()
            .map(|one| format!("{} {}", one.spans.len(), one.tres))
            .collect()
    };
    assert_eq!(handles(&first), ["1 license/qpu=1"]);
    // All licences: the old ones are not in the way, because they change in place.
    let three = Backing { tres: tres(&[(QPU, 3)]), ..one.clone() };
    first.keep(now, &three).unwrap();
    // GPUs: another node.
    let gpus = Backing { tres: tres(&[(A100, 4)]), ..one.clone() };
    first.keep(now, &gpus).unwrap();
    assert_eq!(handles(&first), ["1 gres/gpu:a100=4"]);
    let again = batch(&site, &place, 3, &offered);
    assert_eq!(handles(&again), ["1 gres/gpu:a100=4"]);
    again.keep(now, &gpus).unwrap();
    let too_many = Backing { tres: tres(&[(A100, 5)]), ..one };
    let refused = again.keep(now, &too_many).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("of gres/gpu:a100 on 1 nodes"), "{refused}");
    assert_eq!(handles(&again), ["1 gres/gpu:a100=4"]);
}

#[test]
fn of_fifty_orders_at_once_no_two_get_the_same_node_or_licence() {
    let place = nodes();
    let mut site = with_gpus(&place);
    let batch = batch(&site, &place, 3, &[(A100, 6), (QPU, 3)]);
    let orders: Vec<(Moment, Backing)> = (0..50)
        .map(|number: u32| {
            let amounts = [(A100, number % 3), (QPU, u32::from(number.is_multiple_of(2)) * 2)];
            let amounts: Vec<_> = amounts.into_iter().filter(|(_, amount)| *amount > 0).collect();
            keep(&mut site, u128::from(number) + 1, 3_600, 1, &amounts)
        })
        .collect();
    // The same interval for all.
    let (now, spans) = (orders[0].0, orders[0].1.spans.clone());
    let granted: Vec<Tres> = std::thread::scope(|scope| {
        let threads: Vec<_> = orders
            .iter()
            .map(|(_, backing)| {
                let (batch, backing) = (&batch, Backing { spans: spans.clone(), ..backing.clone() });
                scope.spawn(move || batch.keep(now, &backing).map(|()| backing.tres))
            })
            .collect();
        threads
            .into_iter()
            .filter_map(|thread| match thread.join().unwrap() {
                Ok(tres) => Some(tres),
                Err(why) => {
                    assert!(why.is_refusal(), "{why}");
                    None
                }
            })
            .collect()
    });
    let sum = |name: &str| granted.iter().map(|tres| tres.of(&name.into()).0).sum::<u32>();
    assert!((1..=3).contains(&granted.len()) && sum(A100) <= 6 && sum(QPU) <= 3, "{granted:?}");
    let picture = site.look();
    let mut taken: Vec<&String> = picture.reservations.iter().flat_map(|one| one.cores.keys()).collect();
    taken.sort();
    taken.dedup();
    assert_eq!((picture.reservations.len(), taken.len()), (granted.len(), granted.len()));
    let licensed: u32 = picture.tres.reserved.values().map(|tres| tres.of(&QPU.into()).0).sum();
    assert_eq!(licensed, sum(QPU));
}
