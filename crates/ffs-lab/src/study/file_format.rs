//! The lines of a results file.
//!
//! The first line holds the plan, each other line a finished job. A line is a JSON object. Its
//! first member is a checksum of the rest of the line; the line of a job also holds the checksum of
//! its plan. So a damaged line is detected, and each line of a damaged file can be assigned to its
//! plan.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::checksum::checksum;
use super::plan::{Job, Plan};
use super::results::JobResult;
use crate::error::{LabError, Result};

/// Version of the format.
const VERSION: u32 = 1;
/// The start of every line, before the checksum.
const BEGIN: &str = "{\"crc\":\"";
/// Offset of the text that the checksum covers: after 8 digits, a quote and a comma.
const COVERED: usize = BEGIN.len() + 10;

/// A line without the newline; `rest` is the content of the object after the checksum.
fn sealed(rest: &str) -> String {
    let rest = format!("{rest}}}");
    format!("{BEGIN}{}\",{rest}", checksum(rest.as_bytes()))
}

fn as_json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| LabError::Plan(error.to_string()))
}

/// The first line of a file.
pub(super) fn header(plan: &Plan) -> Result<String> {
    Ok(sealed(&format!("\"ffs-lab\":{VERSION},\"plan\":{}", as_json(plan)?)))
}

/// The line of a job.
pub(super) fn job(tag: &str, result: &JobResult) -> Result<String> {
    Ok(sealed(&format!("\"of\":\"{tag}\",\"job\":{}", as_json(result)?)))
}

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "ffs-lab")]
    version: u32,
    plan: serde_json::Value,
}

#[derive(Deserialize)]
struct Line {
    of: String,
    job: JobResult,
}

/// The content of a results file.
#[derive(Debug, Default)]
pub(super) struct ParsedFile {
    /// The plan of the first line, if that is intact.
    pub plan: Option<Plan>,
    /// Intact jobs in the order of the file: the checksum of the plan, the result, the line.
    pub jobs: Vec<(String, JobResult, String)>,
    /// Numbers of the damaged lines, from 1.
    pub damaged: Vec<usize>,
    /// Whether the last line is incomplete.
    pub(crate) is_truncated: bool,
}

/// Reads the intact lines of a results file.
///
/// # Errors
/// The bytes are not a results file, or one of another version of the program.
pub(super) fn parse(bytes: &[u8]) -> std::result::Result<ParsedFile, String> {
    let mut found = ParsedFile::default();
    let mut recognised = false;
    for (at, piece) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let begun = piece.len().min(BEGIN.len());
        recognised |= piece[..begun] == BEGIN.as_bytes()[..begun];
        let Some(line) = piece.strip_suffix(b"\n") else {
            found.is_truncated = true;
            continue;
        };
        match whole(line) {
            Some(line) if at == 0 && line.contains("\"ffs-lab\":") => {
                found.plan = Some(plan(line)?)
            }
            Some(line) => match serde_json::from_str::<Line>(line) {
                Ok(Line { of, job }) => found.jobs.push((of, job, line.to_owned())),
                Err(error) => return Err(format!("line {}: {error}; {OTHER}", at + 1)),
            },
            None => found.damaged.push(at + 1),
        }
    }
    if !recognised && !bytes.is_empty() {
        return Err("is not a results file of ffs lab".to_owned());
    }
    Ok(found)
}

const OTHER: &str = "it was written by another version of ffs";

/// A line as text, if its checksum is right.
fn whole(line: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(line).ok()?;
    let rest = text.get(COVERED..)?;
    (text.get(BEGIN.len()..BEGIN.len() + 8)? == checksum(rest.as_bytes())).then_some(text)
}

fn plan(line: &str) -> std::result::Result<Plan, String> {
    let header: Header = serde_json::from_str(line).map_err(|error| format!("{error}; {OTHER}"))?;
    if header.version != VERSION {
        return Err(format!("has version {}, not {VERSION}: {OTHER}", header.version));
    }
    serde_json::from_value(header.plan).map_err(|error| format!("its plan: {error}; {OTHER}"))
}

/// The finished jobs of a plan, in its order.
#[derive(Debug, Default)]
pub(super) struct FinishedJobs(BTreeMap<Job, (JobResult, String)>);

impl FinishedJobs {
    /// Adds a job; `false` if it is not one of the plan.
    ///
    /// # Errors
    /// There is a different result of the same job.
    pub(super) fn add(&mut self, plan: &Plan, result: JobResult, line: String) -> Result<bool> {
        let item = plan.workloads.iter().position(|item| item.workload == result.workload);
        let Some(item) = item else { return Ok(false) };
        let (combination, replicate) = (result.combination, result.replicate);
        let job = Job { item, combination, replicate };
        let known = plan.combinations().binary_search(&combination).is_ok();
        if !known || replicate >= plan.replicates {
            return Ok(false);
        }
        match self.0.get(&job) {
            Some((_, before)) if *before != line => Err(LabError::Plan(format!(
                "there are two different results of {}. They are from two studies, or the \
                 results of the target vary. Merge without one of them",
                plan.job_name(&job)
            ))),
            _ => {
                self.0.insert(job, (result, line));
                Ok(true)
            }
        }
    }

    pub(super) fn has(&self, job: &Job) -> bool {
        self.0.contains_key(job)
    }

    /// The last job in the order of the plan.
    pub(super) fn last(&self) -> Option<Job> {
        self.0.last_key_value().map(|(job, _)| *job)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The lines in the order of the plan.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|(_, line)| line.as_str())
    }

    /// The results in the order of the plan.
    pub(super) fn results(&self) -> impl Iterator<Item = &JobResult> {
        self.0.values().map(|(result, _)| result)
    }

    /// The jobs of the plan that are not finished.
    pub(super) fn missing(&self, plan: &Plan) -> Vec<Job> {
        plan.jobs().into_iter().filter(|job| !self.has(job)).collect()
    }
}
