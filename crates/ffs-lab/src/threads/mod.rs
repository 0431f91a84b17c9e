//! The same operations from several threads at once, in one directory or in one for each thread.
//!
//! | module, top down | content |
//! | --- | --- |
//! | `simulate` | any number of processors in virtual time, and locks (feature `schedule`) |
//! | this module | real threads on any target |
//! | `client` | the operations, which threads may call at once |
//!
//! # Invariants
//! 1. All threads begin a phase at once. Its time ends when the last of them has ended.
//! 2. Each thread works on its own files. In the same directory only the directory is shared.
//! 3. Targets take turns, and each round begins with another one.

mod client;
#[cfg(feature = "schedule")]
pub mod simulate;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::{LabError, Result};
use crate::statistics::Summary;
use crate::systems::{Context, TargetSpec};
use crate::watch::Watch;
use client::{Client, Place};

/// The bytes that a thread writes to a file, and reads.
const BYTES: usize = 4096;
/// Most threads.
pub const MOST_THREADS: u32 = 64;
/// Most files of a thread.
pub const MOST_FILES: u32 = 10_000_000;

/// What all threads do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Create,
    Write,
    Stat,
    Read,
    Unlink,
}

impl Phase {
    const ALL: [Phase; 5] = [Phase::Create, Phase::Write, Phase::Stat, Phase::Read, Phase::Unlink];

    fn name(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::Write => "write 4 KiB",
            Phase::Stat => "stat",
            Phase::Read => "read 4 KiB",
            Phase::Unlink => "unlink",
        }
    }
}

/// Where the threads work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// Each thread in a directory of its own.
    Different,
    /// All threads in one directory.
    Same,
}

impl Sharing {
    /// Both.
    pub const ALL: [Sharing; 2] = [Sharing::Different, Sharing::Same];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Different => "different",
            Sharing::Same => "same",
        }
    }
}

/// The request for a measurement.
#[derive(Debug, Clone)]
pub struct ThreadsRequest {
    /// The targets: the library in process, or directories.
    pub targets: Vec<TargetSpec>,
    /// Numbers of threads, at most [`MOST_THREADS`] each.
    pub threads: Vec<u32>,
    /// Files of each thread.
    pub files: u32,
    /// Rounds.
    pub rounds: u32,
}

/// The result of one phase with one number of threads. Serialised, it is a line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadsRow {
    /// The target as the user gave it.
    pub target: String,
    /// Where the threads worked.
    pub directory: Sharing,
    /// The operation.
    pub phase: &'static str,
    /// The number of threads.
    pub threads: u32,
    /// Operations a second of all threads together: the median of the rounds.
    pub per_second: f64,
    /// The slowest round.
    pub per_second_min: f64,
    /// The fastest round.
    pub per_second_max: f64,
    /// The number of rounds.
    pub rounds: usize,
}

impl ThreadsRequest {
    /// The operations of the whole measurement.
    #[must_use]
    pub fn operations(&self) -> u64 {
        let threads: u64 = self.threads.iter().map(|&n| u64::from(n)).sum();
        let phases = (Phase::ALL.len() * Sharing::ALL.len() * self.targets.len()) as u64;
        threads * u64::from(self.files) * phases * u64::from(self.rounds)
    }

    /// Measures.
    ///
    /// # Errors
    /// A target cannot be used or an operation failed; [`LabError::Interrupted`].
    pub fn run(&self, context: &Context, watch: &mut dyn Watch) -> Result<Vec<ThreadsRow>> {
        let mut samples: Vec<(usize, Sharing, Phase, u32, f64)> = Vec::new();
        for round in 0..self.rounds as usize {
            for at in (0..self.targets.len()).map(|i| (i + round) % self.targets.len()) {
                for sharing in Sharing::ALL {
                    for &threads in &self.threads {
                        let spec = &self.targets[at];
                        let what = format!("{} {} {threads}", spec.label, sharing.name());
                        watch.step(&what);
                        let times = self.round(spec, context, sharing, threads)?;
                        let operations = u64::from(threads) * u64::from(self.files);
                        for (phase, took) in times {
                            let rate = operations as f64 / took.as_secs_f64().max(1e-9);
                            samples.push((at, sharing, phase, threads, rate));
                        }
                        if !watch.done(operations * Phase::ALL.len() as u64) {
                            return Err(LabError::Interrupted);
                        }
                    }
                }
            }
        }
        Ok(self.rows(&samples))
    }

