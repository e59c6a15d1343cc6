//! Typical examples.

use super::{PLENTY, chosen, part, slot};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::candidates::{Budget, Excluded, Found, Progress, Search, UNIT};
use bookahead_protocol::request::MOST_PARTS;
use bookahead_protocol::{Constraint, Impact, Name, Objective, Part, Rating, Request};

fn request(parts: Vec<Part>, constraints: Vec<Constraint>) -> Request {
    Request::new(parts, constraints)
}

fn together(first: usize, second: usize) -> Constraint {
    Constraint::Offset { first, second, by: Seconds(0) }
}

/// All candidates: indexes of slots, and starts.
fn all(request: &Request, found: &[Vec<Found>]) -> Vec<(Vec<usize>, Vec<i64>)> {
    let mut search = Search::new(request, found.to_vec(), PLENTY);
    let all = search.by_ref().map(|candidate| chosen(&candidate)).collect();
    assert_eq!(search.advance(0), Progress::Exhausted);
    all
}

/// A slot that reveals the free capacity of its resource.
fn of_free(free: u32, found: Found) -> Found {
    let Found { peer, mut slot } = found;
    slot.free = Some(Capacity(free));
    Found { peer, slot }
}

#[test]
fn two_clusters_start_together_as_soon_as_both_can() {
    let request = request(vec![part(10, 4), part(20, 4)], vec![together(0, 1)]);
    let north = vec![slot("north", 0, 5), slot("north", 40, 10)];
    let south = vec![slot("south", 20, 0), slot("south", 45, 100)];
    assert_eq!(all(&request, &[north, south]), [(vec![1, 1], vec![45, 45])]);
}

#[test]
fn a_candidate_tells_who_offers_what_and_when_exactly() {
    let request = request(vec![part(10, 4), part(20, 4)], vec![together(0, 1)]);
    let found = vec![vec![slot("north", 0, 50)], vec![slot("south", 30, 50)]];
    let candidate = Search::new(&request, found, PLENTY).next().unwrap();
    let told: Vec<_> = candidate
        .slots()
        .map(|(part, peer, slot)| (part, peer.as_str(), slot.interval.begin, slot.interval.end, slot.slack))
        .collect();
    let zero = Seconds(0);
    assert_eq!(told, [(0, "north", Time(30), Time(40), zero), (1, "south", Time(30), Time(50), zero)]);
    assert_eq!(candidate.end, Time(50));
}

#[test]
fn steps_follow_each_other_with_gaps_between_their_limits() {
    let gap = |first, least, most| Constraint::After {
        first,
        second: first + 1,
        least: Seconds(least),
        most: Some(Seconds(most)),
    };
    let request = request(vec![part(10, 1); 3], vec![gap(0, 0, 5), gap(1, 2, 4)]);
    let found = [
        vec![slot("a", 0, 3), slot("a", 20, 100)],
        vec![slot("b", 13, 0), slot("b", 50, 100)],
        vec![slot("c", 24, 1), slot("c", 64, 0)],
    ];
    // The first two could end by 23, but then the third is too early by a second; 64 leaves up to four after
    // 50–60.
    let expected = [(vec![0, 0, 0], vec![0, 13, 25]), (vec![1, 1, 1], vec![35, 50, 64])];
    assert_eq!(all(&request, &found), expected);
}

#[test]
fn a_cluster_and_a_visualisation_get_the_link_between_their_sites() {
    let link = |from: &str, to: &str, begin| {
        let Found { peer, mut slot } = slot("carrier", begin, 100);
        slot.resource = Name::from(format!("{from}-{to}"));
        slot.joins = Some([from.into(), to.into()]);
        Found { peer, slot }
    };
    let simulate_and_see = vec![
        Constraint::Joins { link: 2, ends: [0, 1] },
        Constraint::After { first: 0, second: 1, least: Seconds(0), most: None },
        together(1, 2),
        Constraint::EndsBefore { first: 2, second: 1 },
    ];
    let request = request(vec![part(30, 64), part(10, 1), part(10, 5)], simulate_and_see);
    let clusters = vec![slot("berlin", 0, 0), slot("potsdam", 5, 10)];
    let visualisations = vec![slot("dresden", 0, 100), slot("jena", 0, 100)];
    let links =
        vec![link("berlin", "hamburg", 0), link("jena", "potsdam", 50), link("berlin", "dresden", 70)];
    let expected = [(vec![1, 1, 1], vec![5, 50, 50]), (vec![0, 0, 2], vec![0, 70, 70])];
    assert_eq!(all(&request, &[clusters, visualisations, links]), expected);
}

