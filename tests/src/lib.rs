//! Code shared by the tests of several crates: [`fuzz`], [`postgres`], [`signals`]. Tests of the whole repository are in `tests/it`.

pub mod fuzz;
pub mod postgres;
pub mod signals;
