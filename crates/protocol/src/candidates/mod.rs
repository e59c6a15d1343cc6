//! The search for co-reservation candidates.
