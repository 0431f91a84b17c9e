//! The measurement.
//!
//! | phase | one operation |
//! | --- | --- |
//! | `create` | an empty file; the sync at the end counts |
//! | `list-stat` | after a remount: the listing, then the attributes of each file in its order |
//! | `stat` | the attributes of random files, at most 1000 of a directory; blocks are in memory |
//! | `miss` | the attributes of missing names, as many |
//! | `delete` | a file; the sync at the end counts |

use serde::Serialize;

use super::crash::{self, CrashRow};
use super::layer::Layer;
use super::plan::{Extent, IndexRequest, Job, NameOrder};
use crate::error::{LabError, Result};
use crate::machine::MachineCounters;
use crate::pool::{self, Progress};
use crate::shuffle::{Purpose, shuffled};
use crate::watch::Watch;

/// The phases in their order.
pub(super) const PHASES: [&str; 5] = ["create", "list-stat", "stat", "miss", "delete"];
/// Names of a directory in the phases `stat` and `miss`.
const SAMPLE: u32 = 1000;
/// Operations between two reports of progress.
const REPORT: u64 = 1000;

/// The result of a phase. Serialised, it is a line of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndexRow {
    /// The index.
    pub index: &'static str,
    /// Files in the directory.
    pub files: u32,
    /// Directories, one after the other.
    pub directories: u32,
    /// The order of creation.
    pub created: NameOrder,
    /// The order of removal.
    pub deleted: NameOrder,
    /// The phase.
    pub phase: &'static str,
    /// Operations of the phase.
    pub operations: u64,
    /// Virtual microseconds for each operation.
    pub us: f64,
    /// Of these, of the processor.
    pub cpu_us: f64,
    /// Read commands of the disk in the phase.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Kilobytes read.
    pub read_kb: u64,
    /// Kilobytes written.
    pub written_kb: u64,
    /// Bytes of the directories' blocks.
    pub bytes: u64,
    /// Bytes of memory of the index besides cached blocks.
    pub memory: u64,
}

/// The results.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexResults {
    /// A row for each phase of each job.
    pub rows: Vec<IndexRow>,
    /// The crash states of each on-disk format.
    pub crash: Vec<CrashRow>,
}

/// Receives finished operations; `false` ends the job.
type Tick<'a> = dyn FnMut(u64) -> bool + 'a;

/// A running job.
struct JobRun<'a> {
    job: Job,
    layer: Layer,
    rows: Vec<IndexRow>,
    tick: &'a mut Tick<'a>,
    done: u64,
}

impl IndexRequest {
    /// Measures all jobs, some at a time. The rows are in the order of the jobs.
    ///
    /// # Errors
    /// [`LabError::Interrupted`]; that of the first job that failed.
    pub fn run(&self, watch: &mut dyn Watch) -> Result<IndexResults> {
        if self.kinds.is_empty() || self.sizes.contains(&0) {
            return Err(LabError::Plan("nothing to do: every number must be above 0".to_owned()));
        }
        let jobs = self.jobs();
        // The largest first, so that no thread begins a long job at the end.
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(jobs[*at].operations()));
        let found = pool::run(&order, self.jobs, watch, |at, progress| {
            run_job(&jobs[at], self.seed, progress)
        })?;
        let rows = found.into_iter().flatten().collect();
        Ok(IndexResults { rows, crash: self.crash_states()? })
    }

    /// The crash states. The library's own kinds have the format of the control.
    fn crash_states(&self) -> Result<Vec<CrashRow>> {
        let names = if self.extent == Extent::Quick { 1500 } else { 6000 };
        let mut rows = Vec::new();
        for kind in &self.kinds {
            // A search without an index is slow, and its writes do not depend on the size.
            let names = if kind.is_in_memory() { 500 } else { names };
            rows.extend(crash::examine(*kind, names)?);
        }
        Ok(rows)
    }
}

fn run_job(job: &Job, seed: u64, progress: &Progress<'_>) -> Result<Vec<IndexRow>> {
    let words = format!("{} {} files", job.kind.name(), job.files);
    let mut tick = |count| progress.done(count, &words);
    let files = u64::from(job.files) * u64::from(job.directories);
    let layer = Layer::new(job.kind, seed, (job.directories, files))?;
    let rows = Vec::new();
    let mut run = JobRun { job: *job, layer, rows, tick: &mut tick, done: 0 };
    run.all(seed)?;
    Ok(run.rows)
}

