//! What the commands of a batch system took, read from whoever runs them at the moment of the question.

use bookahead_lrms::command::{ProgramUsage, Runner};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;

/// The commands of a batch system.
#[derive(Debug)]
pub(super) struct Commands(pub(super) Runner);

impl Collector for Commands {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let usage = self.0.usage();
        let mut family = |name, help, unit: Option<&Unit>, value: fn(&ProgramUsage) -> f64| {
            let mut encoder = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            for (program, used) in &usage.programs {
                let labels = [("program", program.as_str())];
                ConstCounter::new(value(used)).encode(encoder.encode_family(&labels)?)?;
            }
            Ok(())
        };
        let seconds = Some(&Unit::Seconds);
        let help = "How long commands of the batch system took";
        family("batch_commands_duration", help, seconds, |used| used.spent.as_secs_f64())?;
        family("batch_commands", "Commands of the batch system that were run", None, |used| {
            used.runs as f64
        })?;
        let help = "Commands of the batch system that failed, whatever the reason";
        family("batch_commands_failed", help, None, |used| used.failures as f64)?;
        let help = "Commands of the batch system that took too long";
        family("batch_commands_timed_out", help, None, |used| used.time_outs as f64)?;
        let silent = self.0.silent_since().map_or(0.0, |since| since.elapsed().as_secs_f64());
        let help = "For how long the batch system has not answered; 0 where it answers";
        let gauge = encoder.encode_descriptor("batch_silent", help, seconds, MetricType::Gauge)?;
        ConstGauge::new(silent).encode(gauge)
    }
}
