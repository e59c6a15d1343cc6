//! Creating reservations: the grant equals the request, or it is refused.

use super::{Site, cores, nodes, plain, refusal, start};
use bookahead_lrms::batch::{Handle, Place};
use bookahead_plan::{Interval, Seconds};

/// A year ahead nothing conflicts.
const FAR: i64 = 30_000_000;

fn local(site: &mut Site, words: &[&str]) -> String {
    site.local_job(words)
}

#[test]
fn cores_are_granted_to_the_second_and_never_short() {
    let place = cores();
    let mut site = plain(&place);
    // Fifteen seconds, which Slurm would round to a minute if given as a duration.
    let wanted = site.wanted("ba.one", &place, 100, 15, 6);
    assert_eq!(site.create(&wanted).unwrap(), Handle("ba.one".into()));
    let reserved = site.reserved("ba.one").unwrap();
    assert_eq!(reserved.interval, wanted.interval);
    assert_eq!(reserved.cores.values().sum::<u32>(), 6);
    assert_eq!(reserved.accounts, [site.account()]);
    // Two of eight are left: three are refused, and nothing is reserved.
    let more = site.wanted("ba.two", &place, 100, 15, 3);
    assert!(
        refusal(site.create(&more)).contains("Requested nodes are busy; running jobs or other reservations")
    );
    assert_eq!(site.shown("ba.two"), "");
    let rest = site.wanted("ba.three", &place, 100, 15, 2);
    site.create(&rest).unwrap();
    // More than the total capacity.
    let all = site.wanted("ba.four", &place, FAR, 15, 9);
    refusal(site.create(&all));
    // No flag lets others in.
    site.until_cores_are_told("ba.one");
    for flag in ["FLEX", "MAGNETIC", "OVERLAP", "MAINT", "IGNORE_JOBS", "ANY_NODES"] {
        assert!(!site.shown("ba.one").contains(flag), "{flag}");
    }
    assert!(site.look().reservations.iter().all(|one| one.spread));
}

#[test]
fn whole_nodes_are_free_of_everybody_or_refused() {
    let place = nodes();
    let mut site = start(&place, |settings| settings.nodes = 3);
    // Slurm itself would grant three nodes if four are requested.
    let four = site.wanted("ba.four", &place, FAR, 60, 4);
    assert!(refusal(site.create(&four)).contains("only 3 nodes of cpu are usable and free"));
    // One has a core that another user reserved; Slurm would put a whole node over it.
    site.foreign(&["ReservationName=core", "StartTime=now+1000", "Duration=10", "Nodes=n2", "CoreCnt=1"]);
    let three = site.wanted("ba.three", &place, 1010, 60, 3);
    assert!(refusal(site.create(&three)).contains("only 2 nodes"));
    let two = site.wanted("ba.two", &place, 1010, 60, 2);
    site.create(&two).unwrap();
    let reserved = site.reserved("ba.two").unwrap();
    assert_eq!(reserved.cores, [("n1".to_owned(), 4), ("n3".to_owned(), 4)].into());
    assert!(reserved.spread);
    // A repeated order has the same result.
    site.create(&two).unwrap();
    assert_eq!(site.reserved("ba.two").unwrap(), reserved);
    // A node that is down is not used.
    site.cluster.set_node("n1", "down").unwrap();
    let other = site.wanted("ba.other", &place, FAR, 60, 3);
    assert!(refusal(site.create(&other)).contains("only 2 nodes"));
}

#[test]
fn a_later_reservation_of_whole_nodes_over_ours_is_seen() {
    // Slurm puts it over our cores, and its jobs come first. That cannot be prevented, but it is noticed.
    let place = cores();
    let mut site = plain(&place);
    let wanted = site.wanted("ba.one", &place, 1000, 60, 6);
    site.create(&wanted).unwrap();
    site.foreign(&["ReservationName=whole", "StartTime=now+1000", "Duration=10", "Nodes=n1"]);
    let picture = site.look();
    let on_n1 = |name: &str| picture.reservations.iter().find(|one| one.name == name).unwrap().cores["n1"];
    assert!(on_n1("ba.one") + on_n1("whole") > 4);
    // The other way round it is refused.
    let more = site.wanted("ba.two", &place, 1000, 60, 4);
    refusal(site.create(&more));
}

#[test]
fn running_jobs_are_in_the_way_core_by_core_until_their_limit() {
    let place = cores();
    let mut site = plain(&place);
    local(&mut site, &["-w", "n1", "-n3", "-t", "10"]);
    let six = site.wanted("ba.six", &place, 120, 60, 6);
    refusal(site.create(&six));
    let five = site.wanted("ba.five", &place, 120, 60, 5);
    site.create(&five).unwrap();
    // After its limit it does not conflict.
    let eight = site.wanted("ba.eight", &place, 700, 60, 8);
    site.create(&eight).unwrap();
    let whole = Place { resource: "cpu".into(), ..nodes() };
    site.slurm = super::dialect(&site.cluster, vec![whole.clone()], None);
    let two = site.wanted("ba.two", &whole, 300, 30, 2);
    assert!(refusal(site.create(&two)).contains("only 1 nodes"));
}

