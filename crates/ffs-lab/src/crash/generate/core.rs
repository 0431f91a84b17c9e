//! The operations that systematic workloads are made of.
//!
//! Reference: `spec/fsck-and-crash.md` §12.2.

use ffs_ondisk::geometry::NDADDR;

use super::super::geometry::Shape;
use super::super::op::{List, Op, Space};
use super::path;

/// Pointers of an indirect block.
pub(super) fn pointers(shape: &Shape) -> u64 {
    let pointer = if shape.format == ffs_ondisk::Format::Ufs2 { 8 } else { 4 };
    u64::from(shape.bsize) / pointer
}

/// The operations that workloads of one, two and three operations are made of.
pub(super) fn ops(shape: &Shape) -> Vec<Op> {
    let fill = if shape.full { vec![Op::Fill(path("A/C/foo"), 0)] } else { Vec::new() };
    [names(), contents(shape), attributes(shape), fill].concat()
}

/// Names made, moved and removed.
fn names() -> Vec<Op> {
    let symlink = |at: &str, len: usize| Op::Symlink(path(at), "t".repeat(len));
    let rename = |a: &str, b: &str| Op::Rename(path(a), path(b));
    let mut ops = Vec::new();
    ops.extend(["bar", "A/bar", "A/C/bar"].map(|at| Op::Create(path(at))));
    ops.push(Op::Mkfifo(path("A/bar")));
    ops.extend(["D", "A/D", "B/e/D"].map(|at| Op::Mkdir(path(at))));
    ops.push(Op::Rmdir(path("B/e")));
    ops.push(Op::Link(path("foo"), path("bar")));
    ops.push(Op::Link(path("A/foo"), path("A/bar")));
    ops.push(Op::Link(path("A/foo"), path("A/C/bar")));
    ops.extend(["foo", "A/foo", "B/foo", "B/l", "A/s", "A/C/foo"].map(|at| Op::Unlink(path(at))));
    // Files: new and existing names, same and other directories, another name of the same file.
    ops.extend(
        [("foo", "bar"), ("A/foo", "A/bar"), ("A/foo", "A/C/bar"), ("A/C/foo", "bar")]
            .map(|(a, b)| rename(a, b)),
    );
    ops.extend(
        [("foo", "A/foo"), ("A/foo", "foo"), ("B/foo", "A/foo"), ("A/foo", "B/l"), ("B/l", "foo")]
            .map(|(a, b)| rename(a, b)),
    );
    // Directories: new name, other parent, over an empty one.
    ops.extend(
        [("A", "D"), ("A/C", "C"), ("A/C", "B/D"), ("A/C", "B/e"), ("B/e", "A/D")]
            .map(|(a, b)| rename(a, b)),
    );
    // Swaps: in a directory, across, of directories, of a file and a directory.
    ops.extend(
        [("foo", "A/foo"), ("A/s", "A/foo"), ("A/C", "B/e"), ("A", "B"), ("B/foo", "A/C")]
            .map(|(a, b)| Op::Exchange(path(a), path(b))),
    );
    ops.extend([symlink("A/bar", 9), symlink("bar", 200)]);
    ops
}

/// A directory with one file, which leaves it, while the directory moves and is removed. Half of
/// the workloads of three operations are made of these: they meet more often than those of [`ops`].
pub(super) fn moves() -> Vec<Op> {
    let rename = |(a, b): (&str, &str)| Op::Rename(path(a), path(b));
    let files = [("A/C/foo", "kept"), ("A/C/foo", "B/foo"), ("A/foo", "A/C/foo"), ("kept", "A/x")];
    let dirs = [("A/C", "B/D"), ("A/C", "A/D"), ("A/C", "B/e"), ("B/D", "D"), ("A/D", "B/e")];
    let mut ops: Vec<Op> = files.into_iter().chain(dirs).map(rename).collect();
    ops.extend(["A/C", "B/D", "A/D", "B/e", "D"].map(|at| Op::Rmdir(path(at))));
    ops.extend(["A/C", "B/D", "A/D"].map(|at| Op::Mkdir(path(at))));
    ops.push(Op::Exchange(path("A/C"), path("B/e")));
    ops.push(Op::Link(path("A/C/foo"), path("kept")));
    ops.extend(["A/C/foo", "A/C/x", "B/D/x"].map(|at| Op::Unlink(path(at))));
    ops.push(Op::Create(path("A/C/x")));
    ops
}

