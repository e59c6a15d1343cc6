//! Tests of candidates.
