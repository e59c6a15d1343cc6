//! How long a hold should last.
