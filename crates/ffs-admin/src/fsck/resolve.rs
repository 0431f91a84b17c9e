//! Decides which findings are repaired.
//!
//! **Purpose.** Every inconsistency is passed to [`Resolver::should_fix`] (through
//! `Checker::should_fix`, which adds the attributes of the inode). It records the finding and
//! returns whether the caller must repair it.
//!
//! **Invariants.**
//! 1. Preen never repairs a fatal finding: it stops the check before any write.
//! 2. A repair that is refused or impossible clears `resolved`. A volume that is not resolved is
//!    not marked clean.
//! 3. A question that was refused is not repeated in a later round.

use std::collections::{BTreeMap, BTreeSet};

use ffs_device::DeviceError;
use ffs_ondisk::Ino;

use super::LOG;
use super::report::{Finding, Id, InodeAttrs, MAX_FINDINGS, Phase, Severity};

/// Reason for an early end of the check.
#[derive(Debug)]
pub(super) enum Stop {
    /// Preen found a fatal inconsistency.
    Fatal,
    /// The device failed.
    Device(DeviceError),
    /// The caller interrupted the check.
    Interrupted,
    /// The check is impossible: exit code and message.
    Refused(u8, String),
}

impl From<DeviceError> for Stop {
    fn from(error: DeviceError) -> Self {
        Stop::Device(error)
    }
}

/// Result of an operation that may end the check.
pub(super) type Res<T> = Result<T, Stop>;

/// An operator's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Repair it.
    Yes,
    /// Do not repair it.
    No,
    /// Repair it and all later findings.
    YesToAll,
    /// Do not repair it or any later finding.
    NoToAll,
    /// Stop the check. Nothing more is repaired and the volume stays dirty.
    Quit,
}

/// Asks the operator about one finding.
pub type Operator = Box<dyn FnMut(&Finding) -> Answer + Send>;

/// Source of the answers in a full check.
#[derive(Default)]
pub enum Answers {
    /// Repair everything (`-y`).
    Yes,
    /// Repair nothing and write nothing (`-n`).
    #[default]
    No,
    /// Ask the operator about each finding.
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

/// How to check.
#[derive(Debug)]
pub enum Mode {
    /// A full check; the answers decide which findings are repaired.
    Full(Answers),
    /// Repair only what a crash may leave (`-p`); any other finding ends the check before it
    /// writes.
    Preen,
}

/// A finding that has not been recorded yet.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    finding: Finding,
    /// It offers an alternative to a repair that was refused.
    alternative: bool,
}

impl Draft {
    fn new(id: Id, severity: Severity, message: impl Into<String>) -> Draft {
        Draft { finding: Finding::new(id, severity, message), alternative: false }
    }

    pub(super) fn fatal(id: Id, message: impl Into<String>) -> Draft {
        Draft::new(id, Severity::Fatal, message)
    }

    pub(super) fn benign(id: Id, message: impl Into<String>) -> Draft {
        Draft::new(id, Severity::Benign, message)
    }

    /// A finding that is fatal if `fatal`, else benign.
    pub(super) fn fatal_if(fatal: bool, id: Id, message: impl Into<String>) -> Draft {
        Draft::new(id, if fatal { Severity::Fatal } else { Severity::Benign }, message)
    }

    pub(super) fn ino(mut self, ino: Ino) -> Draft {
        self.finding.ino = Some(ino.0);
        self
    }

    /// Marks the question as an alternative to a repair that was refused or that failed, so that it
    /// is put to the operator although the first question has the same id and inode.
    pub(super) fn alternative(mut self) -> Draft {
        self.alternative = true;
        self
    }

    pub(super) fn place(mut self, place: impl Into<String>) -> Draft {
        self.finding.place = Some(place.into());
        self
    }

    /// Adds the directory entry `name`, which names inode `names`.
    pub(super) fn entry(mut self, name: &[u8], names: Option<Ino>) -> Draft {
        self.finding.entry = Some(String::from_utf8_lossy(name).into_owned());
        self.finding.target = names.map(InodeAttrs::unread);
        self
    }

    /// The finding so far.
    pub(super) fn finding(&mut self) -> &mut Finding {
        &mut self.finding
    }

    fn key(&self) -> Key {
        (self.finding.id, self.finding.ino, self.finding.place.clone(), self.alternative)
    }

    pub(super) fn before(mut self, value: impl ToString) -> Draft {
        self.finding.before = Some(value.to_string());
        self
    }

    pub(super) fn after(mut self, value: impl ToString) -> Draft {
        self.finding.after = Some(value.to_string());
        self
    }
}

