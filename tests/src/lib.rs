//! What the tests of several crates share: [`fuzz`]. Tests of the whole live in `tests/it`.

pub mod fuzz;
