//! Lists of hosts as Slurm writes them: `n[1-3,07-09],gpu1`, `rack[1-2]n[1-4]`.

use super::ranges;

/// No cluster has more; a longer list is no list of hosts.
const MOST_HOSTS: usize = 100_000;

/// The hosts of a list, in its order; none in what Slurm writes for none. None where it is something else.
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

/// Splits at the commas that are outside of brackets.
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

/// All hosts that begin with `before` and go on as `rest` says.
fn each(before: String, rest: &str, hosts: &mut Vec<String>) -> Option<()> {
    let Some((plain, bracket)) = rest.split_once('[') else {
        hosts.push(before + rest);
        return (hosts.len() <= MOST_HOSTS).then_some(());
    };
    let (inside, after) = bracket.split_once(']')?;
    for range in inside.split(',') {
        // `07-09` are `07`, `08`, `09`.
        let width = range.split('-').next()?.len();
        for number in ranges::numbers(range, MOST_HOSTS + 1)? {
            each(format!("{before}{plain}{number:0width$}"), after, hosts)?;
        }
    }
    Some(())
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
}
