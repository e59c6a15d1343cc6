//! Resources of PBS beside cores, by their names in PBS: `ngpus`, `mem` (here in MiB), and any other that a site
//! counts. They are parts of chunks: `select=2:ncpus=2:ngpus=1:mem=512mb`, see pbs_resources(7B). The scheduler manages
//! only those in `resources` of its sched_config.

use super::records::Record;
use bookahead_plan::Capacity;
use bookahead_protocol::{Name, Tres};
use std::collections::BTreeMap;

const MEMORY: &str = "mem";

/// An amount: a plain number, or a size in KiB.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Amount {
    Count(u64),
    Kibibytes(u64),
}

/// `4`, `512mb`, `1048576kb`. None for text, and for fractions.
fn amount(text: &str) -> Option<Amount> {
    let text = text.trim();
    if let Ok(count) = text.parse() {
        return Some(Amount::Count(count));
    }
    let at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let number: u64 = text.get(..at)?.parse().ok()?;
    Some(Amount::Kibibytes(match text.get(at..)?.to_ascii_lowercase().as_str() {
        "b" => number / 1_024,
        "kb" => number,
        "mb" => number.checked_mul(1 << 10)?,
        "gb" => number.checked_mul(1 << 20)?,
        "tb" => number.checked_mul(1 << 30)?,
        _ => return None,
    }))
}

/// Adds up amounts by name; sizes become MiB, rounded down.
fn sum<'a>(amounts: impl Iterator<Item = (&'a str, &'a str)>) -> Tres {
    let mut sums: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    for (name, text) in amounts.filter(|(name, _)| *name != "ncpus") {
        let Some(amount) = amount(text) else { continue };
        let (more, is_size) = match amount {
            Amount::Count(count) => (count, false),
            Amount::Kibibytes(size) => (size, true),
        };
        let (sum, _) = sums.entry(name).or_insert((0, is_size));
        *sum = sum.saturating_add(more);
    }
    let told = |(sum, is_size): (u64, bool)| if is_size { sum / 1_024 } else { sum };
    let all = sums.into_iter().map(|(name, sum)| (name, u32::try_from(told(sum)).unwrap_or(u32::MAX)));
    all.filter(|(_, amount)| *amount > 0).collect()
}

/// What a vnode has.
pub(super) fn of_vnode(vnode: &Record) -> Tres {
    sum(vnode.below("resources_available."))
}

/// What chunks such as `(n1:ncpus=4:ngpus=1)+(n2:ncpus=2:mem=1048576kb)` have together.
pub(super) fn of_chunks(chunks: &str) -> Tres {
    let parts = chunks.split('+').map(|part| part.trim_matches(['(', ')', ' ']));
    sum(parts.flat_map(|part| part.split(':').skip(1)).filter_map(|word| word.split_once('=')))
}

/// Why PBS cannot have a resource of this name; None if all names are possible.
pub(super) fn impossible(tres: &Tres) -> Option<String> {
    let (name, _) = tres.iter().find(|(name, _)| name.as_str().contains(['/', ':', '.']))?;
    Some(format!("{name} is not the name of a PBS resource; use a name such as ngpus or mem"))
}

/// The number of equal chunks into which cores and things can be divided without a rest. Memory is rounded up.
pub(super) fn chunks(cores: u32, tres: &Tres) -> u32 {
    let counts = tres.iter().filter(|(name, _)| name.as_str() != MEMORY).map(|(_, amount)| amount.0);
    counts.fold(cores, gcd)
}

fn gcd(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// The words of each of these chunks: `:ngpus=1:mem=512mb`. Together they have at least the amounts.
pub(super) fn words(tres: &Tres, chunks: u32) -> String {
    let word = |(name, amount): (&Name, Capacity)| {
        let unit = if name.as_str() == MEMORY { "mb" } else { "" };
        format!(":{name}={}{unit}", amount.0.div_ceil(chunks.max(1)))
    };
    tres.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tres(amounts: &[(&str, u32)]) -> Tres {
        amounts.iter().copied().collect()
    }

    #[test]
    fn chunks_are_added_up_in_the_units_of_pbs() {
        let read = of_chunks("(n1:ncpus=4:ngpus=1:mem=1048576kb)+(n2:ncpus=2:mem=1gb+n3:ngpus=2)");
        assert_eq!(read, tres(&[("ngpus", 3), ("mem", 2_048)]));
        assert_eq!(of_chunks("(n1:ncpus=1:mem=512b)"), Tres::default(), "less than one MiB");
        for odd in [
            "",
            "n1",
            "(n1:ngpus)",
            "(n1:ngpus=x)",
            "(n1:mem=1.5gb)",
            "(n1:mem=99999999999999999999tb)",
            "(n1:ngpus=-1)",
        ] {
            assert_eq!(of_chunks(odd), Tres::default(), "{odd}");
        }
    }

    #[test]
    fn chunks_are_as_many_as_divide_everything() {
        assert_eq!(chunks(4, &Tres::default()), 4);
        assert_eq!(chunks(4, &tres(&[("mem", 1_001)])), 4);
        assert_eq!(chunks(4, &tres(&[("ngpus", 2)])), 2);
        assert_eq!(chunks(4, &tres(&[("ngpus", 3)])), 1);
        assert_eq!(chunks(4, &tres(&[("ngpus", 8), ("fpgas", 4)])), 4);
        assert_eq!(words(&tres(&[("ngpus", 2), ("mem", 1_001)]), 2), ":mem=501mb:ngpus=1");
    }
}
