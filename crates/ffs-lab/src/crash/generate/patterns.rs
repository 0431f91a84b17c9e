//! Patterns that have broken file systems before, this one included.
//!
//! Each is a workload text on the standard tree, with these names for what depends on the volume:
//!
//! | name | value |
//! | --- | --- |
//! | `{b}`, `{f}` | the bytes of a block, of a fragment |
//! | `{12b}` | the bytes of twelve blocks; likewise for each number of [`BLOCKS`] |
//! | `{12b+}`, `{12b-}` | 100 bytes more, a byte less |
//! | `{single}` | the bytes to which a single indirect block leads |
//! | `{double}` | a place to which the double indirect block leads |
//! | `{long}` | a text that fits in no inode |
//! | `{1}` to `{6}` | names of which four fill a sector |
//!
//! Reference: `spec/fsck-and-crash.md` §12.2, `spec/soft-updates.md` §2.2, §15.

use ffs_device::{Rng, SplitMix64};
use ffs_ondisk::geometry::NDADDR;

use super::super::geometry::Shape;
use super::super::op::{Op, Path, Space, Workload};
use super::super::text;

/// Small files that take the last fragments of a full volume.
const FRAGMENTS: u32 = 10;
/// Files that take the inodes of a group.
const INODES: u32 = 70;

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
    // fsync below a directory that was renamed.
    "create /A/C/new\nrename /A/C /B/C\nfsync /B/C/new",
    "rename /A /D\ncreate /D/new\nappend /D/new 100\nfsync /D/new",
    "mkdir /N\nmkdir /N/M\ncreate /N/M/f\nfsync /N/M/f",
    "mkdir /N\nrename /foo /N/foo\nfsync /N/foo",
    "mkdir /N\nmkdir /N/M\nrename /foo /N/M/foo\nwait 31",
    "rename /A/C/foo /kept\nrmdir /A/C\nfsync /A",
    "rename /A/C/foo /kept\nrmdir /A/C\nwait 31",
    // The same, of a directory that is renamed before it is removed, or takes another's place.
    "rename /A/C/foo /kept\nrename /A/C /B/D\nrmdir /B/D\nfsync /A",
    "rename /A/C/foo /kept\nrename /A/C /B/D\nrmdir /B/D\nwait 31",
    "rename /A/C/foo /B/kept\nrename /A/C /A/D\nrename /A/D /E\nrmdir /E\nfsync /A",
    "rename /A/C/foo /kept\nrename /A/C /B/e\nrmdir /B/e\nfsync /A",
    "rename /A/C/foo /kept\nrename /A/C /B/D\nwait 1\nrmdir /B/D\nappend /foo 10\nfsync /A",
    "rename /A/C/foo /kept\nrename /A/C /B/D\nmkdir /N\nrename /N /B/D\nfsync /A",
    // The same, with names that are removed between the rename and the end of the directory.
    "create /A/C/x\nsync\nrename /A/C/foo /kept\nrename /A/C /B/D\nunlink /B/D/x\nrmdir /B/D\n\
     fsync /A",
    "mkdir /N\ncreate /A/C/x\nsync\nrename /A/C/foo /kept\nrename /A/C /B/D\nunlink /B/D/x\n\
     rename /N /B/D\nfsync /A",
    "create /A/C/x\nsync\nrename /A/C/foo /kept\nrename /A/C /B/D\nrename /B/D/x /B/y\n\
     unlink /B/y\nrmdir /B/D\nfsync /A",
    "mkdir /A/C/K\nsync\nrename /A/C/foo /kept\nrename /A/C /B/D\nrmdir /B/D/K\nrmdir /B/D\n\
     wait 31",
    "create /A/C/x\nsync\nrename /A/C/foo /kept\nrename /A/C /B/D\nunlink /B/D/x\nwait 1\n\
     rmdir /B/D\nwait 31",
    "create /A/C/x\ncreate /B/h\nsync\nrename /A/C/foo /kept\nrename /A/C /B/D\nunlink /B/h\n\
     unlink /B/D/x\nrmdir /B/D\nfsync /A",
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
    // Fragments that move, are freed, and are allocated to another file.
    "append /foo 300\nappend /foo {f}\ncreate /n\nappend /n {b}\nfsync /n",
    "truncate /A/foo 0\ncreate /n\nappend /n {b}\nfsync /n",
    "truncate /A/foo 10\nappend /A/foo {b}\nfdatasync /A/foo",
    "unlink /B/foo\ncreate /n\nwrite /n 0 60000\nfsync /n",
    "append /foo {f}\ncreate /n\nappend /n 10\nappend /foo {f}\nunlink /n\nappend /foo {f}\n\
     fsync /foo",
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
    // Attributes are written together with other changes.
    "chmod /foo 600\nappend /foo 10\nfdatasync /foo\nchown /foo 3 4\nfsync /foo",
    "create /n\nchmod /n 4755\nlink /n /A/n\nfsync /A",
    // Extended attributes set twice, and removed, while the inode's block is written for another
    // inode.
    "setxattr /foo k 40\nsetxattr /foo k 90\ncreate /n\nfsync /n\nwait 31",
    "setxattr /foo k 40\nsync\nsetxattr /foo k 90\ncreate /n\nfsync /n\nremovexattr /foo k\n\
     wait 31",
    // A renamed file's old name entered again, the new name removed again, a directory made in its
    // place.
    "create /y\nwait 29\nrename /y /B/x\ncreate /y\nfsync /B/x",
    "create /B/y\nlink /B/y /A/C/z\nwait 31\nrename /B/y /foo\nunlink /foo\nfsync /B",
    "mkdir /A/C/d\nsync\nrename /A/C/d /A/e\nwait 1\nmkdir /A/C/d\nrename /A/C/d /A/e\nwait 31",
    // Names swapped; space freed in the middle of a file and allocated to another.
    "exchange /foo /A/foo\nfsync /foo\nexchange /A/foo /B/l\nwait 31",
    "mkdir /N\nexchange /N /A/C\ncreate /N/x\nfsync /N/x\nexchange /A /B\nwait 31",
    "punch /B/foo {b} 49152\ncreate /n\nappend /n 40000\nfsync /n\nwrite /B/foo {b} 100\nwait 31",
    "allocate /foo 0 60000\nfsync /foo\nzero /foo {f} {b}\npunch /foo 0 50000\nwait 31",
    // Synchronous writes between lazy ones.
    "create /n\nwrite /n 0 700 sync\nappend /n 5000\nwrite /n 5 10 sync",
    "append /foo 100\nwrite /A/foo 0 512 sync\nunlink /foo\nwrite /A/foo 512 512 sync",
    // A directory moved away and back below its old place: its first name must not outlive the
    // others.
    "rename /A/C /B/y\nfsync /B\nrename /B/y /A/bar\nfsync /A/bar",
    "rename /A/C /B/y\nrename /B/y /A/bar\nrename /A/bar /B/z\nfsync /B\nrename /B/z /A/q\n\
     rename /A/q /w\nfsync /w",
    // Each of the next ones needs one particular rule: a last name in another directory's block;
    "link /foo /A/C/x\nunlink /foo\nfsync /",
    // a name that changes its sector; a directory that must move while one of its names is removed;
    "create /A/C/{1}\ncreate /A/C/{2}\ncreate /A/C/{3}\ncreate /A/C/{4}\ncreate /A/C/{5}\n\
     create /A/C/{6}\nsync\n\
     unlink /A/C/{5}\nunlink /A/C/{2}\ncreate /A/C/{5}\nfsync /A/C/{5}\nwait 31",
    "mkdir /N\nlink /foo /N/{1}\nlink /A/foo /N/{2}\nlink /A/foo /N/{3}\nlink /A/foo /N/{4}\n\
     create /N/p\n\
     append /N/p 100\nsync\ncreate /N/{5}\nunlink /N/{1}\nsync",
    // a directory that grows in its fragment;
    "create /{1}\ncreate /{2}\ncreate /{3}\ncreate /{4}\ncreate /{5}\nfsync /",
    // a file whose blocks are in another group, one whose inode has to wait for its neighbour's;
    "append /foo 450000\nfdatasync /foo",
    "append /B/foo 70000\ncreate /B/n\nappend /B/n 100\nfsync /B/foo",
    // a name taken over by an object of another kind; a link whose text is not written yet.
    "symlink /s {long}\nrename /s /foo\ncreate /n\nfsync /n\nwait 31",
    "symlink /l {long}\ncreate /n\nfsync /n\nwait 31",
    // A directory moved below its own child, which was moved out of it before.
    "rename /A/C /B/N\nrename /A /B/N/A\nfsync /\nwait 31",
    "rename /A/C /B/N\nrename /A /B/N/A\nfsync /B/N/A/foo",
    // Attributes of more than a block, then few.
    "setxattr /foo k 9000\nfsync /foo\nsetxattr /foo k 20\nwait 31",
    // Made and removed before anything was written.
    "create /n\nappend /n {b}\nunlink /n\nmkdir /m\nrmdir /m\nwait 31",
    // fsync of a file whose directory was durable under another name.
    "rename /A /D\nappend /D/foo 100\nfsync /D/foo",
    "mkdir /stage\nfsync /stage\nfsync /\nrename /stage /live\ncreate /live/f\nfsync /live/f",
    "rename /A /D\nrename /D/C /D/E\nappend /D/E/foo 100\nfdatasync /D/E/foo",
    // A directory and a file changed places, and what was there is removed.
    "mkdir /N\nmkdir /N/M\nexchange /N/M /foo\nfsync /\nunlink /N/M\nrmdir /N",
    "exchange /A/C /B/foo\nfsync /\nunlink /A/C\nunlink /B/foo/foo\nrmdir /B/foo\nwait 31",
    // Files changed places, in a directory and across, and other files are made durable.
    "exchange /foo /A/foo\ncreate /c1\nfsync /c1\ncreate /A/c2\nfsync /A/c2\ncreate /c3\nfsync /c3",
    "create /a\nappend /a 6\nsync\nexchange /a /foo\ncreate /c1\nfsync /c1\ncreate /c2\nfsync /c2",
    "exchange /A/foo /B/foo\nfsync /A\nunlink /B/foo\nfsync /B\nwait 31",
    // Access lists: inherited by files and directories, changed with the mode.
    "mkdir /d\nacl /d default 1001 6\nfsync /d\nfsync /\ncreate /d/secret\nappend /d/secret 19\n\
     create /d/other\nappend /d/other 1\nfsync /d/other",
    "acl /A default 1001 6\nsync\nmkdir /A/D\ncreate /A/D/f\nfsync /A/D/f\nmkfifo /A/D/p\nwait 31",
    "acl /foo access 7 4\nfsync /foo\nchmod /foo 600\nacl /foo access 8 6\nwait 31\n\
     noacl /foo access\nfsync /foo",
    "setxattr /foo system:k 40\nsetxattr /foo k 40\nfsync /foo\nremovexattr /foo system:k\nwait 31",
    // The end of the durable content is punched while an append is in progress; another inode of
    // the block is written.
    "create /f\nappend /f {b}\nappend /f {b}\nappend /f {b}\ncreate /g\nfsync /f\nfsync /g\n\
     append /f {b}\n\
     punch /f {b} {b}\npunch /f {2b} {b}\nappend /g 700\nfsync /g",
    "punch /B/foo {b} 65536\nappend /B/foo {b}\nappend /foo 10\nfsync /foo",
    // Removed while in use; overwritten in place; attributes changed: then a pause.
    "open /A/C/foo\nunlink /A/C/foo\nwait 31\nappend /foo 10\nfsync /foo",
    "write /B/foo 100 9000\nwrite /A/foo 0 4096\nchmod /A/foo 600\nchown /foo 5 6\nwait 31",
    // Whiteouts; a file that gets its name last.
    "whiteout /A/foo /A/bar\nfsync /A/bar\nwhiteout /foo /B/foo\nwait 31\nunlink /foo\nsync",
    "tmpfile /n 5000\ncreate /m\nfsync /m\ntmpfile /A/n 70000\nfsync /A/n\nunlink /n\nwait 31",
    // Remounted in the middle.
    "create /n\nappend /n {b}\nremount ro\nremount rw\nrename /n /m\nappend /m 10\nfsync /m",
    // A device that fails once, and a truncation.
    "create /n\nappend /n {b}\nfault write 2\nfsync /n\nappend /n 10\nfsync /n\nwait 31",
    "rename /foo /bar\nfault flush 1\nfsync /bar\ncreate /foo\nfsync /foo",
    "unlink /B/foo\nfault write 1 torn\nwait 31\ncreate /n\nappend /n 60000\nfsync /n",
    // Directories that changed places, half of it durable, and came back, or moved on.
    "exchange /A/C /B/e\nfsync /B\nexchange /A/C /B/e\nfdatasync /B/e",
    "exchange /A/C /B/e\nfsync /B\nrename /B/e /A/z\nrename /A/C /B/e\nfsync /A/z\nwait 31",
    // A name replaced and removed after an older rename; a name from an exchange, renamed before it
    // is durable.
    "rename /foo /A/x\ncreate /B/t\nappend /B/t 3\nrename /B/t /B/foo\nunlink /B/foo\nfsync /A/foo",
    "rename /foo /A/x\ncreate /B/t\nrename /B/t /B/foo\nunlink /A/foo\nunlink /B/foo\nwait 31",
    "tmpfile /A/n 3000\nunlink /B/foo\nfsync /foo",
    "rename /A/foo /B/foo\nunlink /B/l\nrename /B/foo /A/moved\nfsync /foo",
    "exchange /A/foo /B/foo\nrename /B/foo /A/C/q\nfsync /foo",
    // Truncated in an indirect block, then below it to a block that was a hole.
    "create /n\nwrite /n {12b} 70000\nsync\ntruncate /n {12b+}\nwrite /n {b} 100\n\
     truncate /n {2b}\ncreate /m\nfsync /m",
    // A name that is given by a rename and lost before a write contains it, then a removal.
    "unlink /A/foo\nrename /foo /A/foo\nrmdir /B/e\nunlink /A/foo\nfsync /B",
    "create /A/C/n\nsync\nrename /foo /A/C/n\nrename /A/C/n /A/foo\nunlink /A/foo\nfsync /A",
    // A name removed after a rename, and given to a new file, which may be renamed again.
    "create /B/j\nsync\nrename /foo /A/foo\nunlink /B/j\ncreate /B/j\nfsync /B",
    "create /B/j\nsync\nrename /foo /A/foo\nunlink /B/j\ncreate /B/j\nrename /B/j /B/k\nfsync /B",
    "mkdir /A/D\nmkdir /B/E\nsync\nexchange /A/D /B/E\nrename /B/E /A/C/q\nfsync /foo",
    // A sparse file, truncated into a hole, grows again to a smaller size, while its inode's block
    // is written for another inode: in fragments, in a new indirect block, after a write of the new
    // end; the new end is punched; the old indirect block was punched.
    "create /n\nwrite /n {5b} 100\nsync\ntruncate /n 100\nwrite /n {2b} 100\ncreate /m\n\
     fsync /m",
    "create /n\nwrite /n {40b} 100\nsync\ntruncate /n 100\nwrite /n {14b} 100\ncreate /m\n\
     fsync /m\nwait 31",
    "tight-memory\ncreate /y\nwrite /y {12b-} 466\ncreate /A/C/y\nfdatasync /A/C/y\n\
     allocate /A/C/y {12b-} 2840\ntruncate /y {524b}\nwait 31\ntruncate /y {3b+}\nfsync /foo\n\
     truncate /y {14b}\nwrite /A/C/y {5b} 247\nwait 31",
    "tight-memory\ncreate /B/x\ntruncate /B/x {524b}\nsync\ntruncate /B/x {5b}\n\
     write /B/x {13b+} 598\npunch /B/x {3b+} {3b}\nwait 31",
    "create /n\nwrite /n {14b} 100\nwrite /n {40b} 100\nsync\nwrite /n {double} 100\n\
     punch /n {12b} {single}\nwrite /n {13b} 10\ntruncate /n {14b-}\ncreate /m\nfsync /m\nwait 31",
];

