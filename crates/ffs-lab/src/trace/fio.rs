//! Job files of fio, as far as a replay can make their calls.
//!
//! | option | meaning here |
//! | --- | --- |
//! | `rw`, `readwrite`, `bs`, `blocksize`, `size`, `filesize`, `io_size`, `loops` | as in fio |
//! | `rwmixread`, `rwmixwrite`, `norandommap` | as in fio |
//! | `filename`, `directory`, `nrfiles`, `numjobs` | as in fio, below the root of the trace |
//! | `fsync`, `fdatasync`, `end_fsync`, `fsync_on_close` | as in fio |
//! | `thinktime` | microseconds between calls |
//! | `stonewall`, `wait_for_previous` | jobs before end first; other jobs take turns call by call |
//! | `ioengine`: the synchronous ones; `direct=0`, `iodepth=1`, `buffered=1` | accepted |
//! | `name`, `description`, `group_reporting`, `thread`, `invalidate`, `randrepeat` | no effect |
//!
//! # Invariants
//! 1. Any other option is refused by its name and line. So is a value that has no meaning here.
//! 2. A file that is read exists before with its size, as fio lays it out. One that is only written
//!    is created.
//! 3. Random offsets follow from the seed. Each block comes once in a loop, unless `norandommap`.

mod job;
mod options;
#[cfg(test)]
mod tests;

use super::Trace;

/// Parses a job file.
///
/// # Errors
/// The line and the mistake.
pub fn parse(bytes: &[u8], seed: u64) -> Result<Trace, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("is no text: {error}"))?;
    let jobs = options::jobs(text)?;
    job::trace(&jobs, seed)
}
