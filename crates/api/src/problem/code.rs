//! All problem codes: HTTP status, title and remedy. Codes are stable; the table in docs/api.md is generated from
//! this one.

use bookahead_plan::placement::Reason;
use bookahead_protocol::Why;

macro_rules! codes {
    ($($(#[$about:meta])* $name:ident = $word:literal, $status:literal, $title:literal, $remedy:literal;)*) => {
        /// A kind of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$about])* #[doc = $title] $name,)*
        }

        impl Code {
            /// All codes: decisions of sites and brokers first, then those of the HTTP layer.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// Stable name for programs.
            pub fn word(self) -> &'static str {
                match self { $(Code::$name => $word,)* }
            }

            /// HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status,)* }
            }

            /// Title in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }

            /// What the caller should do.
            pub fn remedy(self) -> &'static str {
                match self { $(Code::$name => $remedy,)* }
            }
        }
    };
}

codes! {
    Malformed = "malformed", 422, "Impossible request",
        "Correct the request; the detail says what is wrong.";
    OnePartOnly = "one-part-only", 422, "A site accepts one part only",
        "Send a request with several parts to a broker.";
    NoSuchPart = "no-such-part", 422, "No such part",
        "Parts are counted from 0; look at the reservation to see how many it has.";
    WhichPart = "which-part", 422, "Part missing",
        "Name the part to release (part in the document, --part on the command line), or cancel the reservation.";
    NotReleased = "not-released", 422, "Nothing would be released",
        "Name an earlier time, or keep less than the reservation has; to end it now, keep nothing.";
    JobsInside = "jobs-inside", 409, "Jobs need what would be released",
        "Cancel the jobs that the detail names or let them end, or release with end_jobs (--end-jobs).";
    NoSuchResource = "no-such-resource", 422, "No such resource",
        "Ask for another kind, less capacity or fewer attributes; see the list of resources.";
    Unsupported = "unsupported", 422, "Not supported here",
        "The detail names an alternative.";
    KeyTaken = "key-taken", 422, "Key used for another call",
        "Make a new idempotency key for every new call, and repeat a key only with the same call.";
    TooWide = "too-wide", 422, "More capacity than the resource has",
        "Ask for less capacity.";
    NoWindow = "no-window", 422, "Window too short or in the past",
        "Give a window in the future that is at least as long as the duration.";
    NoRoom = "no-room", 409, "No room in the window",
        "Try one of the counter-offers, or another site.";
    NotAdmitted = "not-admitted", 409, "Waiting jobs would be delayed too much",
        "Try one of the counter-offers, or another site.";
    NotGranted = "not-granted", 409, "Not granted by the batch system",
        "Try another time or another site; the detail quotes the batch system.";
    NoCandidate = "no-candidate", 409, "No combination of slots",
        "Widen the windows, drop a constraint, or ask again later with a new id.";
    Illegal = "illegal", 409, "Not possible in this state",
        "Look at the reservation; the detail names its state.";
    IdTaken = "id-taken", 409, "Id in use by another reservation",
        "Make a new id for every new reservation.";
    NotPrepared = "not-prepared", 409, "Change not prepared",
        "The change expired or was discarded; the old terms apply. Change the reservation again.";
    ChangeUnderWay = "change-under-way", 409, "A change is in progress",
        "Repeat the call later with the same key. The terms are being changed, or a part is being replaced.";
    PartLost = "part-lost", 409, "A part was lost",
        "Nothing is booked. Try again with a new id.";
    Interrupted = "interrupted", 409, "Interrupted before a decision",
        "Nothing is booked. Try again with a new id.";
    Limit = "limit", 403, "Limit of the site exceeded",
        "The detail names the limit: request less or later, cancel other reservations, or use another class.";
    NotOwner = "not-owner", 403, "Not the owner",
        "Only the owner or an operator may do this.";
    Unknown = "unknown", 404, "No such reservation",
        "Check the id. Reservations are removed some time after their end.";
    Expired = "expired", 410, "Hold expired",
        "Reserve again, and commit before the hold expires.";
    CancelledBefore = "cancelled-before", 410, "Cancelled before it was reserved",
        "Check the id. If the cancellation arrived before the request, reserve again with a new id.";
    Changed = "changed", 412, "Changed in the meantime",
        "Get the reservation again, and repeat the change with the new version in If-Match.";
    Silence = "silence", 504, "No peer answered in time",
        "Try again later; the list of sites shows which are silent.";
    Busy = "busy", 503, "Busy",
        "Repeat the call later with the same key. Too much is in progress, or the reservation waits for the batch system.";
    NoBatchSystem = "no-batch-system", 503, "The batch system does not answer",
        "Repeat the call later with the same key.";
    ClockInDoubt = "clock-in-doubt", 503, "The clock of the service is in doubt",
        "Repeat the call later with the same key, or try another site. The health of the service has the reason.";
    BatchTimeout = "batch-timeout", 409, "The batch system did not answer in time",
        "Nothing was booked or changed. Try again later (a new reservation with a new id), or try another site.";
    Circle = "circle", 409, "Cycle of brokers",
        "Call another service. Brokers in a cycle treat this as an answer and continue with their other peers.";
    UnknownJob = "unknown-job", 404, "No such job",
        "Check the id. Jobs are removed some time after their end.";
    JobTaken = "job-taken", 409, "Id in use by another job",
        "Make a new id for every new job.";
    JobRefused = "job-refused", 422, "Job refused by the batch system",
        "Correct the job; the detail says what is wrong.";
    NoOutput = "no-output", 404, "No output",
        "The detail says why there is none, or where the output of the job should be.";
    BadRequest = "bad-request", 400, "Invalid request",
        "Correct the request; the detail says what is wrong.";
    BadJson = "bad-json", 400, "Invalid body",
        "Correct the field that the detail names; /openapi.json describes every document.";
    NoKey = "no-key", 400, "Idempotency-Key missing",
        "Send an Idempotency-Key with every call that creates something, and the same key when you repeat it.";
    Unauthenticated = "unauthenticated", 401, "Not authenticated",
        "Send a valid bearer token.";
    Forbidden = "forbidden", 403, "Not allowed",
        "Ask an operator for the role that the call needs.";
    NotFound = "not-found", 404, "Not found",
        "Check the path; /openapi.json lists all paths.";
    MethodNotAllowed = "method-not-allowed", 405, "Method not allowed here",
        "Use a method listed in Allow.";
    KeyInFlight = "key-in-flight", 409, "The same call is in progress",
        "Wait a moment and repeat the call with the same key.";
    Superseded = "superseded", 409, "Another process is active for the caller",
        "Nothing was done. The process that replaced the caller repeats what is needed.";
    TooLarge = "too-large", 413, "Body too large",
        "Send less; the detail names the limit.";
    UnsupportedMediaType = "unsupported-media-type", 415, "Unsupported media type",
        "Send application/json.";
    OtherClock = "other-clock", 412, "Clock speed mismatch",
        "Compute the times by Bookahead-Now and Bookahead-Clock-Speed of the answer, and send that speed.";
    OverLimit = "over-limit", 422, "Too large a request",
        "Request less; the detail names the limit.";
    NoVersion = "no-version", 428, "If-Match missing",
        "Send the version that you have seen in If-Match, or * for any version.";
    TooManyRequests = "too-many-requests", 429, "Too many requests",
        "Wait for the number of seconds in Retry-After.";
    Internal = "internal", 500, "Internal error",
        "Repeat the call with the same key. If the error persists, see the log of the server.";
    Unavailable = "unavailable", 503, "Temporarily unavailable",
        "Repeat the call later with the same key.";
    Late = "late", 504, "No answer in time",
        "The call may still take effect. Repeat it with the same key to get its outcome.";
}

