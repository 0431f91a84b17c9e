//! Images that real BSD systems wrote, with the content that a correct reader must find.
//!
//! **Purpose.** Finds, decompresses and parses the fixtures. They are not part of the source: their
//! directory is `$FFS_FIXTURES`, else `shared/fixtures` beside or above the source tree.

use std::path::{Path, PathBuf};

use ruzstd::decoding::FrameDecoder;

/// The largest raw fixture is 256 MiB.
const MAX_RAW: usize = 320 << 20;

/// Type column of an expected row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpectedKind {
    /// Regular file (also a snapshot file).
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Character device.
    Chr,
    /// Block device.
    Blk,
    /// Socket.
    Socket,
}

/// One file as a correct reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedRow {
    /// Absolute path inside the image.
    pub path: Vec<u8>,
    /// Its type.
    pub kind: ExpectedKind,
    /// `di_size`.
    pub size: u64,
    /// Hash of the content, or of a symbolic link's text; `None` where it was not recorded.
    pub sha256: Option<[u8; 32]>,
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Link count.
    pub nlink: u32,
    /// Modification time, seconds.
    pub mtime: i64,
    /// Modification time, nanoseconds.
    pub mtime_nsec: u32,
    /// Inode number.
    pub inode: u64,
    /// `di_flags`.
    pub flags: u32,
    /// Text of a symbolic link.
    pub target: Vec<u8>,
    /// The independent reader that supplied the content: `tsk`, `netbsd`, `parser`, `none`,
    /// `snapshot`.
    pub reader: String,
}

/// One extended attribute as a correct reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XattrRow {
    /// Absolute path inside the image.
    pub path: Vec<u8>,
    /// Namespace number: 1 user, 2 system.
    pub namespace: u8,
    /// Name without its namespace.
    pub name: Vec<u8>,
    /// Length of the value in bytes.
    pub length: u64,
    /// Hash of the value.
    pub sha256: [u8; 32],
}

/// Where the fixtures are, if they are anywhere.
#[must_use]
pub fn dir() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("FFS_FIXTURES") {
        return Some(PathBuf::from(dir)).filter(|dir| dir.is_dir());
    }
    // Cargo sets the variable at run time; the compiled-in path may be that of another checkout.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR");
    let start = manifest.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    start.ancestors().map(|dir| dir.join("shared/fixtures")).find(|dir| dir.is_dir())
}

/// The raw image `name` (without `.img.zst`), or `None` after a note that the test is skipped.
#[must_use]
pub fn load(name: &str) -> Option<Vec<u8>> {
    let packed = read(&format!("{name}.img.zst"), name)?;
    let mut raw = Vec::with_capacity(raw_size(name).unwrap_or(MAX_RAW));
    match FrameDecoder::new().decode_all_to_vec(&packed, &mut raw) {
        Ok(()) => Some(raw),
        Err(error) => panic!("fixture {name}: {error}"),
    }
}

/// The rows of `name.expected.tsv`, or `None` after a note. Views are named like files:
/// `nb-ufs2-snap.view-s1`.
#[must_use]
pub fn expected(name: &str) -> Option<Vec<ExpectedRow>> {
    rows(name, "expected.tsv", expected_row)
}

/// The rows of `name.xattrs.tsv`, or `None` after a note.
#[must_use]
pub fn xattrs(name: &str) -> Option<Vec<XattrRow>> {
    rows(name, "xattrs.tsv", xattr_row)
}

/// A file of the fixture directory as it is, such as `newfs-golden.tsv`, or `None` after a note.
#[must_use]
pub fn raw_file(name: &str) -> Option<Vec<u8>> {
    read(name, name)
}

/// Names of all images, sorted; empty without fixtures.
#[must_use]
pub fn image_names() -> Vec<String> {
    let entries = dir().and_then(|dir| std::fs::read_dir(dir).ok());
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| Some(file.strip_suffix(".img.zst")?.to_owned()))
        .collect();
    names.sort();
    names
}

fn read(file: &str, name: &str) -> Option<Vec<u8>> {
    let found = dir().map(|dir| dir.join(file)).filter(|path| path.is_file());
    let Some(path) = found else {
        println!("skipped: fixture {name} not found");
        return None;
    };
    match std::fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn raw_size(name: &str) -> Option<usize> {
    let manifest = std::fs::read_to_string(dir()?.join("manifest.tsv")).ok()?;
    let file = format!("{name}.img.zst");
    let row = manifest.lines().find(|line| line.split('\t').next() == Some(&file))?;
    row.split('\t').nth(3)?.parse().ok()
}

fn rows<T>(name: &str, suffix: &str, parse: fn(&[&[u8]]) -> Option<T>) -> Option<Vec<T>> {
    let file = format!("{name}.{suffix}");
    let text = read(&file, name)?;
    let body = text.split(|&byte| byte == b'\n').enumerate().skip(1);
    let row = |(index, line): (usize, &[u8])| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
        match parse(&fields) {
            Some(row) => row,
            None => panic!("{}:{}: cannot parse", Path::new(&file).display(), index + 1),
        }
    };
    Some(body.filter(|(_, line)| !line.is_empty()).map(row).collect())
}