/// The numbers of blocks, more than one, for which patterns have names.
const BLOCKS: [u64; 8] = [2, 3, 5, 12, 13, 14, 40, 524];

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

/// One sparse file written and truncated many times: the memory for it must not grow.
fn sparse_rounds(shape: &Shape) -> Vec<Op> {
    const ROUNDS: u64 = 72;
    let at = || Path::parse("/foo").unwrap_or_else(|| unreachable!("a constant"));
    let end = u64::from(shape.bsize) * 2 * super::core::pointers(shape);
    let rng = SplitMix64::new(1);
    let round = |_| {
        let write = Op::Write { at: at(), offset: rng.below(end), len: 512, sync: false };
        [write, Op::Truncate(at(), rng.below(end))]
    };
    (0..ROUNDS).flat_map(round).chain([Op::Fsync(at())]).collect()
}

/// A new tail of two fragments, and a write that must turn the tail into a block and then fails, so
/// that the tail moves back. The only free block is in another group: the one at `part` tenths of
/// the large file.
fn tail_that_cannot_grow(shape: &Shape, part: u64) -> Workload {
    let (block, frag) = (u64::from(shape.bsize), u64::from(shape.fsize));
    let file = |name: &str| Path::parse(name).unwrap_or_else(|| unreachable!("a constant"));
    let (pair, tail, large) = (file("/A/pair"), file("/V"), file("/full"));
    let mut setup = vec![Op::Create(pair.clone()), Op::Append(pair.clone(), 2 * frag)];
    // The fsync of a file writes the group of its inode, which must be another one.
    setup.extend((0..INODES).map(|number| Op::Create(file(&format!("/A/C/i{number}")))));
    setup.extend([Op::Create(tail.clone()), Op::Fill(large.clone(), 0)]);
    setup.extend(fragments_filled());
    let hole = shape.bytes * part / 10 / block * block;
    setup.extend([Op::Unlink(pair), Op::Space(Space::Punch, large, hole, block)]);
    let ops = vec![
        Op::Append(tail.clone(), 2 * frag),
        Op::Write { at: tail.clone(), offset: block, len: frag, sync: false },
        Op::Fsync(tail),
        Op::Append(file("/A/C/s0"), frag),
        Op::Fsync(file("/A/C/s0")),
        Op::Wait(31),
    ];
    Workload { standard_tree: true, setup, ops, ..Workload::default() }
}

