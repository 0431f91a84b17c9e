//! The crash contract: its rules by their labels, with the statement of each.
//!
//! `ffs lab crash --rules` prints this table, and a run that finds a violation prints the rows of
//! the rules that were broken.
//!
//! # Invariants
//! 1. The tables are those of `docs/spec/fsck-and-crash.md` §9 and §11.3, word for word; a test
//!    compares them.

use ffs_admin::fsck::Id;

/// What kind of rule a label names. The first letter of the label is the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// F: a state that no crash may leave.
    Never,
    /// A: a state that a crash may leave, with its repair.
    Allowed,
    /// G: a guarantee to programs.
    Guarantee,
    /// X: a constraint across objects.
    Constraint,
    /// J: what holds of a soft-updates journal.
    Journal,
    /// S: what snapshots show.
    Snapshot,
}

impl RuleKind {
    /// The kinds in the order of the contract.
    pub const ALL: [RuleKind; 6] = [
        RuleKind::Never,
        RuleKind::Allowed,
        RuleKind::Guarantee,
        RuleKind::Constraint,
        RuleKind::Journal,
        RuleKind::Snapshot,
    ];

    /// A heading for the rules of this kind.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            RuleKind::Never => "F: no crash may leave this, before any repair",
            RuleKind::Allowed => "A: a crash may leave this; fsck -p repairs it without loss",
            RuleKind::Guarantee => "G: guaranteed to programs, after fsck -p",
            RuleKind::Constraint => "X: constraints across objects, on the whole tree",
            RuleKind::Journal => "J: of the soft-updates journal (--ordering suj)",
            RuleKind::Snapshot => "S: of snapshots, before and after fsck -p",
        }
    }
}

/// A rule of the crash contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContractRule {
    /// The kind of rule.
    pub kind: RuleKind,
    /// `F1`, `A16`, `G8`, `X4`, `J2`.
    pub label: &'static str,
    /// The rule in a sentence or a few.
    pub statement: &'static str,
    /// Of an allowed state: where it comes from, and the repair. Empty for other kinds.
    pub repair: &'static str,
}

/// A check of the laboratory, or a violation that no rule of the contract covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// `C1` to `C8`, `LINK`, `RUN`, `SB`, `CG`.
    pub label: &'static str,
    /// When it is violated.
    pub statement: &'static str,
}

const fn rule(kind: RuleKind, label: &'static str, statement: &'static str) -> ContractRule {
    ContractRule { kind, label, statement, repair: "" }
}

const fn never(label: &'static str, statement: &'static str) -> ContractRule {
    rule(RuleKind::Never, label, statement)
}

const fn allowed(
    label: &'static str,
    statement: &'static str,
    repair: &'static str,
) -> ContractRule {
    ContractRule { kind: RuleKind::Allowed, label, statement, repair }
}

const fn guaranteed(label: &'static str, statement: &'static str) -> ContractRule {
    rule(RuleKind::Guarantee, label, statement)
}

const fn across(label: &'static str, statement: &'static str) -> ContractRule {
    rule(RuleKind::Constraint, label, statement)
}

const fn journal(label: &'static str, statement: &'static str) -> ContractRule {
    rule(RuleKind::Journal, label, statement)
}

const fn snapshot(label: &'static str, statement: &'static str) -> ContractRule {
    rule(RuleKind::Snapshot, label, statement)
}

