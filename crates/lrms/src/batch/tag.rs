//! Names of our reservations and jobs in a batch system. They encode the site, the reservation, the piece and the
//! owner, so a lost ledger can be rebuilt from them.
//!
//! Reservations are called `ba.SITE.ID.PIECE.OWNER`, with the id in hexadecimal. In site and owner, letters, digits
//! and `_` stand for themselves, `-` is doubled, and every other byte is `-` with two hexadecimal digits. If the name
//! is too long, the owner is left out. If it is still too long, or only short names are allowed, the name is
//! `ba_SITE_ID_PIECE` in base 36: six digits of a hash of the site, the id, and the piece. Such a name has at most
//! [`SHORTEST`] characters and only letters, digits and `_`.
//!
//! Jobs are called by their id and the six digits of the site: `job_ID_SITE`. Two sites on one cluster never confuse
//! their reservations or jobs.

use bookahead_protocol::{JobId, Name, ReservationId};

/// A batch system must allow names of this length, in characters: `ba_`, 6 digits of the site, up to 25 of the id, the
/// piece, and separators.
pub const SHORTEST: usize = 39;

/// With limits below this only plain names are used: such batch systems also restrict the characters.
const LONG: usize = 64;

/// Limit on the numbers of pieces; with it, a piece has at most two digits in base 36.
pub(super) const MOST_PIECES: u32 = 1_000;

/// The contents of a reservation's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The reservation that it belongs to.
    pub id: ReservationId,
    /// Number of the piece within the reservation.
    pub piece: u32,
    /// Owner, if the name has room for it.
    pub owner: Option<Name>,
}

impl Tag {
    /// The name for `site` with at most `longest` characters; None if that is too short.
    pub fn name(&self, site: &Name, longest: usize) -> Option<String> {
        // The longest first: if the ledger is lost, the name is the only record of the owner.
        let names = [self.with_owner(site), Some(self.without_owner(site))];
        let long = names.into_iter().flatten().filter(|_| longest >= LONG);
        long.chain([self.plain(site)]).find(|name| name.len() <= longest)
    }

    /// Parses a name; None if `site` did not give it.
    pub fn read(name: &str, site: &Name) -> Option<Tag> {
        let tag = if name.starts_with("ba.") { read_long(name)? } else { read_plain(name)? };
        // A name is ours only if this site would give exactly the same one.
        let names = [tag.with_owner(site), Some(tag.without_owner(site)), Some(tag.plain(site))];
        names.into_iter().flatten().any(|given| given == name).then_some(tag)
    }

    fn with_owner(&self, site: &Name) -> Option<String> {
        let owner = self.owner.as_ref().filter(|owner| !owner.as_str().is_empty())?;
        Some(format!("{}.{}", self.without_owner(site), encoded(owner.as_str())))
    }

    fn without_owner(&self, site: &Name) -> String {
        format!("ba.{}.{:x}.{}", encoded(site.as_str()), self.id.0, self.piece)
    }

    fn plain(&self, site: &Name) -> String {
        format!("ba_{}_{}_{}", digest(site), digits(self.id.0), digits(u128::from(self.piece)))
    }
}

/// The name of a job of `site`.
pub fn job_name(id: JobId, site: &Name) -> String {
    format!("{id}_{}", digest(site))
}

/// Parses the name of a job; None if `site` did not give it.
pub fn read_job(name: &str, site: &Name) -> Option<JobId> {
    // From the right, because the id itself contains `_`.
    let id: JobId = name.rsplit_once('_')?.0.parse().ok()?;
    (job_name(id, site) == name).then_some(id)
}

/// The owner is the last part, if present.
fn read_long(name: &str) -> Option<Tag> {
    // The site is not decoded: `read` compares the whole name with the one that this site would give.
    let mut parts = name.split('.').skip(2);
    let id = number(parts.next()?, 16)?;
    let piece = u32::try_from(number(parts.next()?, 10)?).ok()?;
    let owner = match parts.next() {
        Some(owner) => Some(Name::from(decoded(owner)?)),
        None => None,
    };
    Some(Tag { id: ReservationId(id), piece, owner })
}

fn read_plain(name: &str) -> Option<Tag> {
    let mut parts = name.split('_').skip(2);
    let id = number(parts.next()?, 36)?;
    let piece = u32::try_from(number(parts.next()?, 36)?).ok()?;
    Some(Tag { id: ReservationId(id), piece, owner: None })
}

/// Other spellings of a number are rejected later, by comparison with the name that would be given.
fn number(text: &str, radix: u32) -> Option<u128> {
    u128::from_str_radix(text, radix).ok()
}

fn encoded(text: &str) -> String {
    let mut written = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' => written.push(char::from(byte)),
            b'-' => written.push_str("--"),
            // This includes `.`, which separates the parts of a name.
            _ => written.push_str(&format!("-{byte:02x}")),
        }
    }
    written
}

fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut left) = (Vec::new(), text.as_bytes());
    while let Some((first, rest)) = left.split_first() {
        left = rest;
        if *first != b'-' {
            bytes.push(*first);
        } else if let Some(rest) = rest.strip_prefix(b"-") {
            bytes.push(b'-');
            left = rest;
        } else {
            let (digits, rest) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            left = rest;
        }
    }
    String::from_utf8(bytes).ok()
}

/// In base 36.
fn digits(mut number: u128) -> String {
    let mut backwards = Vec::new();
    loop {
        // Neither fallback is ever used: the remainder is below 36.
        let digit = u32::try_from(number % 36).unwrap_or(0);
        backwards.push(char::from_digit(digit, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return backwards.into_iter().rev().collect();
        }
    }
}

/// Six digits of a hash of the site's name. FNV-1a is fixed: names must stay the same across releases.
fn digest(site: &Name) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = site.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("{:0>6}", digits(u128::from(hash % 36_u64.pow(6))))
}
