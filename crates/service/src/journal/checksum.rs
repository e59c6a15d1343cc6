//! Checksums of records and snapshots: CRC-64 (ECMA-182, reflected), each record's over what the record before had and
//! itself, so that a record that is changed, missing or out of place does not fit. They find damage. They are no
//! protection against somebody who means to deceive and can compute them, too.

const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

const TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

/// The checksum of a record, which stands for all records up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain(pub(crate) u64);

impl Chain {
    /// Before the first record. It depends on whose journal it is, so that records of one do not fit into another.
    pub(crate) fn genesis(what: &str, owner: &str) -> Chain {
        Chain(Sum::new().number(what.len() as u64).bytes(what.as_bytes()).bytes(owner.as_bytes()).done())
    }

    /// After one more record.
    pub(crate) fn then(self, sequence: u64, schema: u32, written_at: i64, event: &[u8]) -> Chain {
        let sum = Sum::new().number(self.0).number(sequence).number(schema.into());
        Chain(sum.number(written_at.cast_unsigned()).bytes(event).done())
    }
}

/// The checksum of a snapshot, which also vouches for the chain up to its record.
pub(crate) fn of_snapshot(up_to: u64, schema: u32, written_at: i64, chain: Chain, state: &[u8]) -> u64 {
    let sum = Sum::new().number(up_to).number(schema.into()).number(written_at.cast_unsigned());
    sum.number(chain.0).bytes(state).done()
}

struct Sum(u64);

impl Sum {
    fn new() -> Sum {
        Sum(u64::MAX)
    }

    fn bytes(self, bytes: &[u8]) -> Sum {
        let next = |sum: u64, byte: &u8| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
        Sum(bytes.iter().fold(self.0, next))
    }

    fn number(self, number: u64) -> Sum {
        self.bytes(&number.to_le_bytes())
    }

    fn done(self) -> u64 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_of_the_standard() {
        assert_eq!(Sum::new().bytes(b"123456789").done(), 0x995d_c9bb_df19_39fa);
    }

    #[test]
    fn everything_in_a_record_counts() {
        let chain = Chain::genesis("ledger", "north").then(1, 1, 5, b"{}");
        let others = [
            Chain::genesis("ledger", "south").then(1, 1, 5, b"{}"),
            Chain::genesis("broker", "north").then(1, 1, 5, b"{}"),
            Chain::genesis("ledger", "north").then(2, 1, 5, b"{}"),
            Chain::genesis("ledger", "north").then(1, 2, 5, b"{}"),
            Chain::genesis("ledger", "north").then(1, 1, 6, b"{}"),
            Chain::genesis("ledger", "north").then(1, 1, 5, b"[]"),
        ];
        assert!(others.iter().all(|other| *other != chain));
    }
}
