//! The members of an archive that are extracted: those that the command line names, and what is
//! below them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, Ordering};

use bsdffs::copy::{Entry, Select, Verdict};
use bsdffs::tar::member_path;

use crate::fail::{Failure, show};
use crate::output;

/// The members to extract.
#[derive(Debug)]
pub(super) struct Members(Vec<Member>);

#[derive(Debug)]
struct Member {
    /// As on the command line.
    name: OsString,
    path: Vec<u8>,
    found: AtomicBool,
}

impl Members {
    /// Those of these names, which are paths in the archive, with or without `./` or `/` in front.
    ///
    /// # Errors
    /// A path contains `..`.
    pub(super) fn new(names: Vec<OsString>) -> Result<Members, Failure> {
        let member = |name: OsString| match member_path(&name.clone().into_vec()) {
            Some(path) => Ok(Member { name, path, found: AtomicBool::new(false) }),
            None => {
                let shown = show(name.as_encoded_bytes());
                Err(Failure::usage(format!("{shown}: no member that is extracted has '..' in it")))
            }
        };
        names.into_iter().map(member).collect::<Result<_, _>>().map(Members)
    }

    /// Prints an error for each one that the archive lacks.
    pub(super) fn report_missing(&self) {
        for member in self.0.iter().filter(|member| !member.found.load(Ordering::Relaxed)) {
            output::error(format!(
                "{}: not found in the archive",
                show(member.name.as_encoded_bytes())
            ));
        }
    }
}

impl Member {
    /// Whether `path` is the member, or below it.
    fn has(&self, path: &[u8]) -> bool {
        let rest = path.strip_prefix(&*self.path);
        self.path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }
}

impl Select for Members {
    fn verdict(&self, entry: &Entry) -> Verdict {
        let mut verdict = if self.0.is_empty() { Verdict::Copy } else { Verdict::Ignore };
        for member in self.0.iter().filter(|member| member.has(&entry.path)) {
            member.found.store(true, Ordering::Relaxed);
            verdict = Verdict::Copy;
        }
        verdict
    }
}