/// Small files that take the fragments that a large file cannot use.
pub(super) fn fragments_filled() -> Vec<Op> {
    let file = |number| Path::parse(&format!("/A/C/s{number}"));
    let files = (0..FRAGMENTS).filter_map(file);
    files.flat_map(|at| [Op::Create(at.clone()), Op::Fill(at, 0)]).collect()
}

/// Every pattern for volumes of this shape.
pub(super) fn all(shape: &Shape) -> Vec<Workload> {
    let (block, frag) = (u64::from(shape.bsize), shape.fsize.to_string());
    let single = super::core::pointers(shape) * block;
    let double = single + (NDADDR as u64 + 1) * block;
    let plain = |ops| Workload { standard_tree: true, ops, ..Workload::default() };
    let pattern = |text: &&str| {
        let sizes = BLOCKS.iter().fold((*text).to_owned(), |text, n| {
            let size = n * block;
            let text = text.replace(&format!("{{{n}b}}"), &size.to_string());
            let text = text.replace(&format!("{{{n}b+}}"), &(size + 100).to_string());
            text.replace(&format!("{{{n}b-}}"), &(size - 1).to_string())
        });
        let text = sizes.replace("{b}", &block.to_string()).replace("{f}", &frag);
        let text = text.replace("{single}", &single.to_string());
        let text = text.replace("{double}", &double.to_string());
        let text = text.replace("{long}", &"t".repeat(150));
        let name = |number| format!("{number}{}", "n".repeat(100));
        let text = (1..=6).fold(text, |text, n| text.replace(&format!("{{{n}}}"), &name(n)));
        let workload = text::parse(&text).unwrap_or_default();
        Workload { standard_tree: true, ..workload }
    };
    let mut all: Vec<Workload> = PATTERNS.iter().map(pattern).collect();
    all.extend(growing_directory(shape).into_iter().map(plain));
    all.push(plain(fresh_inodes(shape)));
    all.push(plain(sparse_rounds(shape)));
    if shape.full {
        all.extend([1, 2, 3, 7].map(|part| tail_that_cannot_grow(shape, part)));
    }
    all.extend(super::journal::patterns(shape));
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
        for (number, pattern) in patterns.iter().enumerate() {
            assert!(!pattern.ops.is_empty(), "pattern {number}");
        }
    }
}