#[test]
fn saying_it_twice_makes_one_and_other_terms_change_nothing() {
    let place = cores();
    let mut site = plain(&place);
    let wanted = site.wanted("ba.one", &place, 100, 60, 2);
    let handle = site.create(&wanted).unwrap();
    assert_eq!(site.create(&wanted).unwrap(), handle);
    let mut other = wanted.clone();
    other.amount = 3;
    assert!(refusal(site.create(&other)).contains("it has 2 instead of 3"));
    assert_eq!(site.reserved("ba.one").unwrap().cores.values().sum::<u32>(), 2);
    // Also one that takes the full capacity and so conflicts with itself.
    let all = site.wanted("ba.all", &place, 1000, 60, 8);
    site.create(&all).unwrap();
    site.create(&all).unwrap();
    // Also one that begins at once: it has begun when the order is repeated.
    let now = Interval::new(site.now() - Seconds(1000), site.now() + Seconds(60));
    let wanted = super::Wanted { name: "ba.now".into(), interval: now, ..wanted };
    site.create(&wanted).unwrap();
    assert_eq!(site.create(&wanted).unwrap(), Handle("ba.now".into()));
    let reserved = site.reserved("ba.now").unwrap();
    assert_eq!(reserved.interval.end, now.end);
    assert!(site.shown("ba.now").contains("State=ACTIVE"));
}

#[test]
fn places_without_partition_and_with_features_get_their_own_nodes() {
    let anywhere = Place { partition: None, ..cores() };
    let mut site = start(&anywhere, |settings| {
        settings.nodes = 3;
        settings.extra = vec!["PartitionName=half Nodes=n[1-2] MaxTime=60".into()];
    });
    let seven = site.wanted("ba.seven", &anywhere, FAR, 60, 7);
    site.create(&seven).unwrap();
    assert_eq!(site.reserved("ba.seven").unwrap().cores.values().sum::<u32>(), 7);
    // Our own record before Slurm reports the spread equals the report.
    let known = site.reserved("ba.seven").unwrap();
    site.until_cores_are_told("ba.seven");
    assert_eq!((site.reserved("ba.seven").unwrap(), known.spread), (known, true));
    // The rest of the second node, and the third.
    let five = site.wanted("ba.five", &anywhere, FAR, 60, 5);
    site.create(&five).unwrap();
    let one = site.wanted("ba.more", &anywhere, FAR, 60, 1);
    assert!(refusal(site.create(&one)).contains("only 0 cores"));
    // The second node of a partition that is not the default one.
    let featured = Place { partition: Some("half".into()), features: vec!["n2".into()], ..cores() };
    site.slurm = super::dialect(&site.cluster, vec![featured.clone()], None);
    assert_eq!(site.look().nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n2"]);
    let wanted = site.wanted("ba.featured", &featured, FAR + 1000, 60, 4);
    site.create(&wanted).unwrap();
    assert_eq!(site.reserved("ba.featured").unwrap().cores, [("n2".to_owned(), 4)].into());
    let wanted = site.wanted("ba.featured2", &featured, FAR + 1000, 60, 1);
    refusal(site.create(&wanted));
}

#[test]
fn cores_are_counted_where_they_have_threads() {
    let place = cores();
    let mut site = start(&place, |settings| settings.threads_per_core = 2);
    assert_eq!(site.look().nodes.iter().map(|node| node.cores).collect::<Vec<_>>(), [4, 4]);
    let wanted = site.wanted("ba.five", &place, -10, 600, 5);
    let handle = site.create(&wanted).unwrap();
    assert_eq!(site.reserved("ba.five").unwrap().cores.values().sum::<u32>(), 5);
    // A job in it has as many cores as it was submitted for.
    let job = site.submission("job_5", &place, 5, &[&handle]);
    let id = bookahead_lrms::batch::JobSystem::submit(&site.slurm, &job).unwrap();
    let fact = site.until_state(&id, &super::FactState::Running);
    assert_eq!((fact.cores, fact.placed.values().sum::<u32>()), (5, 5));
    // Three tasks that share cores are two cores.
    let id = local(&mut site, &["-n3", "-t5"]);
    assert_eq!(site.job(&id).unwrap().cores, 2);
    // Whole nodes too.
    let whole = nodes();
    site.slurm = super::dialect(&site.cluster, vec![whole.clone()], None);
    let wanted = site.wanted("ba.whole", &whole, FAR, 60, 2);
    site.create(&wanted).unwrap();
    assert_eq!(site.reserved("ba.whole").unwrap().cores.values().sum::<u32>(), 8);
}

#[test]
fn words_that_could_be_taken_for_others_never_reach_slurm() {
    let place = cores();
    let mut site = plain(&place);
    let good = site.wanted("ba.one", &place, 100, 60, 1);
    for hostile in ["", "a b", "a,b", "a=b", "x\nFlags=FLEX", "-x", "a;b", "$(id)", "é"] {
        let named = super::Wanted { name: hostile.into(), ..good.clone() };
        assert!(refusal(site.create(&named)).contains("is not a valid name"), "{hostile:?}");
        let owned = super::Wanted { account: hostile.into(), ..good.clone() };
        refusal(site.create(&owned));
        let placed = Place { partition: Some(hostile.into()), ..place.clone() };
        refusal(site.create(&super::Wanted { place: placed, ..good.clone() }));
    }
    let nobody = super::Wanted { account: "no-such-account".into(), ..good.clone() };
    let said = refusal(site.create(&nobody));
    assert!(said.contains("; the controller does not know the account no-such-account"), "{said}");
    let elsewhere = Place { partition: Some("nowhere".into()), ..place };
    let said = refusal(site.create(&super::Wanted { place: elsewhere, ..good.clone() }));
    assert!(said.contains("correct the partition"), "{said}");
    let never =
        super::Wanted { interval: Interval::new(good.interval.end, good.interval.begin), ..good.clone() };
    refusal(site.create(&never));
    let over = Interval::new(site.now() - Seconds(1000), site.now() - Seconds(900));
    let said = refusal(site.create(&super::Wanted { interval: over, ..good }));
    assert!(said.contains("that time is in the past"), "{said}");
    assert_eq!(site.look().reservations, []);
}
