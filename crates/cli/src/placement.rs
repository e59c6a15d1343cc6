//! How requests for reservations are placed: the options that `simulate` and `whatif` have in common.

use crate::times::length;
use anyhow::{Context, Result, ensure};
use bookahead_plan::notice::{NoticeRule, Predictor, QuantileBound};
use bookahead_plan::placement::{Admission, Preference, Rules, SlotRules, Weights};
use bookahead_plan::{Policy, Seconds};
use bookahead_service::config::MethodName;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

#[derive(Args)]
pub(crate) struct PlacementArguments {
    /// How slots are rated [default: what-if; simulate takes the earliest fit unless told how]
    #[arg(long, short, value_parser = method_name(), help_heading = "Placement")]
    method: Option<MethodName>,

    /// Which slot is the best
    #[arg(long, value_enum, default_value_t = PreferenceName::Availability, help_heading = "Placement")]
    prefer: PreferenceName,

    /// How much the makespan counts beside the mean completion time, 0 to 1 (what-if)
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, help_heading = "Placement")]
    makespan_weight: f64,

    /// Slots spread over the window at most; as many again where something ends or begins
    #[arg(long, value_name = "N", default_value_t = SlotRules::default().most, help_heading = "Placement")]
    slots: usize,

    /// Time between two of them at least
    #[arg(long, value_name = "LENGTH", default_value = "15m", value_parser = length, help_heading = "Placement")]
    gap: Seconds,

    /// Refuse slots that delay more waiting jobs than this; 0 prefers local jobs
    #[arg(long, value_name = "N", help_heading = "Placement")]
    max_delayed: Option<u32>,

    /// Refuse slots that delay a waiting job by more than this
    #[arg(long, value_name = "LENGTH", value_parser = length, help_heading = "Placement")]
    max_delay: Option<Seconds>,
}

/// Reads the name of a method, and lists them all in the help.
fn method_name() -> impl TypedValueParser<Value = MethodName> {
    let all = MethodName::ALL.map(|method| PossibleValue::new(method.word()).help(method.about()));
    let named = |name: String| MethodName::ALL.into_iter().find(|method| method.word() == name);
    PossibleValuesParser::new(all).map(move |name| named(name).unwrap_or_default())
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PreferenceName {
    /// The best rated
    Availability,
    /// The earliest
    Earliest,
    /// The one that delays waiting jobs the least in all
    Impact,
}

/// How much notice a reservation must be given.
#[derive(Args)]
pub(crate) struct NoticeArguments {
    /// Ask for so many times the wait that a request would have as a job, predicted from history; 1 gives nobody an earlier
    /// start for reserving
    #[arg(
        long,
        value_name = "FACTOR",
        allow_negative_numbers = true,
        requires = "reservations",
        help_heading = "Placement"
    )]
    notice: Option<f64>,

    /// How the wait is predicted
    #[arg(long, value_enum, default_value_t = PredictorName::Mean, requires = "notice", help_heading = "Placement")]
    notice_by: PredictorName,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PredictorName {
    /// The mean wait of recent jobs
    Mean,
    /// What 95% of jobs of this size and duration do not exceed, with 95% confidence
    Quantile,
}

impl NoticeArguments {
    /// The rule; without one no notice is asked for.
    pub(crate) fn rule(&self) -> Result<NoticeRule> {
        let factor = self.notice.unwrap_or(0.0);
        ensure!((0.0..=1_000.0).contains(&factor), "--notice {factor} is not between 0 and 1000");
        let predictor = match self.notice_by {
            PredictorName::Mean => Predictor::Mean,
            PredictorName::Quantile => Predictor::Quantile(QuantileBound::USUAL),
        };
        Ok(NoticeRule { predictor, percent: (factor * 100.0).round() as u32 })
    }
}

impl PlacementArguments {
    /// Whether anything is said about how to place.
    pub(crate) fn is_given(&self) -> bool {
        self.method.is_some() || self.max_delayed.is_some() || self.max_delay.is_some()
    }

    pub(crate) fn rules(&self, policy: Policy) -> Result<Rules> {
        let weights = Weights::new(self.makespan_weight)
            .with_context(|| format!("--makespan-weight {} is not between 0 and 1", self.makespan_weight))?;
        let method = self.method.unwrap_or_default().method(weights);
        let admission =
            Admission { delayed_jobs: self.max_delayed, total_delay: None, longest_delay: self.max_delay };
        let slots = SlotRules { most: self.slots, gap: self.gap, natural: true };
        Ok(Rules { policy, method, slots, admission })
    }

    pub(crate) fn preference(&self) -> Preference {
        match self.prefer {
            PreferenceName::Availability => Preference::BestAvailability,
            PreferenceName::Earliest => Preference::Earliest,
            PreferenceName::Impact => Preference::LeastImpact,
        }
    }
}
