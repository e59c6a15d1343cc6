//! `bookahead workload generate`: a trace from a model.

use crate::talk::say;
use crate::times::length;
use anyhow::{Result, bail};
use bookahead_plan::{Capacity, Seconds};
use bookahead_workload::models::{
    Cirne, Lublin, LublinParameters, Poisson, RequestModel, Setting, header, records,
};
use bookahead_workload::{Job, swf};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Which model draws the jobs
    #[arg(long, short, value_enum, default_value_t = Model::Lublin)]
    model: Model,

    /// How many jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000)]
    jobs: usize,

    /// Size of the machine in processors
    #[arg(long, short, value_name = "N", default_value_t = 256)]
    processors: u32,

    /// The same seed gives the same jobs
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// Work brought as a share of the machine, such as 0.7; by default what the model gives
    #[arg(long, value_name = "SHARE")]
    load: Option<f64>,

    /// Requested times: exact, factor:F (F times the run time), or popular (overestimated and rounded as people
    /// do); the cirne model draws its own
    #[arg(long, value_name = "MODEL")]
    requests: Option<RequestModel>,

    /// Mean time between submissions (poisson, cirne) [default: 5m for poisson, 10m for cirne]
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    gap: Option<Seconds>,

    /// Shortest and longest run time, drawn uniformly (poisson)
    #[arg(long, value_names = ["SHORTEST", "LONGEST"], num_args = 2, value_parser = length)]
    run: Option<Vec<Seconds>>,

    /// Smallest and largest size, drawn uniformly (poisson)
    #[arg(long, value_names = ["SMALLEST", "LARGEST"], num_args = 2)]
    size: Option<Vec<u32>>,

    /// Where to write the trace: SWF, gzip where it ends in .gz; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
    /// Poisson arrivals, uniform sizes and run times
    Poisson,
    /// Lublin and Feitelson 2003: daily cycle, sizes near powers of two, run times that depend on size
    Lublin,
    /// The same with the parameters published for batch jobs alone
    LublinBatch,
    /// In the style of Cirne and Berman 2001: requested times and how well they are met
    Cirne,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let setting = Setting {
        jobs: arguments.jobs,
        processors: Capacity(arguments.processors),
        load: arguments.load,
        seed: arguments.seed,
    };
    let jobs = jobs(arguments, setting)?;
    let name = arguments.model.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    swf::write_file(&arguments.output, &header(&name, &setting), &records(&jobs))?;
    if arguments.output.as_os_str() != "-" {
        say!("wrote {}", arguments.output.display());
    }
    Ok(())
}

fn jobs(arguments: &Arguments, setting: Setting) -> Result<Vec<Job>> {
    refuse_foreign_options(arguments)?;
    let gap = arguments.gap.map(|gap| gap.0 as f64);
    let lublin = |parameters| {
        let requests = arguments.requests.unwrap_or(Lublin::default().requests);
        Lublin { setting, parameters, requests }.generate()
    };
    Ok(match arguments.model {
        Model::Lublin => lublin(LublinParameters::ALL)?,
        Model::LublinBatch => lublin(LublinParameters::BATCH)?,
        Model::Cirne => {
            let usual = Cirne::default();
            Cirne { setting, mean_gap: gap.unwrap_or(usual.mean_gap), ..usual }.generate()?
        }
        Model::Poisson => {
            let usual = Poisson::default();
            let largest = usual.processors.1.min(arguments.processors);
            Poisson {
                setting,
                mean_gap: gap.unwrap_or(usual.mean_gap),
                processors: arguments.size.as_deref().map_or((usual.processors.0, largest), |s| (s[0], s[1])),
                run: arguments.run.as_deref().map_or(usual.run, |run| (run[0].0, run[1].0)),
                requests: arguments.requests.unwrap_or(usual.requests),
            }
            .generate()?
        }
    })
}

/// An option that a model does not know must not be ignored in silence.
fn refuse_foreign_options(arguments: &Arguments) -> Result<()> {
    let given = [
        ("--gap", arguments.gap.is_some(), &[Model::Poisson, Model::Cirne][..]),
        ("--run", arguments.run.is_some(), &[Model::Poisson]),
        ("--size", arguments.size.is_some(), &[Model::Poisson]),
        ("--requests", arguments.requests.is_some(), &[Model::Poisson, Model::Lublin, Model::LublinBatch]),
    ];
    for (option, is_given, models) in given {
        if is_given && !models.contains(&arguments.model) {
            bail!("{option} means nothing to this model; leave it out or choose another --model");
        }
    }
    Ok(())
}
