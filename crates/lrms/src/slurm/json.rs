//! Jobs from `squeue --json`, in all its versions: plain values in 22.05
//! (`"job_state":"RUNNING","start_time":1794701734`), and from 23.02 on
//! `"job_state":["RUNNING"],"start_time":{"set":true,"infinite":false,"number":1794701734}`, as described for
//! `data_parser/v0.0.43` in SchedMD's "Slurm REST API" (schema of `v0.0.43_job_info`). A missing field, or one of
//! another type, counts as unknown: a field with a new format must not hide the whole queue.

use crate::dialect::json;
use crate::error::LrmsError;
use serde_json::Value;
use std::collections::BTreeMap;

/// Slurm's numbers for "not set" and "infinite" in 22.05.
const NOT_NUMBERS: [i64; 2] = [0xffff_fffe, 0xffff_ffff];

#[derive(Debug, serde::Deserialize)]
struct Queue {
    #[serde(default)]
    jobs: Option<Vec<SlurmJob>>,
}

#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct SlurmJob {
    pub(super) job_id: Number,
    pub(super) array_job_id: Number,
    pub(super) array_task_id: Number,
    pub(super) array_task_string: Words,
    pub(super) name: Words,
    pub(super) user_name: Words,
    pub(super) partition: Words,
    pub(super) job_state: Words,
    pub(super) state_reason: Words,
    pub(super) state_description: Words,
    pub(super) priority: Number,
    pub(super) hold: Yes,
    pub(super) cpus: Number,
    pub(super) tasks: Number,
    pub(super) tasks_per_core: Number,
    pub(super) threads_per_core: Number,
    pub(super) node_count: Number,
    pub(super) nodes: Words,
    pub(super) shared: Words,
    pub(super) time_limit: Number,
    pub(super) submit_time: Number,
    pub(super) eligible_time: Number,
    pub(super) start_time: Number,
    pub(super) end_time: Number,
    pub(super) exit_code: Exit,
    pub(super) resv_name: Words,
    pub(super) licenses: Words,
    pub(super) comment: Words,
    pub(super) restart_cnt: Number,
    pub(super) dependency: Words,
    #[serde(rename = "job_resources")]
    pub(super) placed: Placed,
}

/// A number; None if it is not set or infinite.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "Value")]
pub(super) struct Number(pub(super) Option<i64>);

/// One or several words; empty if it is not text.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "Value")]
pub(super) struct Words(pub(super) Vec<String>);

/// True only if it is literally `true`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "Value")]
pub(super) struct Yes(pub(super) bool);

/// Exit code of a job in the convention of shells: 128 plus the number of a signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "Value")]
pub(super) struct Exit(pub(super) i32);

/// Cores of a job on each node.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "Value")]
pub(super) struct Placed(pub(super) BTreeMap<String, u32>);

/// The jobs, and the number of unreadable ones.
pub(super) fn read(printed: &str) -> Result<(Vec<SlurmJob>, usize), LrmsError> {
    let unreadable = |why| LrmsError::Unreadable { command: "squeue --json".into(), why };
    // Warnings may precede it.
    let begin = printed.find('{').ok_or_else(|| unreadable("it is not JSON".into()))?;
    let text = printed.get(begin..).unwrap_or_default();
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Queue>();
    let document = documents.next().ok_or_else(|| unreadable("it is not JSON".into()))?;
    let behind = text.get(documents.byte_offset()..).unwrap_or_default();
    let why = match document {
        // A damaged job can seem to end the document early, with other jobs behind it.
        Ok(Queue { jobs: Some(jobs) }) if !behind.contains('{') => return Ok(numbered(jobs, 0)),
        Ok(Queue { jobs: None }) => return Err(unreadable("it has no list of jobs".into())),
        Ok(_) => "it ends too early".into(),
        Err(why) => why.to_string(),
    };
    let (objects, odd) = json::objects(text, "jobs").ok_or_else(|| unreadable(why))?;
    // This never fails, as each field accepts any value; so no job is dropped without being counted.
    let jobs = objects.into_iter().filter_map(|job| serde_json::from_value(job.into()).ok());
    Ok(numbered(jobs.collect(), odd))
}

/// Drops jobs without an id and counts them.
fn numbered(mut jobs: Vec<SlurmJob>, odd: usize) -> (Vec<SlurmJob>, usize) {
    let all = jobs.len();
    jobs.retain(|job| job.job_id.0.is_some());
    let odd = odd + all - jobs.len();
    (jobs, odd)
}

impl From<Value> for Words {
    fn from(value: Value) -> Words {
        match value {
            Value::String(word) => Words(vec![word]),
            Value::Array(values) => {
                Words(values.into_iter().flat_map(|value| Words::from(value).0).collect())
            }
            _ => Words::default(),
        }
    }
}

impl Words {
    /// The first word.
    pub(super) fn text(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// Whether it contains a word, in any case.
    pub(super) fn has(&self, word: &str) -> bool {
        self.0.iter().any(|one| one.eq_ignore_ascii_case(word))
    }
}

impl From<Value> for Exit {
    fn from(value: Value) -> Exit {
        if let Some(status) = value.as_i64() {
            return Exit::of_status(status);
        }
        let number = |value: &Value| value["number"].as_i64().filter(|_| value["set"] != false).unwrap_or(0);
        Exit::of_code_and_signal(number(&value["return_code"]), number(&value["signal"]["id"]))
    }
}

impl Exit {
    /// From a status of wait(2).
    fn of_status(status: i64) -> Exit {
        let signal = status & 0x7f;
        let code = if signal == 0 { status >> 8 & 0xff } else { 128 + signal };
        Exit(i32::try_from(code).unwrap_or(i32::MAX))
    }

    pub(super) fn of_code_and_signal(code: i64, signal: i64) -> Exit {
        let code = if signal > 0 { signal.saturating_add(128) } else { code };
        Exit(i32::try_from(code).unwrap_or(i32::MAX))
    }
}

impl From<Value> for Number {
    fn from(value: Value) -> Number {
        let number = value.as_i64().filter(|number| !NOT_NUMBERS.contains(number));
        // `{"set":…,"infinite":…,"number":…}`
        let is_set = value["set"] != false && value["infinite"] != true;
        Number(number.or_else(|| value["number"].as_i64().filter(|_| is_set)))
    }
}

impl From<Value> for Yes {
    fn from(value: Value) -> Yes {
        Yes(value == true)
    }
}

impl From<Value> for Placed {
    fn from(value: Value) -> Placed {
        let nodes = value["allocated_nodes"].as_array().or_else(|| value["nodes"]["allocation"].as_array());
        let placed = nodes.into_iter().flatten().filter_map(|node| {
            let name = node["nodename"].as_str().or_else(|| node["name"].as_str())?;
            Some((name.to_owned(), allocated(&node["sockets"]))).filter(|(_, cores)| *cores > 0)
        });
        Placed(placed.collect())
    }
}

/// Counts the allocated cores: `{"0":{"cores":{"6":"allocated"}}}` in 22.05,
/// `[{"index":0,"cores":[{"index":6,"status":["ALLOCATED"]}]}]` later.
fn allocated(value: &Value) -> u32 {
    match value {
        Value::String(word) => u32::from(word.eq_ignore_ascii_case("allocated")),
        Value::Array(values) => values.iter().fold(0, |sum, one| sum.saturating_add(allocated(one))),
        Value::Object(values) => values.values().fold(0, |sum, one| sum.saturating_add(allocated(one))),
        _ => 0,
    }
}
