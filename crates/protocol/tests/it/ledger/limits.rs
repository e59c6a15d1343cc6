//! Limits of users.

use super::*;
use bookahead_protocol::ledger::UserLimits;
use bookahead_protocol::problem::Limit;

fn site(default: UserLimits) -> Site {
    let mut rules = rules();
    rules.limits.default = default;
    Site::new(rules)
}

#[track_caller]
fn refused(answer: &Answer, limit: Limit, most: i64, asked: i64) {
    assert_eq!(problem(answer).why, Why::Limit { limit, most, asked });
}

#[test]
fn holds_and_reservations_are_counted_until_they_are_over() {
    let mut site = site(UserLimits { count: Some(2), ..UserLimits::default() });
    site.hold(0, "ann", 1, fixed(100, 200, 1));
    site.book(0, "ann", 2, fixed(100, 200, 1));
    refused(&site.hold(0, "ann", 3, fixed(100, 200, 1)), Limit::Count, 2, 3);
    assert_eq!(site.hold(0, "bob", 4, fixed(100, 200, 1)).word(), "held");
    assert_eq!(site.hold(60_000, "ann", 5, fixed(100, 200, 1)).word(), "held", "the hold expired");
    assert_eq!(site.change(60_000, "ann", 2, None, fixed(100, 200, 2)).word(), "committed");
    assert!(site.probe(60_000, "ann", fixed(100, 200, 1)).is_empty());
}

#[test]
fn the_area_counts_what_is_promised() {
    let mut site = site(UserLimits { area: Some(1_000), ..UserLimits::default() });
    site.book(0, "ann", 1, fixed(100, 200, 6));
    refused(&site.book(0, "ann", 2, fixed(200, 300, 5)), Limit::Area, 1_000, 1_100);
    assert_eq!(site.change(0, "ann", 1, None, fixed(100, 200, 8)).word(), "committed");
    refused(&site.change(0, "ann", 1, None, fixed(100, 300, 8)), Limit::Area, 1_000, 1_600);
    site.release(0, "ann", 1, 150, 4);
    assert_eq!(site.book(0, "ann", 3, fixed(200, 300, 4)).word(), "committed");
}

#[test]
fn neither_too_soon_nor_too_far_ahead() {
    let (notice, horizon) = (Some(Seconds(50)), Some(Seconds(200)));
    let mut site = site(UserLimits { notice, horizon, ..UserLimits::default() });
    refused(&site.hold(500, "ann", 1, fixed(50, 60, 1)), Limit::Notice, 50, 50);
    assert_eq!(site.hold(500, "ann", 2, fixed(51, 60, 1)).word(), "held");
    refused(&site.hold(500, "ann", 3, fixed(150, 201, 1)), Limit::Horizon, 200, 201);
    assert_eq!(site.hold(500, "ann", 4, fixed(150, 200, 1)).word(), "held");
    let window = request(wanted(0, 1_000, 20, 8));
    let slots: Vec<(i64, i64)> =
        site.probe(500, "ann", window).iter().map(|slot| (slot.interval.begin.0, slot.slack.0)).collect();
    assert_eq!(slots, [(60, 70)], "what is left of the window between the two");
}

#[test]
fn a_share_is_what_one_user_has_at_the_same_time() {
    let mut site = site(UserLimits { share: Some(50), ..UserLimits::default() });
    refused(&site.hold(0, "ann", 1, fixed(100, 200, 5)), Limit::Share, 50, 63);
    site.book(0, "ann", 2, fixed(100, 200, 3));
    site.book(0, "ann", 3, fixed(200, 300, 3));
    refused(&site.hold(0, "ann", 4, fixed(150, 250, 2)), Limit::Share, 50, 63);
    assert_eq!(site.hold(0, "bob", 5, fixed(150, 250, 2)).word(), "held");
    let slots = site.probe(0, "ann", request(wanted(50, 1_000, 60, 2)));
    assert_eq!(slots.iter().map(|slot| slot.interval.begin.0).collect::<Vec<_>>(), [300]);
    assert_eq!(slots[0].slack, Seconds(640));
    let flexible = site.hold(0, "ann", 6, request(wanted(50, 1_000, 50, 2)));
    assert_eq!(interval(&flexible), (50, 100), "before the user's other reservations");
    assert_eq!(
        site.change(0, "ann", 2, None, fixed(110, 210, 1)).word(),
        "committed",
        "the user's own capacity counts as free"
    );
    refused(&site.change(0, "ann", 2, None, fixed(110, 210, 2)), Limit::Share, 50, 63);
}

