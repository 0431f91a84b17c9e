//! Who decides what is repaired.
//!
//! **Purpose.** Every inconsistency goes through [`Judge::ask`] (from `Checker::ask`, which adds what the inode
//! concerned is): it is recorded, and the answer says whether the
//! caller repairs it.
//!
//! **Invariants.**
//! 1. Preen never repairs a fatal finding: it stops the check before anything is written.
//! 2. A refused or impossible repair clears `resolved`; a volume that is not resolved is not marked clean.
//! 3. A question that was refused once is not asked again in a later pass.

use std::collections::{BTreeMap, BTreeSet};

use ffs_device::DeviceError;
use ffs_ondisk::Ino;

use super::report::{Finding, Id, InodeInfo, MAX_FINDINGS, Phase, Severity};

/// Why the check ends before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// Preen met a fatal finding.
    Fatal,
    /// The device failed.
    Device(DeviceError),
    /// The caller asked for it.
    Interrupted,
    /// Something the check cannot work with, in words, and the exit code it calls for.
    Refused(u8, String),
}

impl From<DeviceError> for Stop {
    fn from(error: DeviceError) -> Self {
        Stop::Device(error)
    }
}

/// Result of everything that may end the check.
pub(super) type Res<T> = Result<T, Stop>;

/// An operator's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Repair it.
    Yes,
    /// Leave it.
    No,
    /// Repair it and everything after it.
    YesToAll,
    /// Leave it and everything after it.
    NoToAll,
    /// Stop the check; nothing more is repaired and the volume stays dirty.
    Quit,
}

/// Asks the operator about one finding.
pub type Operator = Box<dyn FnMut(&Finding) -> Answer + Send>;

/// Where answers come from in a full check.
#[derive(Default)]
pub enum Answers {
    /// Repair everything (`-y`).
    Yes,
    /// Repair nothing and write nothing (`-n`).
    #[default]
    No,
    /// Ask for each.
    Ask(Operator),
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Answers::Yes => "Yes",
            Answers::No => "No",
            Answers::Ask(_) => "Ask",
        })
    }
}

/// A finding in the making.
#[derive(Debug, Clone)]
pub(super) struct Draft(Finding);

impl Draft {
    fn new(id: Id, severity: Severity, message: impl Into<String>) -> Draft {
        Draft(Finding::new(id, severity, message))
    }

    pub(super) fn fatal(id: Id, message: impl Into<String>) -> Draft {
        Draft::new(id, Severity::Fatal, message)
    }

    pub(super) fn benign(id: Id, message: impl Into<String>) -> Draft {
        Draft::new(id, Severity::Benign, message)
    }

    /// Fatal if `yes`, else benign.
    pub(super) fn fatal_if(yes: bool, id: Id, message: impl Into<String>) -> Draft {
        Draft::new(id, if yes { Severity::Fatal } else { Severity::Benign }, message)
    }

    pub(super) fn ino(mut self, ino: Ino) -> Draft {
        self.0.ino = Some(ino.0);
        self
    }

    pub(super) fn place(mut self, place: impl Into<String>) -> Draft {
        self.0.place = Some(place.into());
        self
    }

    /// The finding is about the entry `name` of the directory, which names inode `names`.
    pub(super) fn entry(mut self, name: &[u8], names: Option<Ino>) -> Draft {
        self.0.entry = Some(String::from_utf8_lossy(name).into_owned());
        self.0.target = names.map(InodeInfo::unread);
        self
    }

    /// What has been collected so far.
    pub(super) fn finding(&mut self) -> &mut Finding {
        &mut self.0
    }

    fn key(&self) -> Key {
        (self.0.id, self.0.ino, self.0.place.clone())
    }

    pub(super) fn before(mut self, value: impl ToString) -> Draft {
        self.0.before = Some(value.to_string());
        self
    }

    pub(super) fn after(mut self, value: impl ToString) -> Draft {
        self.0.after = Some(value.to_string());
        self
    }
}

type Key = (Id, Option<u32>, Option<String>);

/// Records findings and answers.
pub(super) struct Judge {
    preen: bool,
    answers: Answers,
    refused: BTreeSet<Key>,
    /// Where the check is.
    pub(super) phase: Phase,
    /// Nothing found is left unrepaired.
    pub(super) resolved: bool,
    /// Findings kept in full.
    pub(super) findings: Vec<Finding>,
    /// Findings by id.
    pub(super) counts: BTreeMap<Id, u64>,
}

impl Judge {
    pub(super) fn new(preen: bool, answers: Answers) -> Judge {
        Judge {
            preen,
            answers,
            refused: BTreeSet::new(),
            phase: Phase::Setup,
            resolved: true,
            findings: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn preen(&self) -> bool {
        self.preen
    }

    /// Whether this run may change anything at all.
    pub(super) fn may_write(&self) -> bool {
        self.preen || !matches!(self.answers, Answers::No)
    }

    /// Whether an operator decides: then a refusal must leave all choices open.
    pub(super) fn asks(&self) -> bool {
        !self.preen && matches!(self.answers, Answers::Ask(_))
    }

    /// Whether somebody will read the finding: it is listed, and not one that was refused before.
    pub(super) fn will_show(&self, draft: &Draft) -> bool {
        (self.asks() || self.findings.len() < MAX_FINDINGS) && !self.refused.contains(&draft.key())
    }

    /// Records the finding; `true` if it is to be repaired.
    pub(super) fn ask(&mut self, draft: Draft) -> Res<bool> {
        let key = draft.key();
        if self.refused.contains(&key) {
            return Ok(false);
        }
        let mut finding = draft.0;
        finding.phase = self.phase;
        if self.preen && finding.severity == Severity::Fatal {
            self.resolved = false;
            self.record(finding);
            return Err(Stop::Fatal);
        }
        let answer = if self.preen { Ok(true) } else { self.answer(&finding) };
        finding.repaired = matches!(answer, Ok(true));
        if !finding.repaired {
            self.resolved = false;
            if self.refused.len() < MAX_FINDINGS {
                self.refused.insert(key);
            }
        }
        self.record(finding);
        answer
    }

    fn answer(&mut self, finding: &Finding) -> Res<bool> {
        let Answers::Ask(operator) = &mut self.answers else {
            return Ok(matches!(self.answers, Answers::Yes));
        };
        match operator(finding) {
            Answer::Yes => Ok(true),
            Answer::No => Ok(false),
            Answer::YesToAll => {
                self.answers = Answers::Yes;
                Ok(true)
            }
            Answer::NoToAll => {
                // Later questions get the same answer; what was granted before is still written.
                self.answers = Answers::Ask(Box::new(|_| Answer::No));
                Ok(false)
            }
            Answer::Quit => Err(Stop::Interrupted),
        }
    }

    /// Records a finding nothing is done about.
    pub(super) fn note(&mut self, draft: Draft) -> Res<()> {
        let mut finding = draft.0;
        finding.phase = self.phase;
        let stop = self.preen && finding.severity == Severity::Fatal;
        self.resolved = false;
        self.record(finding);
        if stop { Err(Stop::Fatal) } else { Ok(()) }
    }

    /// Records something that preen only mentions and that does not keep the volume from being clean.
    pub(super) fn mention(&mut self, draft: Draft) {
        let mut finding = draft.0;
        finding.phase = self.phase;
        self.record(finding);
    }

    /// The repair granted last could not be made.
    pub(super) fn repair_failed(&mut self) {
        self.resolved = false;
        if let Some(last) = self.findings.last_mut() {
            last.repaired = false;
        }
    }

    fn record(&mut self, finding: Finding) {
        *self.counts.entry(finding.id).or_default() += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }
}
