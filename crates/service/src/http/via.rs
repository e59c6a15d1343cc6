//! Through whom a call came. Every broker adds itself to `Bookahead-Via`, so that one that finds itself there knows that brokers
//! ask each other in a circle, and says so at once. Whoever asked first asks everybody anyhow, so nothing is missed.

use super::problem::Refusal;
use axum::http::HeaderMap;
use bookahead_api::{Problem, header};
use bookahead_protocol as protocol;
use bookahead_protocol::{Name, Why};
use std::sync::Arc;

/// The brokers that a call came through, by their identities, the first first.
pub(super) type Via = Arc<[Name]>;

/// Through whom a call came to a party. A broker has an identity, and passes calls on.
pub(super) fn through(headers: &HeaderMap, itself: Option<&Name>) -> Result<Via, Refusal> {
    let mut values = headers.get_all(header::VIA).iter();
    let Some(value) = values.next() else { return Ok(Via::default()) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let text = text.ok_or_else(|| Refusal::bad_request("Bookahead-Via may be there once, as plain ASCII"))?;
    let via =
        header::read_names(text).map_err(|fault| Refusal::bad_request(format!("Bookahead-Via: {fault}")))?;
    if itself.is_some_and(|itself| via.contains(itself)) {
        return Err(protocol::Problem::new(Why::Circle).into());
    }
    if via.len() + usize::from(itself.is_some()) > header::MOST_VIA {
        let detail = format!(
            "the call has come through {} brokers; at most {} pass it on",
            via.len(),
            header::MOST_VIA
        );
        return Err(Problem { detail, ..protocol::Problem::new(Why::Circle).into() }.into());
    }
    Ok(via.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str], itself: Option<&str>) -> Result<Vec<String>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::VIA, value.parse().unwrap());
        }
        let itself = itself.map(Name::from);
        let via = through(&headers, itself.as_ref()).map_err(|refusal| refusal.code().to_owned())?;
        Ok(via.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_broker_that_finds_itself_in_the_way_of_a_call_says_so() {
        assert_eq!(of(&[], Some("grid#1")), Ok(vec![]));
        assert_eq!(of(&["west#7"], Some("grid#1")), Ok(vec!["west#7".into()]));
        assert_eq!(of(&["west#7,grid#1"], Some("grid#1")), Err("circle".into()));
        assert_eq!(
            of(&["west#7,grid#1"], None),
            Ok(vec!["west#7".into(), "grid#1".into()]),
            "a site asks nobody"
        );
    }

    #[test]
    fn brokers_of_one_name_are_no_circle() {
        assert_eq!(of(&["grid#2"], Some("grid#1")), Ok(vec!["grid#2".into()]));
    }

    #[test]
    fn a_way_has_an_end() {
        let brokers = |count: usize| (0..count).map(|at| format!("b#{at}")).collect::<Vec<_>>().join(",");
        assert_eq!(of(&[&brokers(7)], Some("grid#1")).map(|via| via.len()), Ok(7));
        assert_eq!(of(&[&brokers(8)], Some("grid#1")), Err("circle".into()));
        assert_eq!(of(&[&brokers(8)], None).map(|via| via.len()), Ok(8));
        assert_eq!(of(&[&brokers(9)], None), Err("circle".into()));
    }

    #[test]
    fn what_is_no_list_of_names_is_refused() {
        assert_eq!(of(&["a", "b"], None), Err("bad-request".into()));
        assert_eq!(of(&["%zz"], None), Err("bad-request".into()));
    }
}
