//! Formats of Slurm's commands: lists of hosts and numbers, `Key=value` text, the configuration of the controller,
//! versions and times. Values written by users may contain blanks and text that looks like a key. Each parser
//! therefore reads only fields in front of such a value, or in a line without one.

use crate::dialect::calendar;
use bookahead_plan::Time;

/// Larger than any cluster. A longer list is damaged, and expanding it could exhaust the memory.
const MOST_HOSTS: usize = 100_000;

/// Expands a list such as `n[1-3,07-09],gpu1` or `rack[1-2]n[1-4]`, in order. Empty for Slurm's words for no hosts;
/// None if it is not a list of hosts.
pub(super) fn expand(list: &str) -> Option<Vec<String>> {
    let list = list.trim();
    if list.is_empty() || list == "(null)" || list == "None assigned" {
        return Some(Vec::new());
    }
    let mut hosts = Vec::new();
    for one in parts(list)? {
        each(String::new(), one, &mut hosts)?;
    }
    Some(hosts)
}

/// Splits at the commas outside of brackets.
fn parts(list: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let (mut begin, mut inside) = (0, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if inside => return None,
            b'[' => inside = true,
            b']' if !inside => return None,
            b']' => inside = false,
            b',' if !inside => {
                parts.push(list.get(begin..at)?);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list.get(begin..)?);
    (!inside && parts.iter().all(|part| !part.is_empty())).then_some(parts)
}

/// Appends all hosts that begin with `before` and continue with the pattern `rest`.
fn each(before: String, rest: &str, hosts: &mut Vec<String>) -> Option<()> {
    let Some((plain, bracket)) = rest.split_once('[') else {
        hosts.push(before + rest);
        return (hosts.len() <= MOST_HOSTS).then_some(());
    };
    let (inside, after) = bracket.split_once(']')?;
    for range in inside.split(',') {
        // `07-09` are `07`, `08`, `09`: keep the width.
        let width = range.split('-').next()?.len();
        // One more than allowed, so that `each` notices the excess.
        for number in numbers(range, MOST_HOSTS + 1)? {
            each(format!("{before}{plain}{number:0width$}"), after, hosts)?;
        }
    }
    Some(())
}

/// The value of a key in a line, up to the next blank; None if the key or its value is missing.
pub(super) fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let value = raw(line, key)?;
    (!value.is_empty() && value != "(null)" && value != "N/A").then_some(value)
}

fn raw<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(found) = line.get(from..)?.find(key) {
        let at = from + found;
        // A key may be the end of another one, such as `Features` in `ActiveFeatures`.
        let begins = at == 0 || line.as_bytes().get(at - 1) == Some(&b' ');
        let rest = line.get(at + key.len()..)?;
        if let Some(value) = rest.strip_prefix('=').filter(|_| begins) {
            return value.split(' ').next();
        }
        from = at + key.len();
    }
    None
}

pub(super) fn number(line: &str, key: &str) -> Option<u32> {
    field(line, key)?.parse().ok()
}

/// Splits a value at its commas.
pub(super) fn list(line: &str, key: &str) -> Vec<String> {
    field(line, key).map(|value| value.split(',').map(str::to_owned).collect()).unwrap_or_default()
}

/// Expands numbers such as `0-2,5,7-11:2`, at most `most` of them; None if it is something else.
pub(super) fn numbers(text: &str, most: usize) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let step = step.parse().ok().filter(|step: &usize| *step > 0)?;
        if last < first {
            return None;
        }
        // A damaged range such as `0-4294967295` must not fill the memory.
        let left = most.saturating_sub(found.len());
        found.extend((first..=last).step_by(step).take(left));
    }
    Some(found)
}

/// A value from `scontrol show config`: `SlurmUser               = root(0)`. None if it is missing or empty.
pub(super) fn setting<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let found = config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then_some(value.trim())
    });
    found.filter(|value| !value.is_empty() && *value != "(null)" && *value != "none")
}

/// The name of a user without its uid: `root(0)` is `root`.
pub(super) fn setting_user<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    setting(config, key).map(|value| value.split('(').next().unwrap_or(value))
}

/// The number at the beginning of a value: `5 sec`.
pub(super) fn setting_number(config: &str, key: &str) -> Option<u64> {
    setting(config, key)?.split_whitespace().next()?.parse().ok()
}

