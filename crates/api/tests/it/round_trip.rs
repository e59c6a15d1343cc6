//! Round trips: a protocol value becomes a document, JSON, a document, and the same value.

use crate::words;
use bookahead_api as api;
use bookahead_api::operation::Method;
use bookahead_api::{Operation, header};
use bookahead_plan::placement::Relaxation;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::jobs::{JobRequest, JobView};
use bookahead_protocol::problem::{Blocker, BlockerKind};
use bookahead_protocol::{
    Call, JobId, Offer, Part, Problem, Request, Reservation, ReservationId, Resource, Why,
};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Round trip through JSON text.
fn written_and_read<T: Serialize + DeserializeOwned>(document: &T) -> T {
    serde_json::from_str(&serde_json::to_string(document).unwrap()).unwrap()
}

/// The version in `If-Match`.
fn version(if_match: &str) -> Option<u32> {
    if if_match == "*" { None } else { Some(if_match.trim_matches('"').parse().unwrap()) }
}

/// The call as a server reads it from the request.
fn heard(method: Method, path: &str, if_match: Option<String>, body: Option<String>) -> Call {
    fn read<T: DeserializeOwned>(body: Option<String>) -> T {
        serde_json::from_str(&body.unwrap()).unwrap()
    }
    let nobody = ReservationId(0);
    let about = |id: &str| id.parse::<ReservationId>().unwrap();
    let steps: Vec<&str> = path.strip_prefix("/v1/").unwrap().split('/').collect();
    match (method, steps.as_slice()) {
        (Method::Post, ["probes"]) => read::<api::Probe>(body).into(),
        (Method::Post, ["reservations"]) => read::<api::Reserve>(body).call(nobody),
        (Method::Post, ["reservations", id, "hold"]) => read::<api::Hold>(body).call(about(id)),
        (Method::Post, ["reservations", id, "extend"]) => {
            let version = version(&if_match.unwrap());
            read::<api::Extend>(body).call(about(id), version)
        }
        (Method::Post, ["reservations", id, "commit"]) => read::<api::Commit>(body).call(about(id)),
        (Method::Post, ["reservations", id, "jobs"]) => read::<api::Attach>(body).call(about(id)),
        (Method::Post, ["reservations", id, "prepare"]) => {
            let version = version(&if_match.unwrap());
            read::<api::PrepareChange>(body).call(about(id), version).unwrap()
        }
        (Method::Post, ["reservations", id, "finish"]) => read::<api::FinishChange>(body).call(about(id)),
        (Method::Post, ["reservations", id, "release"]) => read::<api::Release>(body).call(about(id)),
        (Method::Put, ["reservations", id]) => {
            let version = version(&if_match.unwrap());
            read::<api::Change>(body).call(about(id), version)
        }
        (Method::Delete, ["reservations", id]) if body.is_none() => Call::Cancel { id: about(id) },
        (Method::Get, ["reservations", id]) if body.is_none() => Call::Show { id: about(id) },
        _ => panic!("{method:?} {path} is no route"),
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn a_call_that_went_over_http_is_the_same_call(call in words::call()) {
        let operation = Operation::try_from(call.clone()).unwrap();
        prop_assert_eq!(operation.only_asks(), call.only_asks());
        let if_match = operation.version().map(header::if_match);
        let body = operation.body().unwrap();
        prop_assert_eq!(heard(operation.method(), &operation.path(), if_match, body), call);
    }

    #[test]
    fn offers_that_went_over_http_are_the_same_offers(offers in words::offers()) {
        let document = api::Offers::try_from(offers.clone()).unwrap();
        prop_assert_eq!(Vec::<Offer>::from(written_and_read(&document)), offers);
    }

    #[test]
    fn a_reservation_that_went_over_http_is_the_same_reservation(reservation in words::reservation()) {
        let document = api::Reservation::try_from(reservation.clone()).unwrap();
        prop_assert_eq!(Reservation::from(written_and_read(&document)), reservation);
    }

    #[test]
    fn a_problem_that_went_over_http_is_the_same_problem(problem in words::problem()) {
        let document = api::Problem::from(problem.clone());
        prop_assert!(document.reason.as_ref().is_some_and(serde_json::Value::is_object));
        prop_assert_eq!(Problem::try_from(written_and_read(&document)), Ok(problem));
    }

    #[test]
    fn a_job_that_went_over_http_is_the_same_job(id in any::<u128>().prop_map(JobId), job in words::job_request()) {
        let document = written_and_read(&api::SubmitJob::of(id, job.clone()).unwrap());
        prop_assert_eq!((document.id, JobRequest::from(document)), (Some(id), job));
    }

    #[test]
    fn a_view_of_a_job_that_went_over_http_is_the_same_view(job in words::job_view()) {
        let document = written_and_read(&api::Job::try_from(job.clone()).unwrap());
        prop_assert_eq!(document.state.is_over(), job.state.is_over());
        prop_assert_eq!(JobView::from(document), job);
    }

    #[test]
    fn a_resource_that_went_over_http_is_the_same_resource(resource in words::resource()) {
        let document = api::Resource::from(resource.clone());
        prop_assert_eq!(Resource::from(written_and_read(&document)), resource);
    }

    #[test]
    fn the_code_of_a_problem_is_the_one_that_the_protocol_gives_it(why in words::why()) {
        let document = api::Problem::from(Problem::new(why.clone()));
        prop_assert_eq!(&document.code, why.code());
        // Some details begin with an instant; the one of maintenance contains its end.
        let whole = matches!(&why, Why::Maintenance { name, .. } if document.detail.contains(&format!("maintenance `{name}` until ")));
        prop_assert!(whole || document.detail.ends_with(&why.to_string()), "{}", document.detail);
        prop_assert_eq!(document.status, api::Problem::status(&why));
        prop_assert_eq!(document.kind, format!("/problems/{}", why.code()));
    }
}

#[test]
fn what_has_no_date_cannot_be_asked_for_or_offered() {
    let wanted = bookahead_plan::placement::Request {
        earliest_start: Time(0),
        latest_end: Time::MAX,
        duration: Seconds(1),
        capacity: Capacity(1),
    };
    let part = Part::new(wanted, "processors");
    let call = Call::Probe { request: Request::single(part), most: 1, starts: vec![] };
    assert_eq!(Operation::try_from(call), Err(api::OutOfCalendar(Time::MAX)));
}

#[test]
fn a_refusal_gets_through_whatever_its_instants_are() {
    let far = Time(1_000_000_000_000_000);
    let problem = Problem {
        blockers: vec![Blocker {
            kind: BlockerKind::Reservation,
            interval: Interval::new(Time(0), far),
            name: None,
        }]
        .into(),
        relaxations: vec![Relaxation::Earlier(far), Relaxation::Fewer(Capacity(2))],
        ..Problem::new(Why::Expired)
    };
    let document = written_and_read(&api::Problem::from(problem));
    assert_eq!(document.blockers[0].end, None);
    let changes: Vec<_> = document.counter_offers.iter().map(|offer| offer.change).collect();
    assert_eq!(changes, [api::Relaxation::Fewer { by: 2 }]);
}
