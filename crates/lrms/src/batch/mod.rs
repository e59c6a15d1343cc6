//! Batch systems that are driven by their commands.
//!
//! - [`system`]: what each of them is asked and told

pub mod system;

pub use system::{
    BatchSystem, FactState, Finding, Grade, Handle, JobFact, Node, Picture, Place, Reserved, Submission,
    Traits, Unit, Wanted,
};
