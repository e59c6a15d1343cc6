//! Values in accounting records: durations, sizes, and sums such as `2:ncpus=8+1:ncpus=4`.

/// `[DAYS-]HOURS:MINUTES:SECONDS`, with fewer fields `MINUTES:SECONDS` or `SECONDS`; PBS has `DAYS:HOURS:...` too.
/// Fractions of a second are dropped.
pub(super) fn duration(text: &str) -> Option<i64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse().ok().filter(|days: &i64| *days >= 0)?, clock),
        None => (0, text),
    };
    let clock = clock.split_once('.').map_or(clock, |(whole, _)| whole);
    let mut fields = Vec::new();
    for field in clock.split(':') {
        let all_digits = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
        fields.push(field.parse::<i64>().ok().filter(|_| all_digits)?);
    }
    if fields.len() > 4 {
        return None;
    }
    // From the last: seconds, minutes, hours, days.
    let mut sum = days.checked_mul(86_400)?;
    for (field, unit) in fields.iter().rev().zip([1, 60, 3_600, 86_400]) {
        sum = sum.checked_add(field.checked_mul(unit)?)?;
    }
    Some(sum)
}

/// The value of `key` in `cpu=8,mem=4G,node=2`.
pub(super) fn of_list<'a>(list: &'a str, key: &str) -> Option<&'a str> {
    list.split(',')
        .find_map(|pair| pair.split_once('=').filter(|(name, _)| *name == key))
        .map(|(_, value)| value)
}

/// Processors of a PBS `select` (`2:ncpus=8+1:ncpus=4`) or of `nodes` of Torque (`2:ppn=8+node7:ppn=4`): the count of
/// each chunk times `key`, which is 1 by default.
pub(super) fn of_chunks(text: &str, key: &str) -> Option<i64> {
    let mut sum: i64 = 0;
    for chunk in text.split('+') {
        let mut fields = chunk.split(':');
        let first = fields.next()?;
        // The name of a node counts as one; so does a chunk without a count.
        let count = first.parse().unwrap_or(1);
        let named = chunk.split(':').find_map(|field| field.split_once('=').filter(|(name, _)| *name == key));
        let each: i64 = named.map_or(Some(1), |(_, value)| value.parse().ok())?;
        sum = sum.checked_add(each.checked_mul(count)?)?;
    }
    Some(sum)
}

/// Number of chunks: nodes of a PBS `select` or of `nodes` of Torque.
pub(super) fn chunks(text: &str) -> Option<i64> {
    of_chunks(text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_slurm_and_pbs_are_read() {
        for (text, seconds) in [
            ("1-02:03:04", 93_784),
            ("02:03:04", 7_384),
            ("03:04", 184),
            ("90", 90),
            ("00:00:10.123", 10),
            ("1:00:00:01", 86_401),
            ("100:00:00", 360_000),
        ] {
            assert_eq!(duration(text), Some(seconds), "{text}");
        }
        for text in
            ["", "UNLIMITED", "1-", "-1:00", "1:2:3:4:5", "9223372036854775807:00:00", "+1:00", "1::2"]
        {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn chunks_are_added_up() {
        assert_eq!(of_chunks("2:ncpus=8+1:ncpus=4:mem=2gb", "ncpus"), Some(20));
        assert_eq!(of_chunks("3:mem=2gb", "ncpus"), Some(3));
        assert_eq!(of_chunks("2:ppn=8+node7:ppn=4", "ppn"), Some(20));
        assert_eq!(of_chunks("ncpus=4", "ncpus"), Some(4));
        assert_eq!(chunks("2:ncpus=8+1:ncpus=4"), Some(3));
        assert_eq!(of_chunks("2:ncpus=many", "ncpus"), None);
        assert_eq!(of_chunks("9223372036854775807:ncpus=2", "ncpus"), None);
        assert_eq!(of_list("billing=8,cpu=8,node=2", "node"), Some("2"));
    }
}
