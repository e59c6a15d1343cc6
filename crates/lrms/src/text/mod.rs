//! What several batch systems print and read alike. Nothing here runs a command or knows a batch system.
//!
//! - [`calendar`]: dates of the UTC calendar and lengths of time, as they are printed and asked for
//! - [`script`]: a job as a script that a submitting command reads
//! - [`xml`]: elements, attributes and texts, also where they are not quite well-formed

pub(crate) mod calendar;
pub(crate) mod script;
pub(crate) mod xml;
