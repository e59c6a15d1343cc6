//! HTTP headers of the API: idempotency key, version, user and roles of a forwarded call, brokers that forwarded
//! it, the server's clock, and the position in the output of a job.
//! Client and server share this code, so both sides read a header the same way.

use bookahead_protocol::Name;
use thiserror::Error;

/// Idempotency key of a call, a quoted string: `"key_4f3c"`.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The user on whose behalf a peer calls.
pub const USER: &str = "bookahead-user";
/// Roles of that user, comma-separated.
pub const ROLES: &str = "bookahead-roles";
/// Identities of the brokers that forwarded the call, comma-separated, first broker first.
pub const VIA: &str = "bookahead-via";
/// Set in every answer: current time of the server's clock, RFC 3339.
pub const NOW: &str = "bookahead-now";
/// In an answer: speed of the server's clock, if it is not 1. In a request: the speed that its times were computed
/// for; a server with another speed refuses the request.
pub const CLOCK_SPEED: &str = "bookahead-clock-speed";
/// In the answer of a stand-by: URL of the process that is active.
pub const ACTIVE: &str = "bookahead-active";
/// In a call of a site or broker with a journal in PostgreSQL: its name and the number of its active process,
/// `north/7`. Receivers refuse calls of a process with a lower number.
pub const EPOCH: &str = "bookahead-epoch";

/// In an answer with the output of a job: the position after it.
pub const OUTPUT_NEXT: &str = "bookahead-output-next";
/// In an answer with the output of a job: the size of the whole output so far.
pub const OUTPUT_SIZE: &str = "bookahead-output-size";
/// In an answer with the output of a job: `true` if the job is over and nothing follows.
pub const OUTPUT_ENDED: &str = "bookahead-output-ended";

/// Most brokers that a call may pass through. A call with a longer chain is refused, and the register keeps no
/// resource that is farther away.
pub const MOST_VIA: usize = 8;

/// A header that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadHeader {
    /// `Idempotency-Key` is not a quoted string of printable ASCII.
    #[error("Idempotency-Key is {0:?}; it should be a text in quotes, such as \"key_4f3c2b1a\"")]
    IdempotencyKey(String),
    /// A name with characters that are not percent-encoded, or with an invalid encoding.
    #[error(
        "{0:?} is not a name; bytes other than letters, digits and signs are written as % and two digits"
    )]
    Name(String),
}

/// Value of [`EPOCH`]: the calling party and the number of its process.
pub fn epoch(party: &Name, epoch: u64) -> String {
    format!("{}/{epoch}", name(party))
}

/// Parses [`EPOCH`].
pub fn read_epoch(text: &str) -> Option<(Name, u64)> {
    let (party, epoch) = text.rsplit_once('/')?;
    Some((read_name(party).ok()?, epoch.trim().parse().ok()?))
}

/// The entity tag of a version: `"3"`.
fn entity_tag(version: u32) -> String {
    format!("\"{version}\"")
}

/// Value of `If-Match`: the version that the client has seen, or `*` for any version.
pub fn if_match(version: Option<u32>) -> String {
    version.map_or_else(|| "*".into(), entity_tag)
}

/// Parses `Idempotency-Key` and returns the string between the quotes. Keys made by other programs may have any
/// form.
pub fn read_idempotency_key(text: &str) -> Result<&str, BadHeader> {
    let text = text.trim();
    let plain = |key: &&str| !key.is_empty() && key.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    let key = quoted(text).filter(plain).filter(|key| !key.contains(['"', '\\']));
    key.ok_or_else(|| BadHeader::IdempotencyKey(text.into()))
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

/// Percent-encodes a name for a header value: all bytes except visible ASCII, and also `%` and `,`.
pub fn name(name: &Name) -> String {
    let mut text = String::with_capacity(name.as_str().len());
    for byte in name.as_str().bytes() {
        match byte {
            // The comma separates names in a list, so it must not appear in one.
            b'%' | b',' => text.push_str(&escaped(byte)),
            0x21..=0x7e => text.push(char::from(byte)),
            _ => text.push_str(&escaped(byte)),
        }
    }
    text
}

fn escaped(byte: u8) -> String {
    format!("%{byte:02x}")
}

/// Parses a percent-encoded name.
pub fn read_name(text: &str) -> Result<Name, BadHeader> {
    let bad = || BadHeader::Name(text.into());
    let mut bytes = text.trim().bytes();
    let mut name = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => name.push(digit(bytes.next()).zip(digit(bytes.next())).map(joined).ok_or_else(bad)?),
            b',' => return Err(bad()),
            0x21..=0x7e => name.push(byte),
            _ => return Err(bad()),
        }
    }
    String::from_utf8(name).map(Name::from).map_err(|_| bad())
}

fn digit(byte: Option<u8>) -> Option<u8> {
    char::from(byte?).to_digit(16).map(|digit| digit as u8)
}

fn joined((high, low): (u8, u8)) -> u8 {
    high * 16 + low
}

/// Percent-encodes several names, separated by commas.
pub fn names(all: &[Name]) -> String {
    all.iter().map(name).collect::<Vec<_>>().join(",")
}

/// Parses a comma-separated list of names. An empty text is an empty list.
pub fn read_names(text: &str) -> Result<Vec<Name>, BadHeader> {
    // `split` yields one empty name for an empty text.
    if text.trim().is_empty() { Ok(Vec::new()) } else { text.split(',').map(read_name).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_protocol::Key;

    #[test]
    fn a_version_is_a_quoted_number_or_a_star() {
        assert_eq!([None, Some(0), Some(3)].map(if_match), ["*", "\"0\"", "\"3\""]);
    }

    #[test]
    fn a_key_is_a_quoted_text_of_any_form() {
        assert_eq!(read_idempotency_key(&format!("\"{}\"", Key(0x4f))), Ok("key_4f"));
        assert_eq!(read_idempotency_key(" \"2f8c-11\" "), Ok("2f8c-11"));
        for wrong in ["", "key_4f", "\"\"", "\"a\"b\"", "\"\u{e9}\"", "\"a\\\"", "\""] {
            assert!(read_idempotency_key(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_epoch_names_its_party() {
        let party = Name::from("grün/x");
        assert_eq!(read_epoch(&epoch(&party, 7)), Some((party, 7)));
        for wrong in ["", "7", "north/", "north/-1", "north/x", "a b/7"] {
            assert_eq!(read_epoch(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn any_name_can_be_told_in_a_header() {
        let all = ["ada", "", "a, b", "100%", "grün\n", "日本", "%2c"].map(Name::from);
        for one in &all {
            let told = name(one);
            assert!(told.bytes().all(|byte| byte.is_ascii_graphic()), "{told}");
            assert_eq!(read_name(&told).as_ref(), Ok(one));
        }
        assert_eq!(name(&"ada.lovelace@example.org".into()), "ada.lovelace@example.org");
        assert_eq!(read_names(&names(&all)), Ok(all.to_vec()));
        assert_eq!(read_names(" "), Ok(vec![]));
        for wrong in ["%", "%2", "%zz", "%ff", "a b", "grün"] {
            assert!(read_name(wrong).is_err(), "{wrong}");
        }
    }
}
