//! Our own format: a JSON object for each line.
//!
//! The first line has the version, then come the lines of what existed, then the calls, then one
//! line with the tree at the end. `docs/lab/traces.md` lists the members.

use super::line::Line;
use super::tree::TreeSum;
use super::{Call, Have, MOST_LINES, Trace};

/// The version of the format.
pub const VERSION: u32 = 1;
/// The longest line, bytes.
const MOST_LINE: usize = 1 << 16;
/// The note on a trace without its last line.
pub const NO_END: &str = "the line 'end' (the recording was interrupted)";

fn json(line: &Line) -> String {
    // A structure of numbers and texts has always a form in JSON.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}

/// The first line.
#[must_use]
pub fn header(source: &str, is_complete: bool) -> String {
    let (version, from) = (Some(VERSION), Some(source.to_owned()));
    json(&Line { version, from, complete: Some(is_complete), ..Line::default() })
}

/// The line of something that existed.
#[must_use]
pub fn have(have: &Have) -> String {
    json(&Line::of_have(have))
}

/// The line of a call.
#[must_use]
pub fn call(call: &Call) -> String {
    json(&Line::of_call(call))
}

/// The last line.
#[must_use]
pub fn end(tree: &TreeSum) -> String {
    json(&Line { end: Some(tree.clone()), ..Line::default() })
}

/// The text of a trace.
#[must_use]
pub fn write(trace: &Trace) -> String {
    let mut out = header(&trace.source, trace.is_complete);
    trace.have.iter().for_each(|line| out.push_str(&have(line)));
    trace.calls.iter().for_each(|line| out.push_str(&call(line)));
    out.extend(trace.tree.as_ref().map(end));
    out
}

/// Parses the text of a trace.
///
/// # Errors
/// The line and the mistake.
pub fn parse(bytes: &[u8]) -> Result<Trace, String> {
    let mut trace = Trace::default();
    let mut place = Place::Header;
    for (number, bytes) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let wrong = |why: &dyn std::fmt::Display| format!("line {number}: {why}");
        if number > MOST_LINES {
            return Err(wrong(&format_args!("expected at most {MOST_LINES} lines")));
        }
        let Some(bytes) = bytes.strip_suffix(b"\n") else {
            return Err(wrong(&"is incomplete; expected a newline at its end"));
        };
        if bytes.len() > MOST_LINE {
            return Err(wrong(&format_args!("expected at most {MOST_LINE} bytes")));
        }
        let line: Line = serde_json::from_slice(bytes).map_err(|error| wrong(&error))?;
        place = trace.take(&line, number, place).map_err(|why| wrong(&why))?;
    }
    if place == Place::Header {
        return Err("is empty; expected a line with the member ffs-trace".to_owned());
    }
    if place != Place::End {
        trace.leave_out(NO_END);
    }
    Ok(trace)
}

/// The part of a trace to which a line belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Header,
    Have,
    Call,
    End,
}

impl Trace {
    /// Takes over a line that follows those of `place`.
    fn take(&mut self, line: &Line, number: usize, place: Place) -> Result<Place, String> {
        if place == Place::Header {
            let (from, complete) = (line.from.clone(), line.complete);
            if line.version != Some(VERSION) {
                return Err(format!("expected the member ffs-trace with the version {VERSION}"));
            }
            let expected = Line { version: Some(VERSION), from, complete, ..Line::default() };
            if *line != expected {
                return Err("expected the members ffs-trace, from and complete".to_owned());
            }
            self.source = line.from.clone().unwrap_or_default();
            self.is_complete = complete.unwrap_or(false);
            return Ok(Place::Have);
        }
        let now = match (&line.have, &line.call, &line.end) {
            (Some(_), None, None) => Place::Have,
            (None, Some(_), None) => Place::Call,
            (None, None, Some(_)) => Place::End,
            _ => return Err("expected one of the members have, call and end".to_owned()),
        };
        if now < place || place == Place::End {
            let why = "comes too late; expected lines with have, then call, then one with end";
            return Err(why.to_owned());
        }
        match now {
            Place::Have => self.have.push(line.to_have()?),
            Place::Call => self.calls.push(line.to_call(number)?),
            _ => {
                let end = line.end.clone();
                if *line != (Line { end: end.clone(), ..Line::default() }) {
                    return Err("expected the member end alone".to_owned());
                }
                self.tree = end;
            }
        }
        Ok(now)
    }
}
