//! The trace that a request belongs to (W3C Trace Context): a valid `traceparent` is taken over, with a parent of our
//! own, and goes with every call that is made because of the request. Where there is none, or it is not valid, there
//! is no trace.

use axum::http::HeaderMap;
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::Arc;

/// The trace of a request, and the identity that logs name it by.
#[derive(Debug, Clone, Default)]
pub(super) struct Traced {
    /// What is handed on.
    pub(super) trace: Option<Arc<str>>,
}

impl Traced {
    /// What the headers of a request say.
    pub(super) fn of(headers: &HeaderMap) -> Traced {
        let mut all = headers.get_all("traceparent").iter();
        let (Some(one), None) = (all.next(), all.next()) else { return Traced::default() };
        let trace = one.to_str().ok().and_then(Parent::read).and_then(|parent| parent.handed_on());
        Traced { trace: trace.map(Into::into) }
    }

    /// The identity of the trace.
    pub(super) fn id(&self) -> Option<&str> {
        self.trace.as_deref().and_then(|text| text.get(3..35))
    }
}

/// What a `traceparent` says.
#[derive(Debug, PartialEq, Eq)]
struct Parent<'a> {
    trace: &'a str,
    sampled: bool,
}

impl Parent<'_> {
    fn read(text: &str) -> Option<Parent<'_>> {
        let mut fields = text.trim().split('-');
        let (version, trace, parent, flags) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let known = version != "00" || fields.next().is_none();
        let shape = is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
        let says = version != "ff" && has_digit(trace) && has_digit(parent);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (known && shape && says).then_some(Parent { trace, sampled: flags & 1 == 1 })
    }

    /// The same trace with a new parent, in the version that we know.
    fn handed_on(&self) -> Option<String> {
        let mut parent = [0; 8];
        SystemRandom::new().fill(&mut parent).ok()?;
        let parent = u64::from_be_bytes(parent).max(1);
        Some(format!("00-{}-{parent:016x}-{:02x}", self.trace, u8::from(self.sampled)))
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// All zeros stands for nothing.
fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_valid_trace_is_handed_on_with_another_parent() {
        let mut headers = HeaderMap::new();
        let given = format!("00-{TRACE}-00f067aa0ba902b7-01");
        headers.insert("traceparent", given.parse().unwrap());
        let traced = Traced::of(&headers);
        let handed_on = traced.trace.as_deref().unwrap();
        assert_eq!(traced.id(), Some(TRACE));
        assert_ne!(handed_on, given);
        assert_eq!(Parent::read(handed_on), Some(Parent { trace: TRACE, sampled: true }));
        headers.append("traceparent", given.parse().unwrap());
        assert!(Traced::of(&headers).trace.is_none(), "two of them say nothing");
    }

    #[test]
    fn what_is_no_trace_is_none() {
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            "00".into(),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-00f067aa0ba902b-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-0"),
        ] {
            assert_eq!(Parent::read(&wrong), None, "{wrong}");
        }
        let later = format!("01-{TRACE}-00f067aa0ba902b7-00-more");
        assert_eq!(Parent::read(&later), Some(Parent { trace: TRACE, sampled: false }));
    }
}
