//! `If-Match` and `If-None-Match` (RFC 9110): on what a request is decided. An entity tag of ours begins with the
//! version of the terms, and that is what a change is compared by: a reservation that has begun meanwhile, or got a
//! job, still has the terms that its owner has seen, and whether they can be changed in its new state the party says.

use super::problem::Refusal;
use axum::http::HeaderMap;
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use bookahead_api::Code;

/// The version that a change demands, or None where it says that it takes any. It must say one or the other.
pub(super) fn demanded(headers: &HeaderMap) -> Result<Option<u32>, Refusal> {
    let missing = || {
        let why = "a change needs If-Match: send the entity tag or the version that you have seen, such as If-Match: \"3\", or * \
                   for whichever it is";
        Refusal::new(Code::NoVersion, why)
    };
    let tags = tags(headers, &IF_MATCH)?.ok_or_else(missing)?;
    match tags.as_slice() {
        [one] if one == "*" => Ok(None),
        [one] if one.starts_with("W/") => {
            let why =
                format!("If-Match is {one}, a weak tag, which never matches; send the tag as it was given");
            Err(Refusal::new(Code::Changed, why))
        }
        [one] => version(one).map(Some).ok_or_else(|| {
            let why =
                format!("If-Match is {one}, which was never a tag of this; look at it and send its tag");
            Refusal::new(Code::Changed, why)
        }),
        _ => Err(Refusal::bad_request("If-Match has several tags; send the one that you have decided upon")),
    }
}

/// The version in a tag, which may be all of it.
fn version(tag: &str) -> Option<u32> {
    let inside = tag.strip_prefix('"')?.strip_suffix('"')?;
    let version = inside.split_once('-').map_or(inside, |(version, _)| version);
    version.parse().ok().filter(|_| version.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the client has this state already.
pub(super) fn has_already(headers: &HeaderMap, tag: &str) -> Result<bool, Refusal> {
    let tags = tags(headers, &IF_NONE_MATCH)?.unwrap_or_default();
    Ok(tags.iter().any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag))
}

/// The tags in a header, if it is there.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Vec<String>>, Refusal> {
    let mut tags = Vec::new();
    let mut there = false;
    for value in headers.get_all(name) {
        there = true;
        let bad =
            || Refusal::bad_request(format!("{name} cannot be read; it should be a tag in quotes, or *"));
        let text = value.to_str().map_err(|_| bad())?;
        split(text, &mut tags).ok_or_else(bad)?;
    }
    Ok(there.then_some(tags))
}

/// Tags with commas between them; a tag may have a comma inside.
fn split(text: &str, tags: &mut Vec<String>) -> Option<()> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    loop {
        let length = if rest.starts_with('*') {
            1
        } else {
            let open = if rest.starts_with("W/\"") { 3 } else { 1 };
            let inside = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
            open + inside.find('"')? + 1
        };
        tags.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
        if rest.is_empty() {
            return Some(());
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    fn code(value: &str) -> String {
        demanded(&with(IF_MATCH, value)).unwrap_err().code().to_owned()
    }

    #[test]
    fn a_change_demands_a_version_or_takes_any() {
        let demand = |value: &str| demanded(&with(IF_MATCH, value)).unwrap();
        assert_eq!(demand("*"), None);
        assert_eq!(demand(" \"3\" "), Some(3));
        assert_eq!(demand("\"3-0a1b\""), Some(3));
        assert_eq!(demanded(&HeaderMap::new()).unwrap_err().code(), "no-version");
        for unreadable in ["", "3", "\"3", "\"3\" \"4\"", "\"3\",", "\"3\", \"4\""] {
            assert_eq!(code(unreadable), "bad-request", "{unreadable}");
        }
        for never in ["W/\"3\"", "\"\"", "\"+3\"", "\"x\"", "\"4294967296\""] {
            assert_eq!(code(never), "changed", "{never}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig {
            cases: 500,
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(2000),
            ..Default::default()
        })]
        #[test]
        fn no_header_is_too_strange(value in r#"[ -~]{0,12}|(W/|"|\*|,| |1|-){0,12}"#) {
            let headers = [IF_MATCH, IF_NONE_MATCH].map(|name| with(name, &value));
            let _ = demanded(&headers[0]);
            let _ = has_already(&headers[1], "\"1\"");
        }
    }

    #[test]
    fn a_client_that_has_one_of_several_states_has_it() {
        let has = |value: &str| has_already(&with(IF_NONE_MATCH, value), "\"3-0a\"").unwrap();
        assert!(has("*") && has("\"3-0a\"") && has("W/\"3-0a\"") && has("\"x,y\", \"3-0a\""));
        assert!(!has("\"3\"") && !has("\"3-0b\""));
        assert!(!has_already(&HeaderMap::new(), "\"3-0a\"").unwrap());
        assert!(has_already(&with(IF_NONE_MATCH, "3"), "\"3-0a\"").is_err());
    }
}