/// A time as commands accept it: `2026-11-15T00:02:51`, in their time zone, which is always UTC here. (They do not
/// accept seconds since the epoch, but print them with `SLURM_TIME_FORMAT=%s`.)
pub(super) fn written(time: Time) -> String {
    calendar::written(time, "%Y-%m-%dT%H:%M:%S")
}

/// Parses seconds since the epoch; None for `Unknown`, `N/A` and the like.
pub(super) fn time(printed: &str) -> Option<Time> {
    printed.parse().ok().map(Time)
}

/// The first version that rejects lists in `CoreCnt`: "Using a comma separated array for CoreCnt is no longer valid."
pub(super) const NO_CORE_LISTS: (u32, u32) = (23, 11);

/// Parses the output of `scontrol --version`: `slurm 25.05.8`, on Debian `slurm-wlm 22.05.8`.
pub(super) fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.split_whitespace().nth(1)?.split('.');
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_keep_their_zeros() {
        let hosts = expand("n[1-3,07-09],gpu1").unwrap();
        assert_eq!(hosts, ["n1", "n2", "n3", "n07", "n08", "n09", "gpu1"]);
    }

    #[test]
    fn several_brackets_and_tails_are_understood() {
        assert_eq!(expand("r[1-2]n[8-9]-ib").unwrap(), ["r1n8-ib", "r1n9-ib", "r2n8-ib", "r2n9-ib"]);
    }

    #[test]
    fn no_hosts_are_no_hosts() {
        assert_eq!(expand("(null)"), Some(vec![]));
        assert_eq!(expand(""), Some(vec![]));
    }

    #[test]
    fn what_is_no_list_is_refused_without_panic() {
        for odd in
            ["n[1-", "n]1[", "n[[1]]", "n[1-3", ",", "n1,,n2", "n[x]", "n[]", "n[0-4000000000]", "n[3-1]"]
        {
            assert!(expand(odd).is_none(), "{odd:?}");
        }
    }

    #[test]
    fn a_key_is_a_whole_word() {
        let line =
            "NodeName=n1 MyState=A State=B AvailableFeatures=x ActiveFeatures=f,g Gres=(null) Empty= Last=9";
        assert_eq!(field(line, "State"), Some("B"));
        assert_eq!(field(line, "NodeName"), Some("n1"));
        assert_eq!(list(line, "ActiveFeatures"), ["f", "g"]);
        assert_eq!(field(line, "Gres"), None);
        assert_eq!(field(line, "Empty"), None);
        assert_eq!(field(line, "Features"), None);
        assert_eq!(number(line, "Last"), Some(9));
        assert_eq!(number(line, "State"), None);
    }

    #[test]
    fn ranges_and_steps_are_counted_out() {
        assert_eq!(numbers("0-2,5,7-11:2", 100), Some(vec![0, 1, 2, 5, 7, 9, 11]));
        assert_eq!(numbers("3", 100), Some(vec![3]));
    }

    #[test]
    fn no_more_are_made_than_are_asked_for() {
        assert_eq!(numbers("0-4294967295,7", 3), Some(vec![0, 1, 2]));
    }

    #[test]
    fn other_texts_are_no_numbers() {
        for odd in ["", "a", "1-", "-1", "3-1", "1,,2", "1-5:0", "0xff", "1-99999999999"] {
            assert_eq!(numbers(odd, 10), None, "{odd:?}");
        }
    }

    #[test]
    fn values_are_found_by_whole_keys() {
        let config = "Configuration data as of 1794743003\nSlurmUser               = root(0)\nKillWait                = 5 sec\nPrivateData             = none\n";
        assert_eq!(setting_user(config, "SlurmUser"), Some("root"));
        assert_eq!(setting(config, "User"), None);
        assert_eq!(setting_number(config, "KillWait"), Some(5));
        assert_eq!(setting(config, "PrivateData"), None);
    }

    #[test]
    fn the_ends_of_time_are_written_as_the_nearest_years() {
        assert_eq!(written(Time::MIN), "1970-01-01T00:00:00");
        assert_eq!(written(Time::MAX), "9999-12-31T23:59:59");
    }

    #[test]
    fn versions_are_read_as_debian_and_others_write_them() {
        assert_eq!(version("slurm-wlm 22.05.8\n"), Some((22, 5)));
        assert_eq!(version("slurm 25.05.8"), Some((25, 5)));
        assert_eq!(version("slurm 23.11.0-0rc1"), Some((23, 11)));
        for odd in ["", "slurm", "slurm x.y", "slurm 22"] {
            assert_eq!(version(odd), None, "{odd:?}");
        }
    }
}
