//! Versions of Slurm: the year and the month of a release, such as 22.05.

/// The first version that takes no lists as `CoreCnt`: "Using a comma separated array for CoreCnt is no longer valid."
pub(super) const NO_CORE_LISTS: (u32, u32) = (23, 11);

/// The version in what `scontrol --version` says: `slurm 25.05.8`, on Debian `slurm-wlm 22.05.8`.
pub(super) fn read(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.split_whitespace().nth(1)?.split('.');
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_debian_and_others_write_them() {
        assert_eq!(read("slurm-wlm 22.05.8\n"), Some((22, 5)));
        assert_eq!(read("slurm 25.05.8"), Some((25, 5)));
        assert_eq!(read("slurm 23.11.0-0rc1"), Some((23, 11)));
        for odd in ["", "slurm", "slurm x.y", "slurm 22"] {
            assert_eq!(read(odd), None, "{odd:?}");
        }
    }
}
