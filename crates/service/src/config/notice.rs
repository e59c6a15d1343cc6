//! Configuration of the shortest notice of a resource: a length of time, or a rule that predicts the wait in the queue.

use super::error::Wrong;
use bookahead_api::Length;
use bookahead_plan::notice::{NoticeRule, Predictor, QuantileBound};
use bookahead_protocol::ledger::ResourceNotice;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;

/// The largest factor. A hundred times the wait in the queue is a mistake, and forbids reservations without saying so.
const LARGEST_FACTOR: f64 = 100.0;

/// The shortest notice of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum NoticeConfig {
    /// The same for all requests.
    Fixed(Length),
    /// By the predicted wait of the request as a job.
    Predicted(Predicted),
}

/// How the wait of a request is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predicted {
    /// Mean of all jobs, or a quantile of similar ones.
    pub predicted: PredictorName,
    /// The notice is the predicted wait times this.
    #[serde(default = "one")]
    pub factor: f64,
    /// Share of similar jobs, in per cent, that did not wait longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantile: Option<u32>,
    /// Confidence of this bound, in per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<u32>,
}

/// The predictors, by the names in configuration files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorName {
    /// Mean wait of all jobs.
    Mean,
    /// Upper bound of a quantile of the waits of similar jobs.
    Quantile,
}

fn one() -> f64 {
    1.0
}

impl<'de> Deserialize<'de> for NoticeConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<NoticeConfig, D::Error> {
        struct LengthOrTable;
        impl<'de> de::Visitor<'de> for LengthOrTable {
            type Value = NoticeConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time such as \"1h\", or a rule such as { predicted = \"mean\" }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<NoticeConfig, E> {
                text.parse().map(NoticeConfig::Fixed).map_err(E::custom)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, table: A) -> Result<NoticeConfig, A::Error> {
                Predicted::deserialize(de::value::MapAccessDeserializer::new(table))
                    .map(NoticeConfig::Predicted)
            }
        }
        // An untagged enum would replace the error of a field by "data did not match any variant".
        from.deserialize_any(LengthOrTable)
    }
}

impl NoticeConfig {
    /// Converts to the rule of the ledger.
    pub fn rule(&self) -> Result<ResourceNotice, Wrong> {
        Ok(match self {
            NoticeConfig::Fixed(length) => ResourceNotice::Fixed(length.seconds()),
            NoticeConfig::Predicted(predicted) => ResourceNotice::Predicted(predicted.rule()?),
        })
    }
}

impl Predicted {
    fn rule(&self) -> Result<NoticeRule, Wrong> {
        // In this form the test also refuses NaN, which TOML can express.
        if !(self.factor > 0.0 && self.factor <= LARGEST_FACTOR) {
            let why = format!("factor must be above 0 and at most {LARGEST_FACTOR}, not {}", self.factor);
            return Err(Wrong::new("factor", why));
        }
        let predictor = match self.predicted {
            PredictorName::Quantile => {
                let bound = QuantileBound::new(self.quantile.unwrap_or(95), self.confidence.unwrap_or(95));
                let why = "quantile and confidence must be from 1 to 99 per cent";
                Predictor::Quantile(bound.ok_or_else(|| Wrong::new("quantile", why))?)
            }
            PredictorName::Mean if self.quantile.or(self.confidence).is_some() => {
                let why = "quantile and confidence are for predicted = \"quantile\"; remove them";
                return Err(Wrong::new("predicted", why));
            }
            PredictorName::Mean => Predictor::Mean,
        };
        Ok(NoticeRule { predictor, percent: (self.factor * 100.0).round() as u32 })
    }
}
