//! Code shared by the tests of several crates: [`fuzz`]. Tests of the whole repository are in `tests/it`.

pub mod fuzz;
