//! House rules and documents, one binary.
