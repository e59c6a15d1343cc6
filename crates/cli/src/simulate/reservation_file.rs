//! What became of every reservation request, as CSV: the request as it was made, and when it was granted.

use anyhow::Result;
use bookahead_sim::Granted;
use bookahead_workload::files::{self, Packing};
use bookahead_workload::requests::{COLUMNS, Request};
use std::path::Path;

pub(crate) fn write(path: &Path, requests: &[Request], granted: &[Granted]) -> Result<()> {
    files::write(path, Packing::of_name(path), |out| {
        writeln!(out, "{COLUMNS},start,end")?;
        for (request, start) in requests.iter().zip(granted) {
            let Request { number, submit, earliest_start, latest_end, duration, processors } = request;
            write!(out, "{number},{submit},{earliest_start},{latest_end},{duration},{processors},")?;
            match start {
                Some(start) => writeln!(out, "{start},{}", *start + *duration)?,
                None => writeln!(out, ",")?,
            }
        }
        Ok(())
    })?;
    Ok(())
}
