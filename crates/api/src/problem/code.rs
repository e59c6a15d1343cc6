//! Every kind of problem that there is: its code, its HTTP status, a title, and what to do about it. Codes never change;
//! the pages about problems are made from this table.

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
            /// Every kind, decisions of sites and brokers first, then those of the HTTP layer.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// Its name for programs; it never changes.
            pub fn word(self) -> &'static str {
                match self { $(Code::$name => $word,)* }
            }

            /// Its HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status,)* }
            }

            /// The kind in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }

            /// What to do about it.
            pub fn remedy(self) -> &'static str {
                match self { $(Code::$name => $remedy,)* }
            }
        }
    };
}

codes! {
    Malformed = "malformed", 422, "Request that nobody could fulfil",
        "Correct the request as the detail says.";
    OnePartOnly = "one-part-only", 422, "A site takes one part at a time",
        "Send a request with several parts to a broker.";
    NoSuchPart = "no-such-part", 422, "No such part",
        "Parts are counted from 0; look at the reservation to see how many it has.";
    WhichPart = "which-part", 422, "It has several parts",
        "Name the part to release (part in the document, --part on the command line), or cancel the reservation.";
    NotReleased = "not-released", 422, "Nothing would be released",
        "Name an earlier time, or keep less than the reservation has; to end it now, keep nothing.";
    NoSuchResource = "no-such-resource", 422, "No such resource",
        "Ask for another kind, less capacity or fewer attributes; the list of resources says what there is.";
    Unsupported = "unsupported", 422, "Not possible with what this is",
        "Do what the detail says instead.";
    KeyTaken = "key-taken", 422, "Key used for another call",
        "Make a new idempotency key for every new call, and repeat one only with the very same call.";
    TooWide = "too-wide", 422, "More than there is",
        "Ask for less capacity.";
    NoWindow = "no-window", 422, "Window too short or over",
        "Give a window that lies ahead and is at least as long as the duration.";
    NoRoom = "no-room", 409, "No room in the window",
        "Try one of the relaxations, or another site.";
    NotAdmitted = "not-admitted", 409, "Waiting jobs would be delayed too much",
        "Try one of the relaxations, or another site.";
    NotGranted = "not-granted", 409, "Not granted by the batch system",
        "Another time or another site may do; the detail says what the batch system said.";
    NoCandidate = "no-candidate", 409, "No combination of slots",
        "Widen the windows, drop a constraint, or ask again later with a new id.";
    Illegal = "illegal", 409, "Not possible in this state",
        "Look at the reservation; the detail names its state.";
    IdTaken = "id-taken", 409, "Id of another request",
        "Make a new id for every new reservation.";
    NotPrepared = "not-prepared", 409, "Change not prepared",
        "Its time is up, or it was given up; the old terms stand. Change the reservation again.";
    ChangeUnderWay = "change-under-way", 409, "A change is under way",
        "Ask again when it is done, with the same key: its terms are being changed, or a part is being replaced.";
    PartLost = "part-lost", 409, "A part was lost",
        "Nothing is booked; ask again with a new id.";
    Interrupted = "interrupted", 409, "Interrupted before a decision",
        "Nothing is booked; ask again with a new id.";
    Limit = "limit", 403, "Beyond a limit of the site",
        "Stay within the limit that the detail names, or give up other reservations first.";
    NotOwner = "not-owner", 403, "Belongs to somebody else",
        "Only its owner, or an operator, may do that.";
    Unknown = "unknown", 404, "No such reservation",
        "Check the id; a reservation that is long over is forgotten.";
    Expired = "expired", 410, "Hold expired",
        "Reserve again, and commit before the hold expires.";
    CancelledBefore = "cancelled-before", 410, "Cancelled before it was reserved",
        "Its cancellation came first; reserve again with a new id.";
    Changed = "changed", 412, "Changed in the meantime",
        "Look at it again, decide again, and send the new version in If-Match.";
    Silence = "silence", 504, "Nobody answered in time",
        "Ask again later; the register of sites says who is silent.";
    Busy = "busy", 503, "Busy",
        "Ask again later, with the same key; too much is under way, or the reservation waits for the batch system.";
    NoBatchSystem = "no-batch-system", 503, "The batch system does not answer",
        "Ask again later, with the same key.";
    BatchTimeout = "batch-timeout", 409, "The batch system did not answer in time",
        "Nothing was booked or changed. Ask again later, a new reservation with a new id, or ask another site.";
    Circle = "circle", 409, "Brokers in a circle",
        "Ask another; brokers that name each other, or themselves, take this for an answer and go on without.";
    UnknownJob = "unknown-job", 404, "No such job",
        "Check the id; a job that is long over is forgotten.";
    JobTaken = "job-taken", 409, "Id of another job",
        "Make a new id for every new job.";
    JobRefused = "job-refused", 422, "The batch system does not take the job",
        "Correct the job as the detail says.";
    BadRequest = "bad-request", 400, "Request not understood",
        "Correct what the detail names.";
    BadJson = "bad-json", 400, "Body not understood",
        "Correct the field that the detail names; /openapi.json describes every document.";
    NoKey = "no-key", 400, "Idempotency-Key missing",
        "Send an Idempotency-Key with every call that makes something, and the same one when it is repeated.";
    Unauthenticated = "unauthenticated", 401, "Not authenticated",
        "Send a valid bearer token.";
    Forbidden = "forbidden", 403, "Not allowed",
        "Ask an operator for the role that the call needs.";
    NotFound = "not-found", 404, "Nothing here",
        "Check the path; /openapi.json lists all.";
    MethodNotAllowed = "method-not-allowed", 405, "Method not allowed here",
        "Use a method that Allow names.";
    KeyInFlight = "key-in-flight", 409, "The same call is under way",
        "Wait a moment and repeat the call with the same key.";
    TooLarge = "too-large", 413, "Body too large",
        "Send less; the detail names the limit.";
    UnsupportedMediaType = "unsupported-media-type", 415, "Media type not understood",
        "Send application/json.";
    OtherClock = "other-clock", 412, "Times for a clock of another speed",
        "Compute the times by Bookahead-Now and Bookahead-Clock-Speed of the answer, and send that speed.";
    OverLimit = "over-limit", 422, "More than is served at once",
        "Ask for less; the detail names the limit.";
    NoVersion = "no-version", 428, "If-Match missing",
        "Send the version that you have seen in If-Match, or * for whichever it is.";
    TooManyRequests = "too-many-requests", 429, "Too many requests",
        "Wait as long as Retry-After says.";
    Internal = "internal", 500, "Failure of the server",
        "Repeat the call with the same key; if it stays, look into the log of the server.";
    Unavailable = "unavailable", 503, "Not available at the moment",
        "Repeat the call later with the same key.";
    Late = "late", 504, "No answer in time",
        "What was asked may still be done: repeat the call with the same key to learn.";
}

