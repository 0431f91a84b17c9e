//! Recordings as files: `base` is the disk before the run, `log` its events, `run` the program.
//!
//! The log is a sequence of records: one byte for the kind, two numbers of 8 bytes (little-endian),
//! and the bytes of a write. The kinds are `w OFFSET LENGTH`, `f 0 0` (flush), `d OFFSET LENGTH`
//! (discard) and `m 0 0` (an acknowledged step). Failed transfers are left out: they do not change
//! the device.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use ffs_device::record::Event;
use serde::{Deserialize, Serialize};

use super::examine::write_sparse;
use super::failed;
use super::record::Recording;
use crate::error::{LabError, Result};

/// The largest write in a log, bytes. No system call makes a larger one.
const MOST: u64 = 1 << 30;

/// The run of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The program.
    pub program: String,
    /// The file system, as [`super::side::Side`] writes it.
    pub side: String,
    /// The seed of the contents and of the states.
    pub seed: u64,
}

/// Writes a recording into `dir`, which it creates.
///
/// # Errors
/// [`LabError::Failed`] with the error of the host.
pub(crate) fn save(dir: &Path, label: &Label, recording: &Recording) -> Result<()> {
    let save = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        write_sparse(&dir.join("base"), &recording.base)?;
        let mut log = BufWriter::new(File::create(dir.join("log"))?);
        for event in &recording.events {
            write_event(&mut log, event)?;
        }
        log.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::write(dir.join("run"), serde_json::to_vec(label)?)
    };
    save().map_err(|e| failed("apps", &dir.display().to_string(), e))
}

fn write_event(out: &mut impl Write, event: &Event) -> io::Result<()> {
    let (kind, offset, len, bytes): (u8, u64, u64, &[u8]) = match event {
        Event::Write { offset, bytes, .. } => (b'w', *offset, bytes.len() as u64, bytes),
        Event::Flush { .. } => (b'f', 0, 0, &[]),
        Event::Discard { offset, len, .. } => (b'd', *offset, *len, &[]),
        Event::Mark { .. } => (b'm', 0, 0, &[]),
        Event::Failed { .. } => return Ok(()),
    };
    out.write_all(&[kind])?;
    out.write_all(&offset.to_le_bytes())?;
    out.write_all(&len.to_le_bytes())?;
    out.write_all(bytes)
}

/// Reads what [`save`] wrote.
///
/// # Errors
/// [`LabError::Plan`] if `dir` holds no recording.
pub(crate) fn load(dir: &Path) -> Result<(Label, Recording)> {
    let load = || -> io::Result<(Label, Recording)> {
        let label = serde_json::from_slice(&fs::read(dir.join("run"))?)?;
        let base = Arc::new(fs::read(dir.join("base"))?);
        if base.len() % 512 != 0 {
            return Err(invalid("base: expected whole sectors of 512 bytes"));
        }
        let mut log = BufReader::new(File::open(dir.join("log"))?);
        let mut events = Vec::new();
        while let Some(event) = read_event(&mut log, events.len() as u64)? {
            events.push(event);
        }
        Ok((label, Recording { base, events }))
    };
    load().map_err(|e| LabError::Plan(format!("{}: no recording: {e}", dir.display())))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn read_event(log: &mut impl Read, seq: u64) -> io::Result<Option<Event>> {
    let mut head = [0; 17];
    match log.read(&mut head[..1])? {
        0 => return Ok(None),
        _ => log.read_exact(&mut head[1..])?,
    }
    let number = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (offset, len) = (number(1), number(9));
    Ok(Some(match head[0] {
        b'w' if len <= MOST => {
            let mut bytes = Vec::new();
            if log.take(len).read_to_end(&mut bytes)? as u64 != len {
                return Err(invalid("log: a write is truncated"));
            }
            Event::Write { seq, offset, bytes: bytes.into() }
        }
        b'f' => Event::Flush { seq },
        b'd' => Event::Discard { seq, offset, len },
        b'm' => Event::Mark { seq, label: String::new() },
        _ => return Err(invalid("log: a record of an unknown kind")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let mut base = vec![0; 256 << 10];
        base[100_000] = 7;
        let events = vec![
            Event::Write { seq: 0, offset: 512, bytes: Arc::from([3; 1024]) },
            Event::Mark { seq: 1, label: String::new() },
            Event::Flush { seq: 2 },
            Event::Discard { seq: 3, offset: 4096, len: 512 },
        ];
        let recording = Recording { base: Arc::new(base), events };
        let label = Label { program: "p".into(), side: "ffs:stable".into(), seed: 9 };
        let at = dir.path().join("kept");
        save(&at, &label, &recording).unwrap();
        assert_eq!(load(&at).unwrap(), (label, recording.clone()));
        assert_eq!((recording.acked(1), recording.acked(2)), (0, 1));
        let log = fs::read(at.join("log")).unwrap();
        fs::write(at.join("log"), &log[..log.len() - 20]).unwrap();
        assert!(load(&at).unwrap_err().to_string().contains("no recording"));
        assert!(load(dir.path()).is_err());
    }
}