#[test]
fn a_users_own_limits_win_then_the_most_generous_role_then_the_default() {
    let count = |count| UserLimits { count: Some(count), ..UserLimits::default() };
    let mut rules = rules();
    rules.limits.default = count(1);
    rules.limits.roles.insert("staff".into(), count(3));
    rules.limits.roles.insert("guest".into(), UserLimits { area: Some(5), ..count(2) });
    rules.limits.users.insert("ann".into(), count(0));
    let most = |user: &str, roles: &[&str]| {
        let roles = roles.iter().map(|role| Name::from(*role)).collect();
        let limits = rules.limits.of(&Caller { user: user.into(), roles });
        (limits.count.unwrap(), limits.area)
    };
    assert_eq!(most("ann", &["staff"]), (0, None));
    assert_eq!(most("bob", &["guest", "staff", "unheard-of"]), (3, None));
    assert_eq!(most("bob", &["guest"]), (2, Some(5)));
    assert_eq!(most("bob", &["operator"]), (1, None));
}

#[test]
fn a_refusal_by_a_limit_says_what_would_be_within_it() {
    use bookahead_plan::placement::Relaxation::{Earlier, Fewer, Later, Shorter};
    let mut area = site(UserLimits { area: Some(1_000), ..UserLimits::default() });
    area.book(0, "ann", 1, fixed(100, 200, 4));
    let answer = area.hold(0, "ann", 2, fixed(200, 300, 8));
    assert_eq!(problem(&answer).relaxations, [Fewer(Capacity(2)), Shorter(Seconds(25))]);
    assert_eq!(area.hold(0, "ann", 3, fixed(200, 300, 6)).word(), "held");
    let none = area.hold(0, "ann", 4, fixed(400, 600, 8));
    assert!(problem(&none).relaxations.is_empty(), "nothing is left");

    let (notice, horizon) = (Some(Seconds(50)), Some(Seconds(200)));
    let mut times = site(UserLimits { notice, horizon, ..UserLimits::default() });
    let soon = times.hold(500, "ann", 1, fixed(20, 60, 1));
    assert_eq!(problem(&soon).relaxations, [Later(Seconds(31))]);
    let far = times.hold(500, "ann", 2, fixed(150, 210, 1));
    assert_eq!(problem(&far).relaxations, [Shorter(Seconds(10)), Earlier(Time(140))]);
    let too_far = times.hold(500, "ann", 3, fixed(250, 300, 1));
    assert_eq!(problem(&too_far).relaxations, [Earlier(Time(150))]);

    let mut share = site(UserLimits { share: Some(50), ..UserLimits::default() });
    let wide = share.hold(0, "ann", 1, fixed(100, 200, 7));
    assert_eq!(problem(&wide).relaxations, [Fewer(Capacity(3))]);
}

#[test]
fn new_limits_hold_for_later_requests_and_count_what_was_promised_before() {
    let mut site = site(UserLimits::default());
    site.book(0, "ann", 1, fixed(100, 200, 5));
    let mut limited = rules();
    limited.limits.default.share = Some(50);
    site.ledger.set_rules(limited).unwrap();
    refused(&site.hold(0, "ann", 2, fixed(150, 160, 1)), Limit::Share, 50, 75);
    assert_eq!(site.hold(0, "bob", 3, fixed(150, 160, 1)).word(), "held");
    assert_eq!(site.ledger.taken_at(&"cluster".into(), Time(150)), Capacity(6), "the promise to ann is kept");
    let mut counted = rules();
    counted.limits.default.count = Some(1);
    site.ledger.set_rules(counted).unwrap();
    refused(&site.hold(0, "ann", 4, fixed(300, 400, 8)), Limit::Count, 1, 2);
    site.ledger.set_rules(rules()).unwrap();
    assert_eq!(site.hold(0, "ann", 5, fixed(300, 400, 8)).word(), "held");
}

#[test]
fn rules_from_which_state_is_derived_cannot_change() {
    let mut site = site(UserLimits::default());
    let changes: [fn(&mut Rules); 4] = [
        |rules| rules.site = "south".into(),
        |rules| rules.resources[0].resource.capacity = Capacity(4),
        |rules| rules.retention = Seconds(1),
        |rules| rules.consent = Some(Millis(1)),
    ];
    for change in changes {
        let mut changed = rules();
        changed.limits.default.count = Some(0);
        change(&mut changed);
        assert!(site.ledger.set_rules(changed).is_err());
    }
    assert_eq!(site.hold(0, "ann", 1, fixed(100, 200, 1)).word(), "held", "the old rules are in force");
}