/// The contract, in the order of `docs/spec/fsck-and-crash.md` §9.
pub const CONTRACT: &[ContractRule] = &[
    never("F1", "A name leads to an inode of mode 0, of unknown type, or out of range."),
    never("F2", "A name leads to an inode whose bitmap bit is clear."),
    never("F3", "A pointer leads to a fragment marked free, out of range, or to metadata."),
    never(
        "F4",
        "Two pointers lead to one fragment, among all inodes with a mode and a bitmap bit.",
    ),
    never(
        "F5",
        "A link count is below the number of names (of a directory: its name, `.`, and the `..` \
         of its children).",
    ),
    never(
        "F6",
        "A file shows content of another file, of a deleted file, or of the device before its \
         use.",
    ),
    never("F7", "An indirect block that a file uses holds anything but zeros and valid pointers."),
    never(
        "F8",
        "A named directory has no `.` to itself and no `..` to a live directory in its first 512 \
         bytes, a directory block that its records do not fill, a hole, or size 0.",
    ),
    never(
        "F9",
        "A file that had a durable name, and always at least one name for programs, has no name \
         that the root leads to.",
    ),
    never("F10", "A name refers to an inode that was freed and allocated again since."),
    never("F11", "`d_type` in an entry differs from the type of the inode."),
    never(
        "F12",
        "A pointer beyond the size; a size or pointers in an inode of mode 0. Exception: a \
         pointer in an indirect block of a directory (A1).",
    ),
    never(
        "F13",
        "Something that `fsync`, `O_SYNC`, `sync` or unmount reported durable is missing.",
    ),
    never("F14", "One name occurs twice in a directory, or `.` or `..` does."),
    never(
        "F15",
        "A directory's count would have to be raised once every `..` names the directory where \
         the name is.",
    ),
    allowed(
        "A1",
        "A fragment is marked in use, and nothing refers to it; or only a pointer of a \
         directory's indirect block beyond the size does.",
        "The bitmap precedes the pointer, and follows it when freed. CG-LEAK: freed. IND-TRUNC: \
         the pointer is dropped.",
    ),
    allowed(
        "A2",
        "An inode is marked in use, and it is all zero.",
        "The bitmap precedes the inode, and follows it when freed. CG-LEAK: freed.",
    ),
    allowed(
        "A3",
        "An inode has content and no name.",
        "The inode precedes its name; or the name is removed and the inode not yet cleared. \
         INO-UNREF0, INO-UNREF, DIR-UNREF: cleared.",
    ),
    allowed(
        "A4",
        "A link count is too high.",
        "Raised before the name, lowered after it. LINK-HIGH: lowered.",
    ),
    allowed(
        "A5",
        "A renamed file has both names; a target that is to be replaced still has its old \
         meaning; an exchange record is in the root.",
        "The new name precedes the removal of the old. Files keep both (LINK-HIGH corrects the \
         count). ENT-HARDDIR: of a directory the name that `..` names is kept; of two in one \
         directory the first. ENT-EXCHANGE: completed or taken back.",
    ),
    allowed(
        "A6",
        "`..` of a moved directory names the other parent.",
        "Name and `..` are in different blocks. DOTDOT-WRONG: set, counts follow.",
    ),
    allowed(
        "A7",
        "Stale counts: groups, `fs_cstotal`, summary area, cluster maps, `fs_time`, `fs_clean`, \
         pending counts.",
        "Counts are not ordered. CG-SUMMARY, CS-CG, CS-TOTAL, CG-MAPS: recounted.",
    ),
    allowed(
        "A8",
        "`di_blocks` is wrong.",
        "It is not rolled back with pointers. INO-BLOCKS: recounted.",
    ),
    allowed(
        "A9",
        "The size of a file that needs indirect blocks ends behind its last block.",
        "The size is not rolled back for pointers in indirect blocks. INO-ENDHOLE: shortened.",
    ),
    allowed(
        "A10",
        "A hole in a file, where data had been written but not synced.",
        "Pointers become durable in any order. No repair.",
    ),
    allowed(
        "A11",
        "In a file that was overwritten, or truncated inside a block, since the last durable \
         point: old bytes, new bytes, or zeros of that file, sector by sector.",
        "Content that overwrites a block in place is not ordered. No repair.",
    ),
    allowed(
        "A12",
        "Times, mode, owner, flags are older than the last completed call.",
        "Attributes are written with the next image of the inode. No repair.",
    ),
    allowed(
        "A13",
        "A file that was removed while in use: link count 0, with blocks.",
        "Its last user ended with the crash. INO-UNREF0: cleared.",
    ),
    allowed(
        "A14",
        "A record with `d_ino` 0 inside a directory block.",
        "A name that is rolled back, or a reserved record. Legal content; no repair.",
    ),
    allowed(
        "A15",
        "A snapshot file whose size or blocks lag.",
        "It is being created or removed. See `snapshots.md`.",
    ),
    allowed(
        "A16",
        "A block of several sectors, each of which is old or new.",
        "A sector is the unit of atomicity. Inodes, records and pointers are inside sectors. \
         Groups: A1, A2, A7, and CG-HASH. Superblock: SB-TORN.",
    ),
    guaranteed(
        "G1",
        "`fsync(f)` returned: content, size, attributes and extended attributes of f as of the \
         call, or later. f is found under every name that it had, unless that was removed or \
         renamed since; then under the old or the new one. With `fsync=all` every change of \
         names before the call, in any directory, is durable.",
    ),
    guaranteed(
        "G2",
        "`fsync(dir)` returned: entries added before are there, entries removed before are not, \
         and each inode is initialised. The content of the files is not included.",
    ),
    guaranteed(
        "G3",
        "`sync`, `syncfs`, unmount, or remount read-only returned: everything before.",
    ),
    guaranteed("G4", "A write with `O_SYNC` or `O_DSYNC` returned: as G1 for that write."),
    guaranteed(
        "G5",
        "Create, not synced: absent, or there with its type, mode and owner, and content per G8.",
    ),
    guaranteed("G6", "Mkdir, not synced: absent, or there, complete."),
    guaranteed("G7", "Symbolic link, not synced: absent, or there with its whole target."),
    guaranteed(
        "G8",
        "Data appended, not synced: the size is one that the file had since the last durable \
         point, or the end of the last durable block or of an old fragment run. Each sector \
         inside holds data written since, last synced data, or zero. No foreign data.",
    ),
    guaranteed("G9", "Overwritten in place, not synced: each sector is old or new."),
    guaranteed(
        "G10",
        "Truncated, not synced: the old or the new size; if the file grew again before the \
         crash, zeros or old bytes in the range that was removed (A11). If the truncation is \
         durable: zeros in that range when the file grows again.",
    ),
    guaranteed(
        "G11",
        "Truncated to nothing and written again, not synced: the old content, or empty, or the \
         new content per G8. Old bytes never occur inside the new content.",
    ),
    guaranteed("G12", "Unlink, directory not synced: the name with the complete file, or no name."),
    guaranteed("G13", "Rmdir, not synced: there and empty, or absent."),
    guaranteed(
        "G14",
        "Link, not synced: the new name is there or not; the old one is there. `link(a, b); \
         unlink(a)`: at least one is there.",
    ),
    guaranteed("G15", "Rename of a to b, no b before, not synced: a, or both, or b; never none."),
    guaranteed(
        "G16",
        "Rename of a to b that existed, not synced: b names its old file or that of a, at every \
         moment. a is there or not.",
    ),
    guaranteed(
        "G17",
        "Write to tmp, `fsync(tmp)`, rename tmp to b: b has its old or the complete new content.",
    ),
    guaranteed(
        "G18",
        "A name that a rename, an exchange or a link gave comes with the content that the file \
         had then, or newer, also without `fsync`.",
    ),
    guaranteed(
        "G19",
        "Rename of a directory to another parent: the tree is complete under the old name, the \
         new one, or both before the check; `..` agrees after it.",
    ),
    guaranteed(
        "G20",
        "Attributes and extended attributes, not synced: an old set or a new one, never a \
         mixture. A name is there only with the access lists that the file inherited.",
    ),
    guaranteed(
        "G21",
        "Different objects, not synced: no order, except: one name takes its values in order; a \
         parent comes before its child; everything before a call of G1 to G4 as stated there; \
         X8.",
    ),
    guaranteed("G22", "No directory has one name twice."),
    guaranteed(
        "G23",
        "`fsync` reported an error: nothing is promised for that object; everything else is \
         unaffected.",
    ),
    guaranteed(
        "G24",
        "Ordered synchronous writes: G1 to G4. Names of G5, G6 and G12 to G16 are durable when \
         the call returns. G8 without \"no foreign data\". A check is needed after a crash.",
    ),
    guaranteed(
        "G25",
        "No ordering: G1 for the content of a file whose names were synced too, if nothing came \
         after. Nothing else. Of an offline command that was interrupted: after `fsck -y` every \
         file that it did not work on.",
    ),
    across("X1", "Every object that had a durable name, and always one afterwards, has a name."),
    across("X2", "The old name of a rename is absent only if the new one, or a later one, exists."),
    across("X3", "A name leads only to an object that had it."),
    across("X4", "A name whose value is durable is there, with that value or a later one."),
    across("X5", "Every name was given by the workload."),
    across(
        "X6",
        "After the check no fragment is lost: free fragments and fragments of files are all \
         there are.",
    ),
    across(
        "X7",
        "After the check, or the next mount, both names of an exchange have changed, or neither \
         has.",
    ),
    across(
        "X8",
        "A removed name is absent, or given to another file, only if every name exists that an \
         earlier rename, exchange or link gave. This holds for names that the device had when they \
         were removed.",
    ),
    journal("J1", "Records are durable before metadata that shows their changes is written."),
    journal("J2", "A segment that a recovery may need is not overwritten."),
    journal(
        "J3",
        "After a recovery by the journal a full check finds nothing, writes nothing, and sees the \
         clean mark. The tree is one that the workload may have left.",
    ),
    journal(
        "J4",
        "A recovery uses the journal, except if a directory was being moved, an exchange was \
         under way, the superblock was being written, a write had failed, or the journal was \
         given up.",
    ),
    journal("J5", "A journal that was given up, or that an earlier mount wrote, is not used."),
    journal(
        "J6",
        "A recovery that is interrupted anywhere ends in the same bytes the next time, times \
         aside.",
    ),
    snapshot(
        "S1",
        "A snapshot that the superblock lists shows the tree of its moment: names, content, \
         attributes; before and after every check.",
    ),
    snapshot(
        "S2",
        "Making a snapshot returned: the superblock lists it, until the removal of its last \
         name begins.",
    ),
    snapshot(
        "S3",
        "A snapshot that was not made yet is absent, or an empty file. Exception: before a \
         check the superblock may list the file. After the check nothing of it is lost (X6).",
    ),
    snapshot(
        "S4",
        "A snapshot whose last name is being removed is whole and listed, or it is not \
         listed. If the removal returned it is not listed.",
    ),
    snapshot(
        "S5",
        "A full check of a snapshot finds nothing. If the volume was unchecked, the snapshot \
         has only what the volume had.",
    ),
];