#[test]
fn parts_that_do_not_fit_into_a_resource_together_are_put_one_after_the_other() {
    let request = request(vec![part(10, 6), part(5, 6)], vec![]);
    let found = [vec![of_free(8, slot("north", 0, 100))], vec![of_free(10, slot("north", 0, 100))]];
    // The short one first would end at the same time; in a tie the first part goes first.
    assert_eq!(all(&request, &found), [(vec![0, 0], vec![0, 10])]);
    let silent = [vec![slot("north", 0, 100)], vec![slot("north", 0, 100)]];
    assert_eq!(all(&request, &silent), [(vec![0, 0], vec![0, 0])], "without free capacities they fit");
    let narrow = [vec![of_free(8, slot("north", 3, 1))], vec![of_free(8, slot("north", 0, 9))]];
    assert_eq!(all(&request, &narrow), [], "neither can wait for the other");
    let shorter_window = [vec![of_free(8, slot("north", 0, 9))], vec![of_free(8, slot("north", 0, 100))]];
    assert_eq!(all(&request, &shorter_window), [(vec![0, 0], vec![0, 10])]);
}

#[test]
fn three_parts_of_which_any_two_fit_need_only_one_to_wait() {
    let request = request(vec![part(10, 4), part(6, 4), part(3, 4)], vec![]);
    let found = vec![vec![of_free(8, slot("north", 0, 100))]; 3];
    assert_eq!(all(&request, &found), [(vec![0, 0, 0], vec![0, 0, 6])]);
}

#[test]
fn parts_at_different_sites_are_at_different_sites_whoever_offers_them() {
    let at = |peer: &str, site: &str| Found { peer: peer.into(), ..slot(site, 0, 0) };
    let found = [vec![at("broker", "north"), at("broker", "south")], vec![at("north", "north")]];
    let apart = request(vec![part(10, 1); 2], vec![Constraint::DifferentSites(0, 1)]);
    assert_eq!(all(&apart, &found), [(vec![1, 0], vec![0, 0])]);
    let same = request(vec![part(10, 1); 2], vec![Constraint::SameSite(1, 0)]);
    assert_eq!(all(&same, &found), [(vec![0, 0], vec![0, 0])]);
}

#[test]
fn each_objective_has_its_own_order_and_ties_go_to_the_earlier() {
    let rated = |begin, rating: Option<u32>, delay: Option<(u32, i64)>, cost| {
        let Found { peer, mut slot } = slot("north", begin, 0);
        slot.rating = rating.map(Rating);
        slot.impact = delay.map(|(delayed, delay)| Impact {
            delayed,
            total_delay: Seconds(delay),
            longest_delay: Seconds(delay),
        });
        slot.cost = cost;
        Found { peer, slot }
    };
    let found = [vec![
        rated(30, Some(900_000), Some((2, 10)), 7),
        rated(20, None, None, 5),
        rated(10, Some(500_000), Some((1, 10)), 5),
        rated(40, Some(900_000), Some((9, 0)), 0),
    ]];
    let order = |objective| -> Vec<usize> {
        let request = Request { objective, ..request(vec![part(10, 1)], vec![]) };
        all(&request, &found).iter().map(|(found, _)| found[0]).collect()
    };
    assert_eq!(order(Objective::EarliestEnd), [2, 1, 0, 3]);
    assert_eq!(order(Objective::BestAvailability), [0, 3, 2, 1], "no rating is the worst");
    assert_eq!(order(Objective::LeastImpact), [1, 3, 2, 0], "no impact is the least");
    assert_eq!(order(Objective::LowestCost), [3, 2, 1, 0]);
}

#[test]
fn a_part_keeps_to_its_own_window_and_capacity_whatever_a_site_answers() {
    let mut wanted = part(10, 4);
    (wanted.wanted.earliest_start, wanted.wanted.latest_end) = (Time(50), Time(100));
    let mut small = slot("north", 60, 0);
    small.slot.capacity = Capacity(3);
    let found = [vec![slot("north", 0, 49), slot("north", 0, 70), slot("north", 91, 9), small]];
    assert_eq!(all(&request(vec![wanted], vec![]), &found), [(vec![1], vec![50])]);
}