fn names(numbers: Vec<u32>) -> Vec<Vec<u8>> {
    numbers.into_iter().map(|n| n.to_string().into_bytes()).collect()
}

impl JobRun<'_> {
    fn all(&mut self, seed: u64) -> Result<()> {
        let files = self.job.files;
        let created = names(self.job.create.numbers(files, seed, Purpose::Create));
        let deleted = names(self.job.delete.numbers(files, seed, Purpose::Unlink));
        let sample = |purpose| shuffled(files, seed, purpose).into_iter().take(SAMPLE as usize);
        let found = names(sample(Purpose::Stat).collect());
        // Names of the same lengths that do not exist.
        let missing: Vec<Vec<u8>> =
            sample(Purpose::Miss).map(|n| format!("{n}x").into_bytes()).collect();
        self.phase("create", |run| {
            let n = run.each(&created, |layer, dir, name| layer.create(dir, name))?;
            run.layer.sync()?;
            Ok(n)
        })?;
        self.layer.remount()?;
        self.phase("list-stat", JobRun::list_and_stat)?;
        self.layer.forget()?;
        self.phase("stat", |run| run.each(&found, exists))?;
        self.phase("miss", |run| {
            run.each(&missing, |layer, dir, name| layer.stat(dir, name).map(drop))
        })?;
        self.layer.forget()?;
        self.phase("delete", |run| {
            let n = run.each(&deleted, |layer, dir, name| layer.unlink(dir, name))?;
            run.layer.sync()?;
            Ok(n)
        })
    }

    /// Performs `work` for each name in each directory. Returns the number of operations.
    fn each(
        &mut self,
        names: &[Vec<u8>],
        mut work: impl FnMut(&mut Layer, crate::systems::DirId, &[u8]) -> Result<()>,
    ) -> Result<u64> {
        for dir in self.layer.dirs() {
            for name in names {
                work(&mut self.layer, dir, name)?;
                self.progress(1)?;
            }
        }
        Ok(names.len() as u64 * u64::from(self.job.directories))
    }

    fn list_and_stat(&mut self) -> Result<u64> {
        let mut count = 0;
        for dir in self.layer.dirs() {
            for name in self.layer.list(dir)? {
                exists(&mut self.layer, dir, &name)?;
                count += 1;
                self.progress(1)?;
            }
        }
        Ok(count)
    }

    fn progress(&mut self, count: u64) -> Result<()> {
        self.done += count;
        if self.done < REPORT {
            return Ok(());
        }
        let done = std::mem::take(&mut self.done);
        if (self.tick)(done) { Ok(()) } else { Err(LabError::Interrupted) }
    }

    fn phase(
        &mut self,
        phase: &'static str,
        work: impl FnOnce(&mut Self) -> Result<u64>,
    ) -> Result<()> {
        let (began, before) = (self.layer.now(), self.layer.done());
        let operations = work(self)?;
        let (ended, after) = (self.layer.now(), self.layer.done());
        let (bytes, memory) = self.layer.sizes()?;
        let each = |ns: u64| ns as f64 / 1e3 / operations.max(1) as f64;
        let since = |counter: fn(&MachineCounters) -> u64| counter(&after) - counter(&before);
        self.rows.push(IndexRow {
            index: self.job.kind.name(),
            files: self.job.files,
            directories: self.job.directories,
            created: self.job.create,
            deleted: self.job.delete,
            phase,
            operations,
            us: each(ended - began),
            cpu_us: each(since(|done| done.cpu)),
            reads: since(|done| done.reads),
            writes: since(|done| done.writes),
            read_kb: since(|done| done.sectors_read) / 2,
            written_kb: since(|done| done.sectors_written) / 2,
            bytes,
            memory,
        });
        Ok(())
    }
}

fn exists(layer: &mut Layer, dir: crate::systems::DirId, name: &[u8]) -> Result<()> {
    if layer.stat(dir, name)? {
        return Ok(());
    }
    let why = format!("'{}' is missing", name.escape_ascii());
    Err(LabError::unusable("index", why))
}

