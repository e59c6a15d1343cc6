//! Runs of the experiments. A run of `what-if` is one workload with one method; a run of another experiment is the
//! whole experiment with one seed, and its results are the values behind the claims.

use crate::sweep::description::Sweep;
use crate::sweep::grid::{Parameter, Setting};
use crate::sweep::table::{Cell, Row};
use crate::sweep::values::Value;
use anyhow::{Context, Result, bail, ensure};
use bookahead_experiments::what_if::{Contender, Finding, Workload};
use bookahead_experiments::{Page, Progress, Scale, co_reservation, cosy, gridsim, migol, what_if};
use bookahead_workload::trace::Estimates;
use std::path::{Path, PathBuf};

pub(super) enum Experiment {
    WhatIf { workload: Box<Workload>, files: Vec<PathBuf> },
    Whole(fn(&Scale, Progress<'_>) -> Page),
}

impl Experiment {
    pub(super) fn new(sweep: &Sweep, folder: &Path) -> Result<Experiment> {
        Ok(match &*sweep.input {
            "what-if" => {
                let traces = sweep.parameters.iter().find(|parameter| parameter.name == "traces");
                let traces = traces.and_then(|parameter| parameter.values.first());
                let (workload, files) = match traces {
                    Some(traces) => {
                        let traces = folder.join(traces.to_string());
                        (Workload::find(&traces)?, Workload::files(&traces))
                    }
                    None => (Workload::draw(1)?, Vec::new()),
                };
                Experiment::WhatIf { workload: Box::new(workload), files }
            }
            "cosy" => Experiment::Whole(cosy::run),
            "gridsim" => Experiment::Whole(gridsim::run),
            "co-reservation" => Experiment::Whole(co_reservation::run),
            "migol" => Experiment::Whole(migol::run),
            other => bail!(
                "unknown experiment '{other}'; set input to what-if, cosy, gridsim, co-reservation or migol"
            ),
        })
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        match self {
            Experiment::WhatIf { files, .. } => files.clone(),
            Experiment::Whole(_) => Vec::new(),
        }
    }

    pub(super) fn check(&self, setting: &Setting<'_>) -> Result<()> {
        match self {
            Experiment::WhatIf { .. } => what_if_setting(setting).map(drop),
            Experiment::Whole(_) => scale(setting).map(drop),
        }
    }

    pub(super) fn run(&self, setting: &Setting<'_>) -> Result<Row> {
        Ok(match self {
            Experiment::WhatIf { workload, .. } => {
                let (chosen, jobs) = what_if_setting(setting)?;
                let mut workload = workload.of_seed(chosen.seed);
                if let Some(jobs) = jobs {
                    workload.jobs.truncate(jobs);
                }
                found(&what_if::run_one(&workload, &chosen))
            }
            Experiment::Whole(run) => values(&run(&scale(setting)?, &|_, _| {})),
        })
    }
}

/// The setting of a what-if workload, and how many of its jobs are used.
fn what_if_setting(setting: &Setting<'_>) -> Result<(what_if::Setting, Option<usize>)> {
    let mut jobs = None;
    let mut chosen = what_if::Setting {
        contender: Contender::WhatIf,
        book_ahead: 0,
        window: 0,
        estimates: Estimates::Requested,
        seed: 1,
    };
    for (parameter, value) in setting {
        match &*parameter.name {
            "method" => {
                let name = value.to_string();
                let known = Contender::ALL.into_iter().find(|contender| contender.word() == name);
                let words = Contender::ALL.map(Contender::word).join(", ");
                chosen.contender = known.with_context(|| format!("unknown method '{name}'; use {words}"))?;
            }
            "book-ahead" => chosen.book_ahead = hours(parameter, value)?,
            "window" => chosen.window = hours(parameter, value)?,
            "estimates" => chosen.estimates = value.to_string().parse()?,
            "seed" => chosen.seed = u64::try_from(whole(parameter, value)?)?,
            "jobs" => jobs = Some(usize::try_from(whole(parameter, value)?)?),
            "traces" => {}
            other => bail!(
                "unknown parameter {other} of what-if; use method, book-ahead, window, estimates, seed, jobs or traces"
            ),
        }
    }
    Ok((chosen, jobs))
}

/// Whole hours, as the experiment counts them: `6` or `"6h"`.
fn hours(parameter: &Parameter, value: &Value) -> Result<i64> {
    let hours = match value {
        Value::Int(hours) => *hours,
        Value::Text(text) => {
            let length = crate::times::length(text).map_err(anyhow::Error::msg)?;
            ensure!(length.0 % 3_600 == 0, "{} must be whole hours, not {text}", parameter.name);
            length.0 / 3_600
        }
        other => bail!("{} must be whole hours, not {other}", parameter.name),
    };
    ensure!((0..=10_000).contains(&hours), "{} must be 0 to 10000 hours", parameter.name);
    Ok(hours)
}

fn whole(parameter: &Parameter, value: &Value) -> Result<i64> {
    match value {
        Value::Int(number) if *number > 0 => Ok(*number),
        other => bail!("{} must be a whole number above 0, not {other}", parameter.name),
    }
}

fn scale(setting: &Setting<'_>) -> Result<Scale> {
    let mut scale = Scale { quick: false, first_seed: 1, seeds: 1, threads: 1 };
    for (parameter, value) in setting {
        match (&*parameter.name, value) {
            ("quick", Value::Flag(quick)) => scale.quick = *quick,
            ("seed", value) => scale.first_seed = u64::try_from(whole(parameter, value)?)?,
            (other, value) => bail!("unknown parameter {other} = {value}; use seed, or quick = true"),
        }
    }
    Ok(scale)
}

fn found(finding: &Finding) -> Row {
    let added: i64 = finding.added.iter().map(|(_, added)| added.0).sum();
    vec![
        Cell::float("success", finding.success),
        Cell::float("success_under_high_load", finding.success_under_high_load),
        Cell::float("makespan_change", finding.makespan_change),
        Cell::float("makespan_added", finding.makespan_added),
        Cell::int("delayed", finding.delayed),
        Cell::float("original_wait", finding.original_wait),
        Cell::float("affected_wait", finding.affected_wait),
        Cell::int("added_wait", added),
    ]
}

/// The values behind the claims of a page, by the names of claim and value.
fn values(page: &Page) -> Row {
    let mut row: Row = Vec::new();
    for claim in page.claims() {
        for (name, estimate) in &claim.measured {
            let claim = claim.id.rsplit('/').next().unwrap_or(claim.id);
            let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
            let name: String = format!("{claim} {name}").chars().map(letter).collect();
            if !row.iter().any(|cell| *cell.name == *name) {
                row.push(Cell::float(name, estimate.mean));
            }
        }
    }
    row
}