impl Code {
    /// The code of a refusal.
    pub fn of(why: &Why) -> Code {
        // Without a wildcard, so that a new reason does not compile until it has a code.
        match why {
            Why::Malformed(_) => Code::Malformed,
            Why::OnePartOnly(_) => Code::OnePartOnly,
            Why::NoSuchResource { .. } => Code::NoSuchResource,
            Why::NoSlot(Reason::TooWide) => Code::TooWide,
            Why::NoSlot(Reason::NoWindow) => Code::NoWindow,
            Why::NoSlot(Reason::NoRoom) | Why::ShortOf { .. } | Why::Maintenance { .. } => Code::NoRoom,
            Why::NoSlot(Reason::NotAdmitted) => Code::NotAdmitted,
            Why::Limit { .. } | Why::TooSoon { .. } | Why::Priority { .. } => Code::Limit,
            Why::Unknown(_) => Code::Unknown,
            Why::Illegal(_) => Code::Illegal,
            Why::Expired => Code::Expired,
            Why::CancelledBefore(_) | Why::NothingToCancel(_) => Code::CancelledBefore,
            Why::NotOwner(_) => Code::NotOwner,
            Why::IdTaken(_) => Code::IdTaken,
            Why::KeyTaken(_) => Code::KeyTaken,
            Why::Changed { .. } => Code::Changed,
            Why::NotPrepared => Code::NotPrepared,
            Why::ChangeUnderWay => Code::ChangeUnderWay,
            Why::NoSuchPart(_) => Code::NoSuchPart,
            Why::WhichPart(_) => Code::WhichPart,
            Why::NotReleased(_) => Code::NotReleased,
            Why::JobsInside { .. } => Code::JobsInside,
            Why::NoCandidate { .. } => Code::NoCandidate,
            Why::Silence => Code::Silence,
            Why::Interrupted => Code::Interrupted,
            Why::PartLost => Code::PartLost,
            Why::Busy => Code::Busy,
            Why::NotGranted(_) => Code::NotGranted,
            Why::NoBatchSystem => Code::NoBatchSystem,
            Why::ClockInDoubt => Code::ClockInDoubt,
            Why::BatchTimeout { .. } => Code::BatchTimeout,
            Why::UnknownJob(_) => Code::UnknownJob,
            Why::JobTaken(_) => Code::JobTaken,
            Why::NotJobOwner(_) | Why::NotAdmittedAsPeer(_) => Code::Forbidden,
            Why::MalformedJob(_) => Code::BadRequest,
            Why::JobRefused(_) => Code::JobRefused,
            Why::NoRegister => Code::NotFound,
            Why::Unsupported(_) => Code::Unsupported,
            Why::Circle => Code::Circle,
        }
    }

    /// The code with this name.
    pub fn named(word: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.word() == word)
    }

    /// Reference to its description: the `type` of the document.
    pub fn uri(self) -> String {
        format!("/problems/{}", self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart_by_their_words() {
        for (at, &code) in Code::ALL.iter().enumerate() {
            assert_eq!(Code::named(code.word()), Some(code));
            assert!(!Code::ALL[..at].iter().any(|other| other.title() == code.title()), "{code:?}");
            assert!((400..600).contains(&code.status()), "{code:?}");
        }
        assert_eq!(Code::named("no-such-code"), None);
        assert_eq!(Code::NoRoom.uri(), "/problems/no-room");
    }
}