/// The checks of a state, and the violations that no rule of the contract covers.
pub const CHECKS: &[Check] = &[
    check("C1", "The image, unrepaired, breaks the contract."),
    check("C2", "`fsck -p` fails, or makes a repair that no crash may call for."),
    check("C3", "After `fsck -p` a full check finds or writes something."),
    check("C4", "The repaired tree is not one that the workload may have left."),
    check("C5", "Mounted unrepaired and used, the volume breaks the contract."),
    check("C6", "An interrupted `fsck -p` ends differently when it runs again."),
    check("C7", "Checked in the background, the unrepaired volume is not clean or not whole."),
    check("C8", "After an interrupted growfs or tunefs the next run does not complete it."),
    check("LINK", "after the repair a link count is too high"),
    check("RUN", "the workload could not be run or ended; memory is out of proportion"),
    check("SB", "the superblock cannot be read"),
    check("CG", "constants of a group cannot be read"),
];

const fn check(label: &'static str, statement: &'static str) -> Check {
    Check { label, statement }
}

/// The labels in the name of a violation, each with its statement.
///
/// `F3` has one label. `C3:F3` is the rule F3 in check C3, `C2:LINK-LOW` the fsck finding LINK-LOW
/// in check C2. Parts without a statement (`C2:EXIT`) are left out.
pub fn explain(violation: &str) -> impl Iterator<Item = (&str, &'static str)> {
    violation.split(':').filter_map(|label| Some((label, statement(label)?)))
}