impl Code {
    /// The kind of a refusal.
    pub fn of(why: &Why) -> Code {
        match why {
            Why::Malformed(_) => Code::Malformed,
            Why::OnePartOnly(_) => Code::OnePartOnly,
            Why::NoSuchResource { .. } => Code::NoSuchResource,
            Why::NoSlot(Reason::TooWide) => Code::TooWide,
            Why::NoSlot(Reason::NoWindow) => Code::NoWindow,
            Why::NoSlot(Reason::NoRoom) => Code::NoRoom,
            Why::NoSlot(Reason::NotAdmitted) => Code::NotAdmitted,
            Why::Limit { .. } => Code::Limit,
            Why::Unknown(_) => Code::Unknown,
            Why::Illegal(_) => Code::Illegal,
            Why::Expired => Code::Expired,
            Why::CancelledBefore(_) => Code::CancelledBefore,
            Why::NotOwner(_) => Code::NotOwner,
            Why::IdTaken(_) => Code::IdTaken,
            Why::KeyTaken(_) => Code::KeyTaken,
            Why::Changed { .. } => Code::Changed,
            Why::NotPrepared => Code::NotPrepared,
            Why::ChangeUnderWay => Code::ChangeUnderWay,
            Why::NoSuchPart(_) => Code::NoSuchPart,
            Why::WhichPart(_) => Code::WhichPart,
            Why::NotReleased(_) => Code::NotReleased,
            Why::NoCandidate { .. } => Code::NoCandidate,
            Why::Silence => Code::Silence,
            Why::Interrupted => Code::Interrupted,
            Why::PartLost => Code::PartLost,
            Why::Busy => Code::Busy,
            Why::NotGranted(_) => Code::NotGranted,
            Why::NoBatchSystem => Code::NoBatchSystem,
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

    /// The kind with this name.
    pub fn named(word: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.word() == word)
    }

    /// The reference to its description, the `type` of the document.
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
