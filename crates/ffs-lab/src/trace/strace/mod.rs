//! The output of `strace -f -ttt -o FILE COMMAND`.
//!
//! | module | content |
//! | --- | --- |
//! | `syntax` | lines, arguments, results |
//! | `process` | processes with their directories and open files |
//! | `calls`, `descriptors` | from system calls to calls of a trace |
//!
//! # Invariants
//! 1. A call that began on one line and ended on another counts when it ended.
//! 2. Calls on paths outside of the directory `below` are counted and left out.
//! 3. The totals of processes and open files are bounded.

mod calls;
mod descriptors;
mod process;
mod syntax;
#[cfg(test)]
mod tests;

use super::{MOST_LINES, ReadOptions, Trace};
use calls::Reader;
use syntax::Event;

/// Parses the output of strace.
///
/// # Errors
/// The line and the mistake.
pub fn parse(bytes: &[u8], options: &ReadOptions) -> Result<Trace, String> {
    let mut reader = Reader::new(options)?;
    for (number, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let wrong = |why: &dyn std::fmt::Display| format!("line {number}: {why}");
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        if number > MOST_LINES {
            return Err(wrong(&format_args!("expected at most {MOST_LINES} lines")));
        }
        let text = std::str::from_utf8(bytes).map_err(|error| wrong(&error))?;
        let (pid, time, event) = syntax::line(text).map_err(|why| wrong(&why))?;
        reader.take(number, pid, time, event).map_err(|why| wrong(&why))?;
    }
    Ok(reader.finish())
}

impl Reader {
    fn take(&mut self, line: usize, pid: u32, time: u64, event: Event) -> Result<(), String> {
        self.begin_line(line, pid, time)?;
        match event {
            Event::Call(call) => self.call(pid, time, &call),
            Event::Begin(name, front) => {
                self.pending.insert(pid, (name, front, time));
                Ok(())
            }
            Event::Resume(name, rest) => {
                let begun = self.pending.remove(&pid).filter(|(begun, ..)| *begun == name);
                let Some((_, front, began)) = begun else {
                    return Err(format!("'{name}' resumes, but process {pid} did not begin it"));
                };
                let call = syntax::call(&name, &format!("{front}{rest}"))?;
                self.call(pid, began, &call)
            }
            Event::Exit => self.exit(pid, time),
            Event::Remark => Ok(()),
        }
    }
}
