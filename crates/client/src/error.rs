//! Why there is no answer: what happened, with which server, and what to do.

use bookahead_api::{Code, OutOfCalendar, Problem};
use rustls::AlertDescription;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Why there is no answer.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum ClientError {
    #[error("{url:?} is not the address of a server ({why}); write it like https://north.example.org:7420")]
    BadUrl { url: String, why: String },
    #[error("{} cannot be used: {why}", path.display())]
    BadFile { path: PathBuf, why: String },
    #[error("TLS cannot be used with {url}: {why}")]
    Tls { url: String, why: String },
    #[error("{what} cannot be sent: {why}")]
    BadHeader { what: &'static str, why: String },
    #[error("the call cannot be sent: {0}")]
    CannotSay(#[from] OutOfCalendar),
    #[error("the system gives no random numbers, so no identity can be made")]
    NoRandomness,
    #[error("cannot connect to {url}: {cause}; {hint}")]
    CannotConnect {
        url: String,
        cause: String,
        hint: &'static str,
        /// Whether another try may help.
        may_pass: bool,
    },
    /// No answer came in time. What was asked may have been done.
    #[error("{url} did not answer within {} seconds; it may have done what was asked, so look before you ask anew", after.as_secs_f32())]
    TimedOut { url: String, after: Duration },
    /// The connection was lost before the answer was complete. What was asked may have been done.
    #[error(
        "the connection to {url} was lost ({cause}); it may have done what was asked, so look before you ask anew"
    )]
    Broken { url: String, cause: String },
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    #[error("the same call is still under way; ask again in a moment with the same key")]
    KeyInFlight(Box<Problem>),
    #[error(
        "{url} does not answer like Bookahead (status {status}, {beginning:?}); is it the right address?"
    )]
    NotOurKind { url: String, status: u16, beginning: String },
    #[error("the answer of {url} is longer than {most} bytes and was not read; ask for less")]
    TooLarge { url: String, most: usize },
}

impl ClientError {
    /// Whether it is certain that nothing reached the server.
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

    /// Whether the same call, sent again with the same key, may get an answer.
    pub fn may_pass(&self) -> bool {
        match self {
            ClientError::CannotConnect { may_pass, .. } => *may_pass,
            ClientError::TimedOut { .. } | ClientError::Broken { .. } | ClientError::KeyInFlight(_) => true,
            ClientError::Refused(problem) => matches!(problem.status, 429 | 503),
            // Of something that stands before the server.
            ClientError::NotOurKind { status, .. } => matches!(status, 429 | 502 | 503 | 504),
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
        if problem.code == Code::KeyInFlight.word() {
            ClientError::KeyInFlight(Box::new(problem))
        } else {
            ClientError::Refused(Box::new(problem))
        }
    }

    pub(crate) fn of_failure(url: &str, after: Duration, failure: &reqwest::Error) -> ClientError {
        let (url, cause) = (url.to_owned(), innermost(failure));
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

/// The sources of an error, the outermost first.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The innermost source says the most.
fn innermost(failure: &reqwest::Error) -> String {
    chain(failure).last().map_or_else(|| failure.to_string(), ToString::to_string)
}

fn hint(failure: &reqwest::Error) -> (&'static str, bool) {
    if failure.is_dns() {
        return ("check the name of the host", false);
    }
    if let Some(error) = tls_error(failure) {
        return match is_refused_certificate(error) {
            true => ("the server wants a certificate of ours that it trusts: give one as identity", false),
            false => ("check the certificates: ca must name the authority of the server's", false),
        };
    }
    if failure.is_timeout() {
        return ("nobody answers at that address; check it, and the network", true);
    }
    let refused = chain(failure)
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    match refused {
        true => ("check that the server runs there and the port is right", true),
        false => ("check the address and the network", true),
    }
}

/// What TLS has to say, if it has.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    chain(error).find_map(|error| {
        // What is inside of an error of I/O is not among its sources, so it is opened.
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error.downcast_ref().or_else(|| inside.and_then(|inside| tls_error(inside)))
    })
}

/// Whether the server broke off because of our certificate, or since we have none. It does so before it reads anything
/// that we ask.
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