    fn round(
        &self,
        spec: &TargetSpec,
        context: &Context,
        sharing: Sharing,
        threads: u32,
    ) -> Result<Vec<(Phase, Duration)>> {
        let mut place = Place::open(spec, context, u64::from(threads) * u64::from(self.files))?;
        let clients = place.clients(sharing, threads)?;
        let times = Phase::ALL
            .into_iter()
            .map(|phase| Ok((phase, at_once(&clients, phase, self.files)?)))
            .collect::<Result<Vec<_>>>();
        drop(clients);
        place.close()?;
        times
    }

    fn rows(&self, samples: &[(usize, Sharing, Phase, u32, f64)]) -> Vec<ThreadsRow> {
        let mut rows = Vec::new();
        for (at, spec) in self.targets.iter().enumerate() {
            for directory in Sharing::ALL {
                for phase in Phase::ALL {
                    for &threads in &self.threads {
                        let key = (at, directory, phase, threads);
                        let of = samples.iter().filter(|s| (s.0, s.1, s.2, s.3) == key);
                        let rates: Vec<f64> = of.map(|s| s.4).collect();
                        rows.extend(Summary::of(&rates).map(|s| ThreadsRow {
                            target: spec.label.clone(),
                            directory,
                            phase: phase.name(),
                            threads,
                            per_second: s.median,
                            per_second_min: s.min,
                            per_second_max: s.max,
                            rounds: s.rounds,
                        }));
                    }
                }
            }
        }
        rows
    }
}

/// Runs a phase in a thread for each client. Returns the time from the common start to the last
/// end.
fn at_once(clients: &[Client], phase: Phase, files: u32) -> Result<Duration> {
    let barrier = Barrier::new(clients.len());
    let spans: Vec<Result<(Instant, Instant)>> = std::thread::scope(|scope| {
        let barrier = &barrier;
        let threads: Vec<_> = clients
            .iter()
            .map(|client| {
                scope.spawn(move || {
                    let names = client.names(files);
                    barrier.wait();
                    let began = Instant::now();
                    names.iter().try_for_each(|name| client.perform(phase, name))?;
                    Ok((began, Instant::now()))
                })
            })
            .collect();
        let lost = || LabError::Plan("a thread ended by a panic".to_owned());
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(lost()))).collect()
    });
    let spans = spans.into_iter().collect::<Result<Vec<_>>>()?;
    let began = spans.iter().map(|span| span.0).min();
    let ended = spans.iter().map(|span| span.1).max();
    Ok(began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended - began))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::RealTimer;
    use crate::watch::Unwatched;
    use std::sync::Arc;

    #[test]
    fn every_operation_is_measured_with_every_number_of_threads() {
        let dir = tempfile::tempdir().unwrap();
        let label = dir.path().to_str().unwrap();
        let request = ThreadsRequest {
            targets: vec![TargetSpec::parse("core").unwrap(), TargetSpec::parse(label).unwrap()],
            threads: vec![1, 3],
            files: 20,
            rounds: 2,
        };
        let context = Context { timer: Arc::new(RealTimer::start()), seed: 1 };
        let rows = request.run(&context, &mut Unwatched).unwrap();
        assert_eq!(rows.len(), 2 * 2 * 5 * 2);
        assert!(rows.iter().all(|row| row.per_second > 0.0 && row.rounds == 2));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
        let sim = ThreadsRequest { targets: vec![TargetSpec::parse("sim").unwrap()], ..request };
        let error = sim.run(&context, &mut Unwatched).unwrap_err().to_string();
        assert!(error.contains("one thread"), "{error}");
    }
}
