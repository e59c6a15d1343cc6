//! Tests of the whole live in `tests/it`; this crate has no code of its own.
