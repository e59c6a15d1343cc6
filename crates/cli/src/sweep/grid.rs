//! The grid of a sweep: parameters, the combinations of their values, and the key of each run.

use super::description::Sweep;
use super::values::{Kind, Value};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read};
use std::path::Path;

/// A parameter and its values, which have one kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameter {
    /// As an option of the command: `book-ahead`.
    pub(crate) name: String,
    /// As a column: `book_ahead`, so that a query needs no quotes.
    pub(crate) column: String,
    pub(crate) kind: Kind,
    pub(crate) values: Vec<Value>,
}

impl Parameter {
    /// `values` must not be empty.
    pub(crate) fn new(name: &str, values: Vec<Value>) -> Parameter {
        let kind = values.first().map_or(Kind::Text, Value::kind);
        Parameter { name: name.replace('_', "-"), column: name.replace(['-', '.'], "_"), kind, values }
    }

    /// `load 4`: name and number of values.
    pub(crate) fn size(&self) -> String {
        format!("{} {}", self.name, self.values.len())
    }
}

/// The key of a run: equal if and only if command, input, version and parameters are.
pub(crate) type Key = u128;

/// Each parameter with its value of a run, in the order of the sweep.
pub(crate) type Setting<'a> = Vec<(&'a Parameter, &'a Value)>;

/// The values of a run, of all combinations in order; the last parameter changes fastest.
pub(crate) fn setting(parameters: &[Parameter], run: usize) -> Setting<'_> {
    let mut rest = run;
    let mut setting: Setting<'_> = Vec::with_capacity(parameters.len());
    for parameter in parameters.iter().rev() {
        let count = parameter.values.len().max(1);
        if let Some(value) = parameter.values.get(rest % count) {
            setting.push((parameter, value));
        }
        rest /= count;
    }
    setting.reverse();
    setting
}

/// The number of combinations.
pub(crate) fn size(parameters: &[Parameter]) -> usize {
    parameters.iter().map(|parameter| parameter.values.len()).product()
}

impl Sweep {
    /// The number of runs.
    pub(crate) fn runs(&self) -> usize {
        size(&self.parameters)
    }

    pub(crate) fn setting(&self, run: usize) -> Setting<'_> {
        setting(&self.parameters, run)
    }

    /// Runs that share a folder of results have consecutive numbers; this is how many.
    pub(crate) fn runs_in_folder(&self) -> usize {
        size(&self.parameters[self.partition..])
    }

    /// The key of a run; `identity` is the digest of version, command and inputs.
    pub(crate) fn key(&self, identity: u128, run: usize) -> Key {
        let mut setting = self.setting(run);
        // The order in the file changes no result.
        setting.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        let mut hasher = SipHasher13::new();
        let mut add = |text: &str| {
            hasher.write(text.as_bytes());
            // Ends each text, so that two texts cannot be mistaken for one.
            hasher.write_u8(0xff);
        };
        add(&format!("{identity:032x}"));
        for (parameter, value) in setting {
            add(&parameter.name);
            add(&value.to_string());
        }
        hasher.finish128().as_u128()
    }
}

/// The digest of texts, in order.
pub(crate) fn digest<'a>(texts: impl IntoIterator<Item = &'a str>) -> u128 {
    let mut hasher = SipHasher13::new();
    for text in texts {
        hasher.write(text.as_bytes());
        hasher.write_u8(0xff);
    }
    hasher.finish128().as_u128()
}

/// The digest of the contents of a file.
pub(crate) fn digest_of_file(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = SipHasher13::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish128().as_u128()),
            length => hasher.write(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn sweep(counts: &[usize], rotated: usize) -> Sweep {
        let mut lines: Vec<String> =
            counts.iter().enumerate().map(|(at, count)| format!("p{at} = \"1..{count}\"\n")).collect();
        let by = rotated % lines.len().max(1);
        lines.rotate_left(by);
        let head = "command = \"simulate\"\ninput = \"a\"\nout = \"o\"\n[parameters]\n";
        Sweep::parse(&format!("{head}{}", lines.concat()), "s.toml", Path::new("")).unwrap()
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(256))]

        #[test]
        fn there_is_one_run_for_each_combination_and_each_has_its_own_key(
            counts in proptest::collection::vec(1_usize..6, 0..5),
            inputs: u128,
        ) {
            let sweep = sweep(&counts, 0);
            prop_assert_eq!(sweep.runs(), counts.iter().product::<usize>());
            let shown = |run| sweep.setting(run).iter().map(|(_, value)| value.to_string()).collect::<Vec<_>>();
            let settings: BTreeSet<Vec<String>> = (0..sweep.runs()).map(shown).collect();
            let keys: BTreeSet<Key> = (0..sweep.runs()).map(|run| sweep.key(inputs, run)).collect();
            prop_assert_eq!((settings.len(), keys.len()), (sweep.runs(), sweep.runs()));
        }

        #[test]
        fn keys_do_not_depend_on_the_order_of_the_parameters(
            counts in proptest::collection::vec(1_usize..5, 1..4),
            rotated in 0_usize..4,
            inputs: u128,
        ) {
            let keys = |sweep: &Sweep| (0..sweep.runs()).map(|run| sweep.key(inputs, run)).collect::<BTreeSet<_>>();
            prop_assert_eq!(keys(&sweep(&counts, 0)), keys(&sweep(&counts, rotated)));
        }
    }

    #[test]
    fn another_input_gives_other_keys() {
        let sweep = sweep(&[3], 0);
        assert_ne!(sweep.key(1, 0), sweep.key(2, 0));
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
    }
}
