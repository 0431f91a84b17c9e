//! Patterns that have broken file systems before, ours among them.
//!
//! Each is a workload text on the standard tree; `{b}` stands for a block, `{f}` for a fragment,
//! `{long}` for what fits in no inode, `{1}` to `{6}` for names of which four fill a sector.
//!
//! Reference: `spec/fsck-and-crash.md` §12.2, `spec/soft-updates.md` §2.2, §15.

use super::super::geometry::Shape;
use super::super::op::{Op, Path};
use super::super::text;

const PATTERNS: &[&str] = &[
    // Rename, then another file of the old name, and fsync of that.
    "rename /foo /bar\ncreate /foo\nappend /foo 700\nfsync /foo",
    // Over a file that was made durable.
    "append /A/foo 100\nfsync /A/foo\nrename /foo /A/foo\nfsync /A",
    // The portable way to replace a file, with fsync and without.
    "create /tmp\nappend /tmp 5000\nfsync /tmp\nrename /tmp /foo\nfsync /",
    "create /tmp\nappend /tmp 5000\nrename /tmp /foo\nwait 31",
    // Link, unlink, make again.
    "link /foo /bar\nunlink /foo\ncreate /foo\nfsync /foo\nsync",
    "unlink /foo\ncreate /foo\nappend /foo 300\nfsync /foo",
    "unlink /A/foo\nlink /B/foo /A/foo\nwait 31\nunlink /B/foo\nfsync /A",
    // fsync behind a directory that was renamed.
    "create /A/C/new\nrename /A/C /B/C\nfsync /B/C/new",
    "rename /A /D\ncreate /D/new\nappend /D/new 100\nfsync /D/new",
    "mkdir /N\nmkdir /N/M\ncreate /N/M/f\nfsync /N/M/f",
    "mkdir /N\nrename /foo /N/foo\nfsync /N/foo",
    "mkdir /N\nmkdir /N/M\nrename /foo /N/M/foo\nwait 31",
    "rename /A/C/foo /kept\nrmdir /A/C\nfsync /A",
    "rename /A/C/foo /kept\nrmdir /A/C\nwait 31",
    // Swaps through a third name.
    "rename /foo /t\nrename /A/foo /foo\nrename /t /A/foo\nsync",
    "rename /foo /t\nrename /B/foo /foo\nrename /t /B/foo\nwait 31",
    "rename /A /T\nrename /B /A\nrename /T /B\nfsync /",
    // A chain: each replaces the next.
    "create /c1\ncreate /c2\nsync\nrename /c1 /c2\nrename /c2 /foo\nrename /foo /A/foo\nwait 31",
    // A directory that replaces an empty one, and is moved on.
    "rename /A/C /B/e\nrename /B/e /C\nfsync /C",
    "rmdir /B/e\nmkdir /B/e\ncreate /B/e/f\nfsync /B/e/f",
    "rmdir /B/e\ncreate /B/e\nfsync /B/e",
    "unlink /foo\nmkdir /foo\ncreate /foo/f\nfsync /foo",
    // The cycle: created and removed in one block of inodes and one of a directory.
    "create /A/n1\nunlink /A/C/foo\nwait 31",
    "create /A/n1\nunlink /A/foo\ncreate /A/n2\nunlink /A/n1\nsync",
    "create /n1\nlink /n1 /A/n1\nunlink /n1\ncreate /n1\nwait 31\nsync",
    // A name removed and entered again: in its slot, in another one.
    "unlink /A/foo\ncreate /A/foo\nwait 31",
    "rename /A/foo /A/x\ncreate /A/foo\nunlink /A/x\nwait 31",
    // Fragments that move, are given back, and taken by another file.
    "append /foo 300\nappend /foo {f}\ncreate /n\nappend /n {b}\nfsync /n",
    "truncate /A/foo 0\ncreate /n\nappend /n {b}\nfsync /n",
    "truncate /A/foo 10\nappend /A/foo {b}\nfdatasync /A/foo",
    "unlink /B/foo\ncreate /n\nwrite /n 0 60000\nfsync /n",
    "append /foo {f}\ncreate /n\nappend /n 10\nappend /foo {f}\nunlink /n\nappend /foo {f}\nfsync /foo",
    // Across the border of the indirect block, there and back.
    "append /B/foo {b}\ntruncate /B/foo {b}\nappend /B/foo 100\nfsync /B/foo",
    "create /n\nwrite /n 50000 10\nwrite /n 0 10\nfsync /n\ntruncate /n 0\nfsync /n",
    "truncate /B/foo 0\nwrite /B/foo 55000 {b}\nwait 31\ntruncate /B/foo 20\nsync",
    // Removed while in use.
    "open /foo\nunlink /foo\nsync\nclose\nsync",
    "open /B/foo\nunlink /B/foo\nwait 31\nclose\nwait 31",
    "open /foo\nrename /A/foo /foo\nfsync /\nclose\nwait 31",
    // Long symbolic links, made and removed.
    "symlink /l {long}\nfsync /\nunlink /l\nwait 31",
    // Attributes ride along.
    "chmod /foo 600\nappend /foo 10\nfdatasync /foo\nchown /foo 3 4\nfsync /foo",
    "create /n\nchmod /n 4755\nlink /n /A/n\nfsync /A",
    // Extended attributes set twice, and removed, while the inode's block is written for another's sake.
    "setxattr /foo k 40\nsetxattr /foo k 90\ncreate /n\nfsync /n\nwait 31",
    "setxattr /foo k 40\nsync\nsetxattr /foo k 90\ncreate /n\nfsync /n\nremovexattr /foo k\nwait 31",
    // A renamed file's old name entered again, the new name removed again, a directory made in its place.
    "create /y\nwait 29\nrename /y /B/x\ncreate /y\nfsync /B/x",
    "create /B/y\nlink /B/y /A/C/z\nwait 31\nrename /B/y /foo\nunlink /foo\nfsync /B",
    "mkdir /A/C/d\nsync\nrename /A/C/d /A/e\nwait 1\nmkdir /A/C/d\nrename /A/C/d /A/e\nwait 31",
    // Names swapped; space given back in the middle of a file and taken by another.
    "exchange /foo /A/foo\nfsync /foo\nexchange /A/foo /B/l\nwait 31",
    "mkdir /N\nexchange /N /A/C\ncreate /N/x\nfsync /N/x\nexchange /A /B\nwait 31",
    "punch /B/foo {b} 49152\ncreate /n\nappend /n 40000\nfsync /n\nwrite /B/foo {b} 100\nwait 31",
    "allocate /foo 0 60000\nfsync /foo\nzero /foo {f} {b}\npunch /foo 0 50000\nwait 31",
    // Synchronous writes between lazy ones.
    "create /n\nwrite /n 0 700 sync\nappend /n 5000\nwrite /n 5 10 sync",
    "append /foo 100\nwrite /A/foo 0 512 sync\nunlink /foo\nwrite /A/foo 512 512 sync",
    // A directory moved away and back below where it was; what it left first must not outlive the way.
    "rename /A/C /B/y\nfsync /B\nrename /B/y /A/bar\nfsync /A/bar",
    "rename /A/C /B/y\nrename /B/y /A/bar\nrename /A/bar /B/z\nfsync /B\nrename /B/z /A/q\nrename /A/q /w\nfsync /w",
    // The next ones each need one rule more than others: a last name in another directory's block;
    "link /foo /A/C/x\nunlink /foo\nfsync /",
    // a name that changes its sector; a directory that had to move while a name of it goes;
    "create /A/C/{1}\ncreate /A/C/{2}\ncreate /A/C/{3}\ncreate /A/C/{4}\ncreate /A/C/{5}\ncreate /A/C/{6}\nsync\n\
     unlink /A/C/{5}\nunlink /A/C/{2}\ncreate /A/C/{5}\nfsync /A/C/{5}\nwait 31",
    "mkdir /N\nlink /foo /N/{1}\nlink /A/foo /N/{2}\nlink /A/foo /N/{3}\nlink /A/foo /N/{4}\ncreate /N/p\n\
     append /N/p 100\nsync\ncreate /N/{5}\nunlink /N/{1}\nsync",
    // a directory that grows in its fragment;
    "create /{1}\ncreate /{2}\ncreate /{3}\ncreate /{4}\ncreate /{5}\nfsync /",
    // a file whose blocks are in another group, one whose inode has to wait for its neighbour's;
    "append /foo 450000\nfdatasync /foo",
    "append /B/foo 70000\ncreate /B/n\nappend /B/n 100\nfsync /B/foo",
    // a name taken over by something of another kind; a link whose text is not there yet.
    "symlink /s {long}\nrename /s /foo\ncreate /n\nfsync /n\nwait 31",
    "symlink /l {long}\ncreate /n\nfsync /n\nwait 31",
    // A directory moved below its own child, which was moved out of it before.
    "rename /A/C /B/N\nrename /A /B/N/A\nfsync /\nwait 31",
    "rename /A/C /B/N\nrename /A /B/N/A\nfsync /B/N/A/foo",
    // Attributes of more than a block, then few.
    "setxattr /foo k 9000\nfsync /foo\nsetxattr /foo k 20\nwait 31",
    // Made and removed before anything was written.
    "create /n\nappend /n {b}\nunlink /n\nmkdir /m\nrmdir /m\nwait 31",
    // Directories that changed places, half of it durable, and came back, or moved on.
    "exchange /A/C /B/e\nfsync /B\nexchange /A/C /B/e\nfdatasync /B/e",
    "exchange /A/C /B/e\nfsync /B\nrename /B/e /A/z\nrename /A/C /B/e\nfsync /A/z\nwait 31",
];

