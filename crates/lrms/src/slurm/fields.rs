//! `Key=value` texts as `scontrol` prints them. Values may contain blanks and even what looks like a key, where people wrote
//! them; so each reader takes only fields that stand before any such value, or in a line without one.

/// The value of a key in a line, up to the next blank; None where there is no such key, or it has no value.
pub(super) fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let value = raw(line, key)?;
    (!value.is_empty() && value != "(null)" && value != "N/A").then_some(value)
}

fn raw<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(found) = line.get(from..)?.find(key) {
        let at = from + found;
        let begins = at == 0 || line.as_bytes().get(at - 1) == Some(&b' ');
        let rest = line.get(at + key.len()..)?;
        if let Some(value) = rest.strip_prefix('=').filter(|_| begins) {
            return value.split(' ').next();
        }
        from = at + key.len();
    }
    None
}

/// A value that is a number.
pub(super) fn number(line: &str, key: &str) -> Option<u32> {
    field(line, key)?.parse().ok()
}

/// A value that is a list with commas.
pub(super) fn list(line: &str, key: &str) -> Vec<String> {
    field(line, key).map(|value| value.split(',').map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
