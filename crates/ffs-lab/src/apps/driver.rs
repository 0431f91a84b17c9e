//! The programs: Python scripts of this crate, and the processes that run them.
//!
//! # Invariants
//! 1. A program waits after each acknowledged step until it may continue. Its next write follows
//!    the mark of the step in the recording.
//! 2. A checker has no open file in the directory when it has answered.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};

use super::failed;
use crate::error::{LabError, Result};

/// The scripts by name; the first is the main program.
const SCRIPTS: &[(&str, &str)] = &[
    ("driver.py", include_str!("../../apps/driver.py")),
    ("common.py", include_str!("../../apps/common.py")),
    ("databases.py", include_str!("../../apps/databases.py")),
    ("files.py", include_str!("../../apps/files.py")),
    ("repository.py", include_str!("../../apps/repository.py")),
];

/// The guarantee that a program gives its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Promise {
    /// Each acknowledged step survives, and the data can be used.
    Durable,
    /// The data can be used; steps may be lost.
    Usable,
    /// No guarantee.
    None,
}

/// The description of a program, as it prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its guarantee.
    pub promise: Promise,
    /// Its actions, in one line.
    pub what: String,
    /// The version on this machine.
    pub version: Option<String>,
    /// The reason why it cannot run on this machine.
    pub missing: Option<String>,
}

/// The result of a program's check of one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Acknowledged steps that are missing.
    pub lost: u64,
    /// The reason why the data cannot be used.
    pub broken: Option<String>,
    /// Whether the check did not run because the volume could not be repaired, mounted or
    /// unmounted.
    #[serde(default)]
    pub unmountable: bool,
    /// Whether the check did not run because the volume was mounted read-only.
    #[serde(default)]
    pub read_only: bool,
}

/// The scripts in a directory.
#[derive(Debug)]
pub struct Driver {
    home: PathBuf,
}

impl Driver {
    /// Writes the scripts to the directory `home`.
    ///
    /// # Errors
    /// [`LabError::Failed`] if a script cannot be written.
    pub fn new(home: &Path) -> Result<Driver> {
        for (name, text) in SCRIPTS {
            let path = home.join(name);
            fs::write(&path, text).map_err(|e| failed("apps", &path.display().to_string(), e))?;
        }
        Ok(Driver { home: home.to_owned() })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("python3");
        // `-B`: no compiled copies, so that every run starts the same way.
        command.arg("-B").arg(self.home.join(SCRIPTS[0].0)).args(words);
        command
    }

    /// All programs, including those that this machine lacks.
    ///
    /// # Errors
    /// [`LabError::Unusable`] without python3.
    pub fn list(&self) -> Result<Vec<Program>> {
        let output = self.command(&["list"]).output().map_err(|error| {
            LabError::unusable("apps", format!("python3 runs the programs: {error}"))
        })?;
        if !output.status.success() {
            return Err(failed("apps", "driver.py list", last_line(&output.stderr)));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let parse = |line: &str| {
            serde_json::from_str(line).map_err(|e| failed("apps", "driver.py list", e))
        };
        text.lines().map(parse).collect()
    }

    /// Prepares `dir` for the recorded run of `program`.
    ///
    /// # Errors
    /// The program failed.
    pub fn setup(&self, program: &str, dir: &Path, seed: u64) -> Result<()> {
        let dir = dir.to_string_lossy();
        let output = self.command(&["setup", program, &dir, &seed.to_string()]).output();
        let output = output.map_err(|e| failed(program, "setup", e))?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed(program, "setup", last_line(&output.stderr)))
    }

    /// Runs `steps` steps of `program` in `dir`; calls `acknowledged` after each, while the program
    /// waits.
    ///
    /// # Errors
    /// The program failed.
    pub fn work(
        &self,
        (program, seed): (&str, u64),
        dir: &Path,
        steps: u32,
        mut acknowledged: impl FnMut(u32),
    ) -> Result<()> {
        let (dir, seed, steps) = (dir.to_string_lossy(), seed.to_string(), steps.to_string());
        let mut command = self.command(&["work", program, &dir, &seed, &steps]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let at = |what: &str, error: &dyn std::fmt::Display| failed(program, what, error);
        let mut child = command.spawn().map_err(|e| at("work", &e))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut done = 0;
        if let (Some(mut input), Some(output)) = (input, output) {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if line != "ack" {
                    break;
                }
                acknowledged(done);
                done += 1;
                if input.write_all(b"\n").is_err() {
                    break;
                }
            }
        }
        let ended = child.wait_with_output().map_err(|e| at("work", &e))?;
        if ended.status.success() {
            return Ok(());
        }
        Err(at(&format!("step {done}"), &last_line(&ended.stderr)))
    }

    /// Starts a process that checks the data of `program`.
    ///
    /// # Errors
    /// [`LabError::Failed`] if it cannot be started.
    pub fn checker(&self, program: &str, seed: u64) -> Result<Checker> {
        let mut command = self.command(&["check", program, &seed.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|e| failed(program, "check", e))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(program, "check", "no pipes"));
        };
        Ok(Checker { program: program.to_owned(), child, input, output: BufReader::new(output) })
    }
}

/// A process that checks the data in a directory.
#[derive(Debug)]
pub struct Checker {
    program: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Checker {
    /// Checks the data in `dir` after `acked` acknowledged steps.
    ///
    /// # Errors
    /// The checker itself failed.
    pub fn check(&mut self, dir: &Path, acked: usize) -> Result<Answer> {
        let mut line = String::new();
        let sent = writeln!(self.input, "{acked} {}", dir.display());
        let answered = sent.and_then(|()| self.output.read_line(&mut line));
        answered.map_err(|e| failed(&self.program, "check", e))?;
        serde_json::from_str(&line).map_err(|e| failed(&self.program, "check", e))
    }
}

impl Drop for Checker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first line of a command's output: the reason, before any advice.
pub(super) fn first_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("it failed without a message").to_owned()
}

/// The last line of a process's output: the reason, in a traceback.
pub(super) fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it failed without a message").to_owned()
}