/// Files that make a directory grow over a fragment and a block.
fn growing_directory(shape: &Shape) -> Vec<Vec<Op>> {
    let long = "n".repeat(100);
    let file = |dir: &str, number: u32| {
        Path::parse(&format!("{dir}/{number:03}{long}"))
            .unwrap_or_else(|| unreachable!("a constant"))
    };
    // A record of such a name is 112 bytes: four a chunk, and one chunk more than fits.
    let over = |bytes: u32| bytes / 512 * 4 + 3;
    let grow = |dir: &str, bytes: u32| -> Vec<Op> {
        (0..over(bytes)).map(|number| Op::Create(file(dir, number))).collect()
    };
    let (frag, block) = (shape.fsize, shape.bsize.min(8192));
    let at = |dir: &str| Path::parse(dir).unwrap_or_else(|| unreachable!("a constant"));
    let fragment = [grow("/A/C", frag), vec![Op::Fsync(at("/A/C"))]].concat();
    let whole = [grow("/B/e", block), vec![Op::Sync]].concat();
    let remove = (0..over(frag)).map(|number| Op::Unlink(file("/A/C", number)));
    let shrunk: Vec<Op> = [
        grow("/A/C", frag),
        vec![Op::Sync],
        remove.collect(),
        vec![Op::Create(at("/A/C/n")), Op::Wait(31)],
    ]
    .concat();
    vec![fragment, whole, shrunk]
}

