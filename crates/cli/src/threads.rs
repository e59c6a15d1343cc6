//! How many threads a command works on.

/// As many as wanted, or one per core.
pub(crate) fn threads(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into))
}