#[test]
fn what_was_refused_is_not_given_again() {
    let request = request(vec![part(10, 1); 2], vec![together(0, 1)]);
    let sites = ["north", "east", "west"];
    let found =
        vec![sites.map(|site| slot(site, 0, 20)).to_vec(), vec![slot("south", 5, 0), slot("south", 9, 9)]];
    let mut search = Search::new(&request, found, PLENTY);
    let mut next = |excluded: Option<Excluded>| {
        excluded.iter().for_each(|what| search.without(what));
        search.next().map(|candidate| chosen(&candidate))
    };
    let (peer, resource) = (Name::from("south"), Name::from("cluster"));
    assert_eq!(next(None), Some((vec![0, 0], vec![5, 5])));
    assert_eq!(next(Some(Excluded::Peer("north".into()))), Some((vec![1, 0], vec![5, 5])));
    let slot = Excluded::Slot { peer: peer.clone(), resource: resource.clone(), start: Time(5) };
    assert_eq!(next(Some(slot)), Some((vec![1, 1], vec![9, 9])));
    assert_eq!(next(Some(Excluded::Resource { peer, resource })), None);
    assert_eq!(search.advance(0), Progress::Exhausted);
}

#[test]
fn a_search_that_used_up_its_budget_says_so() {
    let request = request(vec![part(10, 1); 2], vec![together(0, 1)]);
    let found = vec![(0..50).map(|at| slot("north", at * 100, 0)).collect(); 2];
    let work = 10_000;
    let mut search = Search::new(&request, found, Budget { work });
    let given = search.by_ref().count();
    assert!((1..50).contains(&given), "{given}");
    assert_eq!(search.advance(0), Progress::OutOfBudget);
    assert!((work..work + UNIT).contains(&search.work()), "{}", search.work());
    assert_eq!(search.next(), None);
}

#[test]
fn the_largest_requests_can_pause_as_often_as_others() {
    let pairs =
        || (0..MOST_PARTS).flat_map(|first| (first + 1..MOST_PARTS).map(move |second| (first, second)));
    let gap =
        |(first, second)| Constraint::After { first, second, least: Seconds(-900), most: Some(Seconds(900)) };
    let gaps = request(vec![part(10, 1); MOST_PARTS], pairs().map(gap).collect());
    let crowded = request(vec![part(10, 1); MOST_PARTS], vec![]);
    let slots = |free| (0..40).map(|at| of_free(free, slot("north", at * 20, 30))).collect();
    for (request, free) in [(&gaps, 1), (&gaps, 40), (&crowded, 3)] {
        assert_eq!(request.check(), Ok(()));
        let mut search = Search::new(request, vec![slots(free); MOST_PARTS], Budget { work: 3_000_000 });
        loop {
            let before = search.work();
            let progress = search.advance(1);
            assert!(search.work() <= before + UNIT, "{before} {}", search.work());
            if matches!(progress, Progress::Exhausted | Progress::OutOfBudget) {
                break;
            }
        }
    }
}

#[test]
fn a_request_that_nobody_can_fulfil_has_no_candidates() {
    let found = vec![vec![slot("north", 0, 100)]; 2];
    let after = |first, second| Constraint::After { first, second, least: Seconds(0), most: None };
    let both = vec![part(10, 1); 2];
    assert_eq!(all(&request(both.clone(), vec![after(0, 1), after(1, 0)]), &found), [], "in a circle");
    assert_eq!(all(&request(both.clone(), vec![together(0, 7)]), &found), [], "malformed");
    assert_eq!(all(&request(both.clone(), vec![]), &found[..1]), [], "no answer for a part");
    let far = |by| vec![Constraint::Offset { first: 0, second: 1, by: Seconds(by) }];
    assert_eq!(all(&request(both.clone(), far(i64::MAX)), &found), []);
    assert_eq!(all(&request(both, far(i64::MIN)), &found), []);
}

#[test]
fn slots_with_absurd_times_do_no_harm() {
    let mut late = slot("north", i64::MAX, i64::MAX);
    late.slot.impact =
        Some(Impact { delayed: u32::MAX, total_delay: Seconds(i64::MAX), ..Impact::default() });
    let found = [vec![
        slot("north", i64::MIN, i64::MIN),
        late,
        slot("north", i64::MIN, i64::MAX),
        slot("north", 7, 0),
    ]];
    for objective in [Objective::EarliestEnd, Objective::LeastImpact] {
        let request = Request { objective, ..request(vec![part(10, 1)], vec![]) };
        assert_eq!(all(&request, &found), [(vec![3], vec![7])]);
    }
}

#[test]
fn a_copy_of_a_search_goes_on_in_the_same_way() {
    let request = request(vec![part(10, 1); 2], vec![together(0, 1)]);
    let found = vec![(0..9).map(|at| slot("north", at, 3)).collect(); 2];
    let mut search = Search::new(&request, found, PLENTY);
    let _ = search.next();
    let copy = search.clone();
    assert_eq!(copy, search);
    assert_eq!(copy.collect::<Vec<_>>(), search.collect::<Vec<_>>());
}