#[cfg(test)]
mod tests {
    use super::super::IndexKind;
    use super::*;
    use crate::watch::Unwatched;

    fn request(sizes: &[u32], jobs: usize) -> IndexRequest {
        let (kinds, sizes) = (IndexKind::ALL.to_vec(), sizes.to_vec());
        IndexRequest { kinds, extent: Extent::Quick, sizes, seed: 2002, jobs }
    }

    #[test]
    fn every_index_runs_every_phase_and_the_same_seed_gives_the_same_rows() {
        let one = request(&[40, 1200], 1).run(&mut Unwatched).unwrap();
        let other = request(&[40, 1200], 4).run(&mut Unwatched).unwrap();
        assert_eq!(one, other);
        // Indexes, sizes, orders, phases.
        assert_eq!(one.rows.len(), 6 * 2 * 2 * PHASES.len());
        for row in &one.rows {
            let files = u64::from(row.files) * u64::from(row.directories);
            let all = matches!(row.phase, "create" | "list-stat" | "delete");
            assert!(row.us >= row.cpu_us && row.cpu_us > 1.0, "{row:?}");
            assert!(!all || row.operations == files, "{row:?}");
            assert!(row.phase != "create" || row.writes > 0, "{row:?}");
            assert!(row.phase != "list-stat" || row.reads > 0, "a listing must be cold: {row:?}");
        }
        let charts = one.charts();
        assert!(charts.len() > 8, "{}", charts.len());
        for (name, svg) in &charts {
            roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(one.tables().len() > 10);
        let seed = IndexRequest { seed: 1, ..request(&[40], 2) }.run(&mut Unwatched).unwrap();
        assert_ne!(seed.rows.first().map(|row| row.us), one.rows.first().map(|row| row.us));
    }

    /// The laboratory's frame must not decide a comparison.
    #[test]
    fn the_control_costs_what_the_librarys_linear_search_costs() {
        let kinds = vec![IndexKind::Linear, IndexKind::Control];
        let request = IndexRequest { kinds, ..request(&[3000], 2) };
        let rows = request.run(&mut Unwatched).unwrap().rows;
        let (linear, control): (Vec<IndexRow>, Vec<IndexRow>) =
            rows.into_iter().partition(|row| row.index == "linear");
        for (linear, control) in linear.iter().zip(&control) {
            let ratios = [control.us / linear.us, control.cpu_us / linear.cpu_us];
            println!("{} {:?}: {ratios:.3?}", linear.phase, linear.created);
            let near = ratios.iter().all(|ratio| (0.85..=1.15).contains(ratio));
            assert!(near, "{linear:?}\n{control:?}");
        }
    }

    #[test]
    fn an_interruption_ends_the_run() {
        struct Stop;
        impl Watch for Stop {
            fn done(&mut self, _: u64) -> bool {
                false
            }
        }
        let stopped = request(&[3000], 2).run(&mut Stop);
        assert!(matches!(stopped, Err(LabError::Interrupted)));
        let empty = IndexRequest { kinds: Vec::new(), ..request(&[10], 1) };
        assert!(matches!(empty.run(&mut Unwatched), Err(LabError::Plan(_))));
    }

    #[test]
    fn the_directories_of_the_machine_pass_their_checks() {
        for kind in [IndexKind::Control, IndexKind::Chunk, IndexKind::Htree, IndexKind::Btree] {
            let mut layer = Layer::new(kind, 3, (2, 4000)).unwrap();
            let free = layer.free_inodes().unwrap();
            for dir in layer.dirs() {
                for n in 0..2000 {
                    layer.create(dir, format!("{n}").as_bytes()).unwrap();
                }
                assert!(layer.create(dir, b"7").is_err(), "{}: a name twice", kind.name());
            }
            layer.remount().unwrap();
            for dir in layer.dirs() {
                assert_eq!(layer.list(dir).unwrap().len(), 2000, "{}", kind.name());
                layer.unlink(dir, b"7").unwrap();
                assert!(!layer.stat(dir, b"7").unwrap());
            }
            layer.check().unwrap();
            // The second attempt to make a name, and the removed files, left no inode.
            assert_eq!(layer.free_inodes().unwrap(), free - 2 * 1999, "{}", kind.name());
        }
    }
}
