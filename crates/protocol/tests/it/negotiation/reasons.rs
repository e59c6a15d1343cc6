//! A site's own rule is told to the user, with the name of the site, in place of "no combination of slots".

use super::town::{Town, name, offered, part, reservation};
use bookahead_protocol::ledger::{Class, Limits, Priorities, Rules, UserLimits};
use bookahead_protocol::problem::{Limit, Problem};
use bookahead_protocol::{Answer, Call, Description, Request, ReservationId, Resource, Why};
use std::collections::BTreeMap;

/// One live reservation for each user at `north`, and no class that ada may use; a broker, and a broker of that.
fn town() -> Town {
    let mut town = Town::new();
    let class = Class { users: [name("grace")].into(), ..Class::default() };
    let limits =
        Limits { default: UserLimits { count: Some(1), ..UserLimits::default() }, ..Limits::default() };
    let priorities = Priorities { classes: BTreeMap::from([("royal".into(), class)]), default: None };
    let resources = vec![offered(Resource::new("north", "cluster", "processors", 8))];
    town.site_by(Rules { limits, priorities, ..Rules::new("north", resources) });
    town.broker("broker", &["north"]);
    town.broker("top", &["broker"]);
    town
}

#[track_caller]
fn problem(answer: Option<Answer>) -> Problem {
    match answer {
        Some(Answer::Problem(problem)) => *problem,
        other => panic!("no problem but {other:?}"),
    }
}

#[track_caller]
fn is_count_limit_of(problem: &Problem, site: &str) {
    let limit = Why::Limit { limit: Limit::Count, most: 1, asked: 2 };
    assert_eq!((&problem.why, problem.site.as_deref()), (&limit, Some(&name(site))));
}

fn parts(many: usize) -> Request {
    Request::new(vec![part("processors", 2, 10, 400, 40); many], Vec::new())
}

const SITES: [(&str, &str); 2] = [("broker", "north"), ("top", "broker/north")];

#[test]
fn a_limit_that_only_the_holds_meet_together_is_told_with_its_site() {
    for (whom, site) in SITES {
        let mut town = town();
        // Each probe is granted. The second hold is one reservation too many.
        is_count_limit_of(&problem(town.reserve(whom, 1, parts(2), false)), site);
        let refused = town.head(whom).booking(ReservationId(1)).unwrap().view(town.now).refused.unwrap();
        assert_eq!(refused.code.as_str(), "limit");
        assert!(refused.detail.starts_with(&format!("{site}: ")), "{}", refused.detail);
    }
}

#[test]
fn a_limit_that_probes_meet_is_told_with_its_site() {
    for (whom, site) in SITES {
        let mut town = town();
        reservation(town.reserve("north", 1, parts(1), true));
        let probe = Call::Probe { request: parts(1), most: 1, starts: Vec::new() };
        is_count_limit_of(&problem(town.call(whom, probe)), site);
        is_count_limit_of(&problem(town.reserve(whom, 2, parts(1), true)), site);
    }
}

#[test]
fn a_class_is_refused_with_the_site_in_probes_holds_and_changes() {
    for (whom, site) in SITES {
        let mut town = town();
        let description = Description { priority: Some("royal".into()), ..Description::default() };
        let royal = Request { description, ..parts(1) };
        reservation(town.reserve(whom, 1, parts(1), true));
        let changed = Call::Change { id: ReservationId(1), version: None, request: royal.clone() };
        let probed = Call::Probe { request: royal.clone(), most: 1, starts: Vec::new() };
        for refused in [town.call(whom, changed), town.call(whom, probed)] {
            let refused = problem(refused);
            assert!(matches!(&refused.why, Why::Priority { .. }), "{refused:?}");
            assert_eq!(refused.site.as_deref(), Some(&name(site)));
        }
    }
}

#[test]
fn without_room_no_single_site_is_named() {
    let mut town = town();
    let wide = Request::single(part("processors", 8, 10, 50, 40));
    reservation(town.reserve("north", 1, wide.clone(), true));
    // Grace has no reservation yet, so that no limit refuses this.
    let mut envelope = town.envelope(Call::Probe { request: wide, most: 1, starts: Vec::new() });
    envelope.caller.user = name("grace");
    let refused = problem(town.send("broker", &envelope));
    assert!(refused.why.is_full(), "{refused:?}");
    assert_eq!(refused.site, None);
}