fn expected_row(fields: &[&[u8]]) -> Option<ExpectedRow> {
    let [path, kind, size, sha, mode, uid, gid, nlink, mtime, nsec, inode, flags, target, reader] =
        fields
    else {
        return None;
    };
    let kind = match *kind {
        b"file" => ExpectedKind::File,
        b"dir" => ExpectedKind::Dir,
        b"symlink" => ExpectedKind::Symlink,
        b"fifo" => ExpectedKind::Fifo,
        b"chr" => ExpectedKind::Chr,
        b"blk" => ExpectedKind::Blk,
        b"sock" => ExpectedKind::Socket,
        _ => return None,
    };
    Some(ExpectedRow {
        path: unescape(path)?,
        kind,
        size: number(size)?,
        sha256: if *sha == b"-" { None } else { Some(hash(sha)?) },
        mode: u32::from_str_radix(std::str::from_utf8(mode).ok()?, 8).ok()?,
        uid: number(uid)?,
        gid: number(gid)?,
        nlink: number(nlink)?,
        mtime: number(mtime)?,
        mtime_nsec: number(nsec)?,
        inode: number(inode)?,
        flags: u32::from_str_radix(std::str::from_utf8(flags).ok()?, 16).ok()?,
        target: unescape(target)?,
        reader: String::from_utf8(reader.to_vec()).ok()?,
    })
}

fn xattr_row(fields: &[&[u8]]) -> Option<XattrRow> {
    let [path, namespace, name, length, sha] = fields else {
        return None;
    };
    Some(XattrRow {
        path: unescape(path)?,
        namespace: number(namespace)?,
        name: unescape(name)?,
        length: number(length)?,
        sha256: hash(sha)?,
    })
}

fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn hash(field: &[u8]) -> Option<[u8; 32]> {
    let text =
        std::str::from_utf8(field).ok().filter(|text| text.len() == 64 && text.is_ascii())?;
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(hash)
}

/// Undoes `\\`, `\t`, `\n`, `\r`, `\0`, `\xHH` and three-digit octal `\NNN`.
fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [byte, tail @ ..] = rest {
        if *byte != b'\\' {
            out.push(*byte);
            rest = tail;
            continue;
        }
        let (decoded, used) = escape(tail)?;
        out.push(decoded);
        rest = &tail[used..];
    }
    Some(out)
}

/// The byte of an escape, and the number of bytes of the escape after the backslash.
fn escape(tail: &[u8]) -> Option<(u8, usize)> {
    let digits = |range: std::ops::Range<usize>, radix| {
        let text = std::str::from_utf8(tail.get(range)?).ok()?;
        u8::from_str_radix(text, radix).ok()
    };
    match *tail.first()? {
        b'\\' => Some((b'\\', 1)),
        b't' => Some((b'\t', 1)),
        b'n' => Some((b'\n', 1)),
        b'r' => Some((b'\r', 1)),
        b'x' => Some((digits(1..3, 16)?, 3)),
        b'0'..=b'3' => {
            digits(0..3, 8).map(|byte| (byte, 3)).or((tail[0] == b'0').then_some((0, 1)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn escapes_decode() {
        let plain = unescape(br"a\\b\tc\x2fd\303\274\0e").unwrap();
        assert_eq!(plain, b"a\\b\tc/d\xc3\xbc\0e");
        assert_eq!(unescape("\u{fc}".as_bytes()).unwrap(), "\u{fc}".as_bytes());
        for bad in [&br"\"[..], br"\q", br"\x4", br"\xzz", br"\19"] {
            assert_eq!(unescape(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn every_table_parses() {
        let Some(dir) = dir() else {
            return println!("skipped: no fixtures");
        };
        let mut tables = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            if let Some(name) = file.strip_suffix(".expected.tsv") {
                let rows = expected(name).unwrap();
                assert_eq!(rows[0].path, b"/", "{name}");
                assert!(
                    rows.iter().all(|row| row.mtime_nsec < 1_000_000_000 && row.nlink > 0),
                    "{name}"
                );
                tables += 1;
            } else if let Some(name) = file.strip_suffix(".xattrs.tsv") {
                assert_eq!(xattrs(name).unwrap().len(), 2299, "{name}");
                tables += 1;
            }
        }
        assert!(tables > 20, "{tables}");
    }

    #[test]
    fn symlink_hashes_are_those_of_the_text() {
        for row in expected("makefs-ufs1-le").unwrap_or_default() {
            if row.kind == ExpectedKind::Symlink {
                assert_eq!(row.target.len() as u64, row.size);
                assert_eq!(Some(<[u8; 32]>::from(Sha256::digest(&row.target))), row.sha256);
            }
        }
    }

    #[test]
    fn images_decompress_to_the_sizes_and_sums_of_the_manifest() {
        let Some(manifest) = raw_file("manifest.tsv") else {
            return;
        };
        let manifest = String::from_utf8(manifest).unwrap();
        let names = image_names();
        for name in ["part-gpt-ufs2", "openbsd28-ufs1-floppy", "freebsd12-ufs2-5m"] {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
            let raw = load(name).unwrap();
            let line =
                manifest.lines().find(|line| line.starts_with(&format!("{name}.img"))).unwrap();
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(raw.len().to_string(), fields[3]);
            assert_eq!(hash(fields[4].as_bytes()), Some(Sha256::digest(&raw).into()));
        }
    }

    #[test]
    fn what_is_absent_is_skipped() {
        assert!(load("no-such-image").is_none());
        assert!(expected("no-such-image").is_none());
    }
}
