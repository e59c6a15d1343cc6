//! Numbers as people read them: thousands apart, lengths of time in days, hours, minutes. Programs get plain
//! numbers from `--json` instead.

/// `243306` as `243,306`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds as their two largest units: `45s`, `3m 20s`, `1h 54m`, `4d 2h`.
pub(crate) fn length(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    let (days, hours, minutes, rest) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60, whole % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m {rest:02}s"),
        (0, _, _) => format!("{hours}h {minutes:02}m"),
        _ => format!("{days}d {hours:02}h"),
    }
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// `1 job`, `2 jobs`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([count(0), count(999), count(1_000), count(243_306)], ["0", "999", "1,000", "243,306"]);
        assert_eq!(
            [length(0.4), length(59.6), length(6_837.485), length(353_949.9)],
            ["0s", "1m 00s", "1h 53m", "4d 02h"]
        );
        assert_eq!([plural(1, "job"), plural(2_000, "job")], ["1 job", "2,000 jobs"]);
    }
}
