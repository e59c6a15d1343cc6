//! Errors of the client: what happened, with which server, and what to do.

use bookahead_api::{Code, OutOfCalendar, Problem};
use rustls::AlertDescription;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Why a call has no usable answer.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum ClientError {
    #[error("{url:?} is not a valid server URL: {why}; example: https://north.example.org:7420")]
    BadUrl { url: String, why: String },
    #[error("cannot use {}: {why}", path.display())]
    BadFile { path: PathBuf, why: String },
    #[error("cannot use TLS with {url}: {why}")]
    Tls { url: String, why: String },
    #[error("cannot send {what}: {why}")]
    BadHeader { what: &'static str, why: String },
    #[error("cannot send the call: {0}")]
    CannotSay(#[from] OutOfCalendar),
    #[error("cannot create an id: the system provides no random numbers")]
    NoRandomness,
    #[error("cannot connect to {url}: {cause}; {hint}")]
    CannotConnect {
        url: String,
        cause: String,
        hint: &'static str,
        /// Whether a repetition may succeed.
        may_pass: bool,
    },
    /// Timeout. The call may have taken effect.
    #[error("{url} did not answer within {} seconds; the call may have taken effect, so check before you repeat it", after.as_secs_f32())]
    TimedOut { url: String, after: Duration },
    /// The connection was lost before the answer was complete. The call may have taken effect.
    #[error(
        "the connection to {url} was lost ({cause}); the call may have taken effect, so check before you repeat it"
    )]
    Broken { url: String, cause: String },
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    #[error("the same call is still in progress; repeat it in a moment with the same key")]
    KeyInFlight(Box<Problem>),
    #[error("{url} is not a Bookahead server (status {status}, {beginning:?}); check the URL")]
    NotOurKind { url: String, status: u16, beginning: String },
    #[error("the answer of {url} exceeds {most} bytes and was not read; request less")]
    TooLarge { url: String, most: usize },
}

impl ClientError {
    /// Whether the request certainly did not reach the server.
    pub fn was_not_sent(&self) -> bool {
        match self {
            ClientError::BadUrl { .. }
            | ClientError::BadFile { .. }
            | ClientError::Tls { .. }
            | ClientError::BadHeader { .. }
            | ClientError::CannotSay(_)
            | ClientError::NoRandomness
            | ClientError::CannotConnect { .. } => true,
            ClientError::TimedOut { .. }
            | ClientError::Broken { .. }
            | ClientError::Refused(_)
            | ClientError::KeyInFlight(_)
            | ClientError::NotOurKind { .. }
            | ClientError::TooLarge { .. } => false,
        }
    }

    /// Whether a repetition with the same key may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            ClientError::CannotConnect { may_pass, .. } => *may_pass,
            ClientError::TimedOut { .. } | ClientError::Broken { .. } | ClientError::KeyInFlight(_) => true,
            ClientError::Refused(problem) => matches!(problem.status, 429 | 503),
            // From a proxy in front of the server.
            ClientError::NotOurKind { status, .. } => matches!(status, 429 | 502 | 503 | 504),
            // The cause is on this side, or the answer is too large: a repetition would fail in the same way.
            _ => false,
        }
    }

    /// The problem document, if the server sent one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            ClientError::Refused(problem) | ClientError::KeyInFlight(problem) => Some(problem),
            _ => None,
        }
    }

    pub(crate) fn of_problem(problem: Problem) -> ClientError {
        // Its status is 409, as of final refusals, but the first attempt still runs, so it must be repeated.
        if problem.code == Code::KeyInFlight.word() {
            ClientError::KeyInFlight(Box::new(problem))
        } else {
            ClientError::Refused(Box::new(problem))
        }
    }

    pub(crate) fn of_failure(url: &str, after: Duration, failure: &reqwest::Error) -> ClientError {
        let (url, cause) = (url.to_owned(), innermost(failure));
        // With TLS 1.3 the handshake ends for the client before the server checks its certificate, so the refusal
        // arrives as a failed request. Nothing of the request was read.
        if failure.is_connect() || tls_error(failure).is_some_and(is_refused_certificate) {
            let (hint, may_pass) = hint(failure);
            ClientError::CannotConnect { url, cause, hint, may_pass }
        } else if failure.is_timeout() {
            ClientError::TimedOut { url, after }
        } else {
            ClientError::Broken { url, cause }
        }
    }
}

/// The error and its sources, outermost first.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The innermost source has the most specific message.
fn innermost(failure: &reqwest::Error) -> String {
    chain(failure).last().map_or_else(|| failure.to_string(), ToString::to_string)
}

fn hint(failure: &reqwest::Error) -> (&'static str, bool) {
    if failure.is_dns() {
        // A wrong name is the usual cause, and waiting does not correct it.
        return ("check the name of the host", false);
    }
    if let Some(error) = tls_error(failure) {
        return match is_refused_certificate(error) {
            true => ("the server requires a client certificate that it trusts; set identity", false),
            // The answer is no TLS record, but text: HTTP, SSH or something else.
            false if matches!(error, rustls::Error::InvalidMessage(_)) => {
                ("the server does not speak TLS; try http:// instead of https://", false)
            }
            false => ("check the certificates: ca must contain the authority of the server", false),
        };
    }
    if failure.is_timeout() {
        return ("no answer from that address; check the address and the network", true);
    }
    let refused = chain(failure)
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    match refused {
        true => ("check that the server runs there and that the port is right", true),
        false => ("check the address and the network", true),
    }
}

/// The TLS error among the sources, if there is one.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    chain(error).find_map(|error| {
        // `io::Error` does not report a wrapped error as its source, so it is unwrapped here.
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error.downcast_ref().or_else(|| inside.and_then(|inside| tls_error(inside)))
    })
}

/// Whether the server refused our certificate, or requires one. It does so before it reads the request.
fn is_refused_certificate(error: &rustls::Error) -> bool {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, UnknownCA, UnsupportedCertificate,
    };
    let rustls::Error::AlertReceived(alert) = error else { return false };
    matches!(
        alert,
        AccessDenied
            | BadCertificate
            | CertificateExpired
            | CertificateRequired
            | CertificateRevoked
            | CertificateUnknown
            | UnknownCA
            | UnsupportedCertificate
    )
}
