//! Workload models: jobs drawn from a seed instead of read from a log. All share a [`Setting`] (number of
//! jobs, machine, load, seed); the same setting gives the same jobs on every machine. No model reads a log or
//! knows a scheduler.

mod calibrated;
mod cirne;
mod lublin;
mod poisson;
mod setting;
mod tables;

pub use calibrated::Calibrated;
pub use cirne::Cirne;
pub use lublin::{Lublin, LublinParameters};
pub use poisson::Poisson;
pub use setting::{ModelError, POPULAR_MINUTES, RequestModel, RequestModelError, Setting, header, records};
pub use tables::{Band, Class, PERIOD, QUANTILES, Tables};
