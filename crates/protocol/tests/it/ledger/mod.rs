//! Tests of ledger.
