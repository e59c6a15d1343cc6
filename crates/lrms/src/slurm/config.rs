//! The configuration of the controller, as `scontrol show config` prints it: `SlurmUser               = root(0)`.

/// The value of a key; None where it is not there or nothing.
pub(super) fn value<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    let found = config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then_some(value.trim())
    });
    found.filter(|value| !value.is_empty() && *value != "(null)" && *value != "none")
}

/// A user without the number behind it: `root(0)` is `root`.
pub(super) fn user<'a>(config: &'a str, key: &str) -> Option<&'a str> {
    value(config, key).map(|value| value.split('(').next().unwrap_or(value))
}

/// The number that a value begins with: `5 sec`.
pub(super) fn number(config: &str, key: &str) -> Option<u64> {
    value(config, key)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_whole_keys() {
        let config = "Configuration data as of 1794743003\nSlurmUser               = root(0)\nKillWait                = 5 sec\nPrivateData             = none\n";
        assert_eq!(user(config, "SlurmUser"), Some("root"));
        assert_eq!(value(config, "User"), None);
        assert_eq!(number(config, "KillWait"), Some(5));
        assert_eq!(value(config, "PrivateData"), None);
    }
}