fn statement(label: &str) -> Option<&'static str> {
    let rule = CONTRACT.iter().find(|rule| rule.label == label).map(|rule| rule.statement);
    let check = || CHECKS.iter().find(|check| check.label == label).map(|check| check.statement);
    let finding = || Id::ALL.iter().find(|id| id.as_str() == label).map(|id| id.meaning());
    rule.or_else(check).or_else(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specification() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec/fsck-and-crash.md");
        std::fs::read_to_string(path).unwrap()
    }

    /// The table rows between two headings, as cells.
    fn rows<'a>(text: &'a str, from: &str, to: &str) -> Vec<Vec<&'a str>> {
        let (_, text) = text.split_once(from).unwrap();
        let (text, _) = text.split_once(to).unwrap();
        let cells = |line: &'a str| {
            let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
            Some(line.split(" | ").collect())
        };
        text.lines().filter_map(cells).collect()
    }

    #[test]
    fn the_contract_is_the_table_of_the_specification() {
        let text = specification();
        let rows = rows(&text, "\n## 9 ", "\n## 10 ");
        let documented: Vec<_> =
            rows.iter().skip_while(|row| row[0] != "F1").map(|row| row.as_slice()).collect();
        assert_eq!(documented.len(), CONTRACT.len());
        for (row, rule) in documented.iter().zip(CONTRACT) {
            assert_eq!(row[..2], [rule.label, rule.statement]);
            if rule.kind == RuleKind::Allowed {
                assert_eq!(row[2], rule.repair, "{}", rule.label);
            }
        }
    }

    #[test]
    fn the_checks_are_those_of_the_specification() {
        let text = specification();
        let rows = rows(&text, "\n### 11.3 ", "\n### 11.4 ");
        for check in CHECKS {
            let row = rows.iter().find(|row| row[0] == check.label).unwrap();
            if !check.label.starts_with('C') || check.label == "CG" {
                assert_eq!(row[1], check.statement);
            }
        }
    }

    #[test]
    fn the_parts_of_a_violation_are_explained() {
        let labels = |violation| explain(violation).map(|(label, _)| label).collect::<Vec<_>>();
        assert_eq!(labels("F3"), ["F3"]);
        assert_eq!(labels("C3:F14"), ["C3", "F14"]);
        assert_eq!(labels("C2:LINK-LOW"), ["C2", "LINK-LOW"]);
        assert_eq!(labels("C2:EXIT"), ["C2"]);
    }
}
