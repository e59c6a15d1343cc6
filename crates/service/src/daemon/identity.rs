//! The number of a broker, which no other party has: from its name and chance, drawn once and kept in its state folder.

use super::DaemonError;
use bookahead_protocol::Name;
use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// The file with what was drawn.
const FILE: &str = "identity";
/// So much is drawn.
const BYTES: usize = 32;

/// The number. The first time it is drawn, and written before anybody hears of it.
pub(super) fn maker(state: &Path, name: &str) -> Result<u64, DaemonError> {
    let path = state.join(FILE);
    let failed = |cause| DaemonError::State { path: path.clone(), cause };
    let drawn = match std::fs::read(&path) {
        Ok(drawn) if drawn.len() == BYTES => drawn,
        Ok(_) => {
            let why = "it is not what was written there; restore it, or remove it together with the journal";
            return Err(failed(io::Error::new(ErrorKind::InvalidData, why)));
        }
        Err(missing) if missing.kind() == ErrorKind::NotFound => {
            let mut drawn = vec![0; BYTES];
            SystemRandom::new().fill(&mut drawn).map_err(|_| DaemonError::NoRandomness)?;
            keep(state, &drawn).map_err(failed)?;
            drawn
        }
        Err(cause) => return Err(failed(cause)),
    };
    Ok(number(name, &drawn))
}

/// The name by which a broker knows a call that has come through it before. Brokers of the same name are told apart by their
/// numbers.
pub(super) fn told_as(name: &str, maker: u64) -> Name {
    format!("{name}#{maker:016x}").into()
}

fn number(name: &str, drawn: &[u8]) -> u64 {
    let mut digest = Context::new(&SHA256);
    digest.update(name.as_bytes());
    digest.update(&[0]);
    digest.update(drawn);
    let mut first = [0; 8];
    first.copy_from_slice(&digest.finish().as_ref()[..8]);
    u64::from_be_bytes(first)
}

/// All of it or nothing, whatever comes between.
fn keep(state: &Path, drawn: &[u8]) -> io::Result<()> {
    let beside = state.join(format!("{FILE}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&beside)?;
    file.write_all(drawn)?;
    file.sync_all()?;
    std::fs::rename(&beside, state.join(FILE))?;
    File::open(state)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_has_one_number_and_no_two_have_the_same() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let number = maker(one.path(), "grid").unwrap();
        assert_eq!(maker(one.path(), "grid").unwrap(), number);
        assert_ne!(maker(one.path(), "other").unwrap(), number);
        assert_ne!(maker(other.path(), "grid").unwrap(), number);
        std::fs::write(one.path().join(FILE), "x").unwrap();
        assert!(maker(one.path(), "grid").unwrap_err().to_string().contains("restore it"));
    }
}
