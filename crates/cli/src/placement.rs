//! Placement of reservation requests: the options shared by `simulate` and `whatif`.

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
    /// How to rate slots [default: what-if; simulate uses the earliest fit if no placement option is given]
    #[arg(long, short, value_parser = method_name(), help_heading = "Placement")]
    method: Option<MethodName>,

    /// Which slot to choose
    #[arg(long, value_enum, default_value_t = PreferenceName::Availability, help_heading = "Placement")]
    prefer: PreferenceName,

    /// Weight of the makespan against the mean completion time, 0 to 1 (what-if only)
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, help_heading = "Placement")]
    makespan_weight: f64,

    /// Maximum number of slots spread over the window; as many again are tried at the starts and ends of other work
    #[arg(long, value_name = "N", default_value_t = SlotRules::default().most, help_heading = "Placement")]
    slots: usize,

    /// Minimum time between two slots
    #[arg(long, value_name = "LENGTH", default_value = "15m", value_parser = length, help_heading = "Placement")]
    gap: Seconds,

    /// Reject slots that delay more than N waiting jobs; 0 protects all local jobs
    #[arg(long, value_name = "N", help_heading = "Placement")]
    max_delayed: Option<u32>,

    /// Reject slots that delay any waiting job by more than this
    #[arg(long, value_name = "LENGTH", value_parser = length, help_heading = "Placement")]
    max_delay: Option<Seconds>,
}

/// A parser that lists all methods in the help.
fn method_name() -> impl TypedValueParser<Value = MethodName> {
    let all = MethodName::ALL.map(|method| PossibleValue::new(method.word()).help(method.about()));
    let named = |name: String| MethodName::ALL.into_iter().find(|method| method.word() == name);
    // The default is never used: clap accepts only the names of the list.
    PossibleValuesParser::new(all).map(move |name| named(name).unwrap_or_default())
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PreferenceName {
    /// Best rating
    Availability,
    /// Earliest start
    Earliest,
    /// Smallest total delay of waiting jobs
    Impact,
}

/// The options that give requests, as a group of the command line; a notice applies to them.
pub(crate) const REQUESTS: &str = "requests";

/// Required notice time of reservations.
#[derive(Args)]
pub(crate) struct NoticeArguments {
    /// Require a notice of FACTOR times the wait predicted for a job of the same size; with 1, reserving gives no
    /// earlier start than queueing
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true, requires = REQUESTS, help_heading = "Placement")]
    notice: Option<f64>,

    /// How to predict the wait
    #[arg(long, value_enum, default_value_t = PredictorName::Mean, requires = "notice", help_heading = "Placement")]
    notice_by: PredictorName,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PredictorName {
    /// Mean wait of recent jobs
    Mean,
    /// Bound that 95% of jobs of this size and duration do not exceed, with 95% confidence
    Quantile,
}

impl NoticeArguments {
    /// The notice rule. Without `--notice` its factor is 0: no notice is required.
    pub(crate) fn rule(&self) -> Result<NoticeRule> {
        let factor = self.notice.unwrap_or(0.0);
        // Also refuses NaN, which the conversion below would turn into 0: no notice at all.
        ensure!((0.0..=1_000.0).contains(&factor), "--notice {factor} is not between 0 and 1000");
        let predictor = match self.notice_by {
            PredictorName::Mean => Predictor::Mean,
            PredictorName::Quantile => Predictor::Quantile(QuantileBound::USUAL),
        };
        // The rule counts in whole percent: a factor below 0.005 requires no notice.
        Ok(NoticeRule { predictor, percent: (factor * 100.0).round() as u32 })
    }
}

impl PlacementArguments {
    /// Whether an option was given that turns on rated placement in `simulate`.
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