/// More files than a group has inodes made for (UFS2).
fn fresh_inodes(shape: &Shape) -> Vec<Op> {
    let made = 2 * shape.bsize / 256;
    let file = |number: u32| Path::parse(&format!("/A/C/{number}"));
    let files = (0..made + 4).filter_map(file).map(Op::Create);
    let directory = Path::parse("/A/C").map(Op::Fsync);
    files.chain(directory).chain([Op::Wait(31)]).collect()
}

/// Every pattern for volumes of this shape.
pub(super) fn all(shape: &Shape) -> Vec<Vec<Op>> {
    let (block, frag) = (shape.bsize.to_string(), shape.fsize.to_string());
    let ops = |text: &&str| {
        let text = text.replace("{b}", &block).replace("{f}", &frag);
        let text = text.replace("{long}", &"t".repeat(150));
        let name = |number| format!("{number}{}", "n".repeat(100));
        let text = (1..=6).fold(text, |text, n| text.replace(&format!("{{{n}}}"), &name(n)));
        text::parse(&text).map(|workload| workload.ops).unwrap_or_default()
    };
    let mut all: Vec<Vec<Op>> = PATTERNS.iter().map(ops).collect();
    all.extend(growing_directory(shape));
    all.push(fresh_inodes(shape));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::geometry::SHAPES;

    #[test]
    fn every_pattern_can_be_read() {
        let patterns = all(&SHAPES[0]);
        assert!(patterns.len() > 40);
        for (number, ops) in patterns.iter().enumerate() {
            assert!(!ops.is_empty(), "pattern {number}");
        }
    }
}
