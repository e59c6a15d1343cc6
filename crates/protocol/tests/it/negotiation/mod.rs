//! Tests of negotiation.
