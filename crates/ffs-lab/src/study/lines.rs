//! The lines of a results file.
//!
//! The first line holds the plan, each other a finished job. Every line is a JSON object that begins
//! with a checksum of the rest of the line, and a job's names its plan: a damaged line is known, and
//! what is left of a file can still be told to belong to a plan.

use std::collections::BTreeMap;

use ffs_ondisk::hash::check_hash_parts;
use serde::Deserialize;

use super::plan::{Job, Plan};
use super::results::JobResult;
use crate::error::{LabError, Result};

/// Version of the format.
const VERSION: u32 = 1;
/// How every line begins, before the checksum.
const BEGIN: &str = "{\"crc\":\"";
/// Where the part that the checksum covers begins: checksum of 8 digits, quote, comma.
const COVERED: usize = BEGIN.len() + 10;

/// Eight hexadecimal digits that change with any damage.
pub(super) fn checksum(bytes: &[u8]) -> String {
    format!("{:08x}", check_hash_parts(&[bytes]))
}

/// A line without its end: `rest` is an object's inside.
fn sealed(rest: &str) -> String {
    let rest = format!("{rest}}}");
    format!("{BEGIN}{}\",{rest}", checksum(rest.as_bytes()))
}

fn as_json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| LabError::Plan(error.to_string()))
}

/// The first line.
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

/// What could be read of a results file.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The plan of its header, if that is whole.
    pub plan: Option<Plan>,
    /// Jobs that are whole, as they stand in the file: tag of the plan, result, line.
    pub jobs: Vec<(String, JobResult, String)>,
    /// Numbers of damaged lines, from 1.
    pub damaged: Vec<usize>,
    /// The last line was begun and not finished.
    pub half: bool,
}

/// Reads what is whole of a results file.
///
/// # Errors
/// If it is none, or of another version of the program.
pub(super) fn parse(bytes: &[u8]) -> std::result::Result<Found, String> {
    let mut found = Found::default();
    let mut recognised = false;
    for (at, piece) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let begun = piece.len().min(BEGIN.len());
        recognised |= piece[..begun] == BEGIN.as_bytes()[..begun];
        let Some(line) = piece.strip_suffix(b"\n") else {
            found.half = true;
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

/// A line as text if it is as it was written.
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

/// The jobs of a plan, by their place in it.
#[derive(Debug, Default)]
pub(super) struct Finished(BTreeMap<Job, (JobResult, String)>);

impl Finished {
    /// Adds a job; false if it is not one of the plan.
    ///
    /// # Errors
    /// If there is another result of the same job.
    pub(super) fn add(&mut self, plan: &Plan, result: JobResult, line: String) -> Result<bool> {
        let item = plan.workloads.iter().position(|item| item.workload == result.workload);
        let Some(item) = item else { return Ok(false) };
        let (combination, replicate) = (result.combination, result.replicate);
        let job = Job { item, combination, replicate };
        if combination >= plan.combinations() || replicate >= plan.replicates {
            return Ok(false);
        }
        match self.0.get(&job) {
            Some((_, before)) if *before != line => Err(LabError::Plan(format!(
                "there are two results of {} that differ: they are of different studies, or of a target \
                 that does not repeat itself; leave one of them out",
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

    /// The last in the order of the plan.
    pub(super) fn last(&self) -> Option<Job> {
        self.0.last_key_value().map(|(job, _)| *job)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Lines in the order of the plan.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|(_, line)| line.as_str())
    }

    /// Results in the order of the plan.
    pub(super) fn results(&self) -> impl Iterator<Item = &JobResult> {
        self.0.values().map(|(result, _)| result)
    }

    /// Jobs of the plan that are not there.
    pub(super) fn missing(&self, plan: &Plan) -> Vec<Job> {
        plan.jobs().into_iter().filter(|job| !self.has(job)).collect()
    }
}