/// Bytes and sizes.
fn contents(shape: &Shape) -> Vec<Op> {
    let (block, frag) = (u64::from(shape.bsize), u64::from(shape.fsize));
    let write = |at: &str, offset, len| Op::Write { at: path(at), offset, len, sync: false };
    // Within a fragment, to the end of a block, a new block, across twelve blocks.
    let mut ops = vec![Op::Append(path("foo"), 60)];
    ops.push(Op::Append(path("foo"), block - 3 * frag + 100));
    ops.push(Op::Append(path("A/foo"), 2 * frag));
    ops.push(Op::Append(path("A/foo"), block));
    ops.push(Op::Append(path("B/foo"), block));
    ops.push(Op::Append(path("A/C/foo"), 13 * block));
    // In place: a part, a sector, a block; a hole; far behind the end.
    ops.push(write("foo", 100, 200));
    ops.push(write("A/foo", 0, block));
    ops.push(write("B/foo", 11 * block + 512, 2 * block));
    ops.push(write("A/C/foo", 2 * block, frag));
    ops.push(write("foo", 20 * block, frag + 9));
    ops.push(Op::Write { at: path("A/foo"), offset: block, len: 300, sync: true });
    ops.push(Op::Write { at: path("A/C/foo"), offset: 0, len: block, sync: true });
    for (at, size) in [
        ("foo", 0),
        ("A/foo", 0),
        ("B/foo", 0),
        ("foo", frag + 3),
        ("A/foo", block - 1),
        ("B/foo", 12 * block + 5),
        ("B/foo", 3 * block),
        ("foo", 3 * block),
        ("A/C/foo", 14 * block),
    ] {
        ops.push(Op::Truncate(path(at), size));
    }
    let space = |how, at: &str, offset, len| Op::Space(how, path(at), offset, len);
    // Grown with space, into a hole and across the twelve blocks; holes; zeros in place and behind.
    ops.push(space(Space::Allocate, "foo", 2 * block, frag + 9));
    ops.push(space(Space::Allocate, "A/C/foo", 11 * block, 2 * block));
    ops.push(space(Space::Punch, "B/foo", block - 100, 3 * block));
    ops.push(space(Space::Punch, "B/foo", 11 * block, 9 * block));
    ops.push(space(Space::Zero, "A/foo", 100, 2 * block));
    // Below two and three indirect blocks, one byte and a fragment; a size there.
    let (single, double) = (NDADDR as u64 + pointers(shape), pointers(shape) * pointers(shape));
    ops.push(write("foo", (single + 3) * block + 100, 1));
    ops.push(write("A/foo", (single + double) * block, frag));
    ops.push(Op::Truncate(path("A/C/foo"), (single + 1) * block + 5));
    ops
}

/// Attributes of all kinds.
fn attributes(shape: &Shape) -> Vec<Op> {
    let mut ops = vec![
        Op::Chmod(path("A/foo"), 0o4711),
        Op::Chown(path("A"), 7, 8),
        Op::Utimes(path("foo"), 1_234_567),
    ];
    if shape.format == ffs_ondisk::Format::Ufs2 {
        ops.push(Op::SetXattr(path("foo"), "system:k".to_owned(), 40));
        ops.push(Op::SetAcl(path("A"), List::Default, 1001, 6));
        ops.push(Op::SetAcl(path("A/foo"), List::Access, 1001, 4));
        ops.push(Op::SetXattr(path("foo"), "k".to_owned(), 40));
        ops.push(Op::SetXattr(path("A/foo"), "k".to_owned(), shape.fsize + 30));
    }
    ops
}