/// Identity of a question: id, inode, place, alternative.
type Key = (Id, Option<u32>, Option<String>, bool);

/// Records findings and decides on repairs.
pub(super) struct Resolver {
    mode: Mode,
    refused: BTreeSet<Key>,
    /// The ids that can be repaired; any other finding ends the check.
    permitted: Option<fn(Id) -> bool>,
    /// The current phase.
    pub(super) phase: Phase,
    /// No finding remains unrepaired.
    pub(super) resolved: bool,
    /// Number of repairs that were granted.
    pub(super) granted: u64,
    /// Findings kept in full.
    pub(super) findings: Vec<Finding>,
    /// Findings by id.
    pub(super) counts: BTreeMap<Id, u64>,
}

impl Resolver {
    pub(super) fn new(mode: Mode) -> Resolver {
        Resolver {
            mode,
            refused: BTreeSet::new(),
            permitted: None,
            phase: Phase::Setup,
            resolved: true,
            granted: 0,
            findings: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Ends the check at a finding with another id than those for which `permitted` is true.
    pub(super) fn permit_only(&mut self, permitted: fn(Id) -> bool) {
        self.permitted = Some(permitted);
    }

    pub(super) fn is_preen(&self) -> bool {
        matches!(self.mode, Mode::Preen)
    }

    /// Whether this run may write.
    pub(super) fn can_write(&self) -> bool {
        !matches!(self.mode, Mode::Full(Answers::No))
    }

    /// Whether an operator decides. Then the check asks about every alternative after a refusal.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self.mode, Mode::Full(Answers::Ask(_)))
    }

    /// Whether the finding will be shown: it fits into the list and has not been refused before.
    pub(super) fn is_shown(&self, draft: &Draft) -> bool {
        (self.is_interactive() || self.findings.len() < MAX_FINDINGS)
            && !self.refused.contains(&draft.key())
    }

    /// Records a finding; `true` if it is to be repaired.
    pub(super) fn should_fix(&mut self, draft: Draft) -> Res<bool> {
        let key = draft.key();
        if self.refused.contains(&key) {
            return Ok(false);
        }
        let mut finding = draft.finding;
        finding.phase = self.phase;
        let impossible = self.permitted.is_some_and(|permitted| !permitted(finding.id));
        if impossible || (self.is_preen() && finding.severity == Severity::Fatal) {
            self.resolved = false;
            self.record(finding);
            return Err(Stop::Fatal);
        }
        let answer = self.answer(&finding);
        finding.repaired = matches!(answer, Ok(true));
        self.granted += u64::from(finding.repaired);
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
        let operator = match &mut self.mode {
            Mode::Preen | Mode::Full(Answers::Yes) => return Ok(true),
            Mode::Full(Answers::No) => return Ok(false),
            Mode::Full(Answers::Ask(operator)) => operator,
        };
        match operator(finding) {
            Answer::Yes => Ok(true),
            Answer::No => Ok(false),
            Answer::YesToAll => {
                self.mode = Mode::Full(Answers::Yes);
                Ok(true)
            }
            Answer::NoToAll => {
                // Repairs that were granted earlier are still written, so the mode is not
                // `Answers::No`.
                self.mode = Mode::Full(Answers::Ask(Box::new(|_| Answer::No)));
                Ok(false)
            }
            Answer::Quit => Err(Stop::Interrupted),
        }
    }

    /// Records a finding that has no repair.
    pub(super) fn report_unfixed(&mut self, draft: Draft) -> Res<()> {
        let mut finding = draft.finding;
        finding.phase = self.phase;
        let stop = self.is_preen() && finding.severity == Severity::Fatal;
        self.resolved = false;
        self.record(finding);
        if stop { Err(Stop::Fatal) } else { Ok(()) }
    }

    /// Records a finding that does not prevent the clean flag.
    pub(super) fn report_only(&mut self, draft: Draft) {
        let mut finding = draft.finding;
        finding.phase = self.phase;
        self.record(finding);
    }

    /// Records that the last granted repair could not be made.
    pub(super) fn repair_failed(&mut self) {
        self.resolved = false;
        if let Some(last) = self.findings.last_mut() {
            last.repaired = false;
        }
    }

    fn record(&mut self, finding: Finding) {
        tracing::debug!(
            target: LOG,
            id = ?finding.id,
            severity = ?finding.severity,
            phase = ?finding.phase,
            ino = finding.ino,
            place = finding.place,
            repaired = finding.repaired,
            "{}",
            finding.message
        );
        *self.counts.entry(finding.id).or_default() += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }
}
