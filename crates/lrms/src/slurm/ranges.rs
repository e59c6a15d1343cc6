//! Numbers as Slurm writes many of them: `0-2,5,7-11:2`.

/// The numbers of such a text, at most so many; None where it is something else.
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
        let left = most.saturating_sub(found.len());
        found.extend((first..=last).step_by(step).take(left));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
