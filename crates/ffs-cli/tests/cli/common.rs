//! What the tests of the command share: running it, images, trees.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin_cmd;

/// A command that runs longer is stopped, so that a hang fails its test by name. Waiting loops of
/// tests have the same limit.
pub(crate) const HANGS: Duration = Duration::from_secs(300);

/// The command, in an environment that does not show.
pub(crate) fn ffs() -> Command {
    let mut command = cargo_bin_cmd!("ffs");
    command.timeout(HANGS);
    command.env_remove("SOURCE_DATE_EPOCH").env_remove("RUST_LOG").env("LC_ALL", "C");
    command
}

/// Runs `ffs ARGS...`.
pub(crate) fn run<S: AsRef<OsStr>>(args: &[S]) -> Output {
    ffs().args(args).output().unwrap()
}

/// Runs `ffs ARGS...`, which must succeed; returns what it printed.
pub(crate) fn ok<S: AsRef<OsStr> + std::fmt::Debug>(args: &[S]) -> String {
    let output = run(args);
    assert!(output.status.success(), "ffs {args:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The objects that `--json` printed, one a line.
pub(crate) fn json_lines<T: From<Vec<serde_json::Value>>>(printed: &str) -> T {
    let objects = printed.lines().map(|line| serde_json::from_str(line).unwrap());
    objects.collect::<Vec<serde_json::Value>>().into()
}

/// Runs `ffs ARGS...`, which must exit with `code` and say `words` on standard error.
pub(crate) fn fails<S: AsRef<OsStr> + std::fmt::Debug>(
    args: &[S],
    code: i32,
    words: &str,
) -> String {
    let output = run(args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "ffs {args:?}: {}", text(&output));
    assert!(stderr.contains(words), "ffs {args:?}: {words:?} not in: {stderr}");
    stderr
}

/// Exit status, standard output and error, for messages.
pub(crate) fn text(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{}\n{out}{}", output.status, String::from_utf8_lossy(&output.stderr))
}

/// `fsck -n` must be silent.
pub(crate) fn fsck_clean(image: &Path) {
    let output = run(&[OsStr::new("fsck"), OsStr::new("-n"), image.as_os_str()]);
    assert!(output.status.success(), "fsck of {}: {}", image.display(), text(&output));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let bad = stdout.lines().find(|line| line.contains(": ") && line.contains("I="));
    assert!(bad.is_none() && !stdout.contains("*****"), "{stdout}");
}

/// A directory for one test.
pub(crate) struct Dir(pub tempfile::TempDir);

impl Dir {
    pub(crate) fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn str(&self, name: &str) -> String {
        self.path(name).into_os_string().into_string().unwrap()
    }

    /// A file with these bytes.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.str(name)
    }

    /// The fixture as a file that takes no more space than it must, if there are fixtures.
    pub(crate) fn fixture(&self, name: &str) -> Option<String> {
        let raw = ffs_testkit::fixtures::load(name)?;
        let path = self.path(&format!("{name}.img"));
        write_sparse(&path, &raw);
        Some(path.into_os_string().into_string().unwrap())
    }

    /// A new image of `size`, made with these options of newfs. It has no soft updates, unless the
    /// options ask for them.
    pub(crate) fn image(&self, name: &str, size: &str, options: &[&str]) -> String {
        let image = self.str(name);
        let mut args = vec!["newfs", "-s", size];
        if !options.iter().any(|option| ["-U", "-j", "-u"].contains(option)) {
            args.push("-u");
        }
        args.extend(options);
        args.push(&image);
        ok(&args);
        image
    }
}

fn write_sparse(path: &Path, raw: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = fs::File::create(path).unwrap();
    file.set_len(raw.len() as u64).unwrap();
    for (number, chunk) in raw.chunks(65536).enumerate() {
        if chunk.iter().any(|&byte| byte != 0) {
            file.write_all_at(chunk, number as u64 * 65536).unwrap();
        }
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `IMAGE:PATH` of possibly odd bytes.
pub(crate) fn inside(image: &str, path: &[u8]) -> OsString {
    let mut arg = OsString::from(image);
    arg.push(":");
    arg.push(OsStr::from_bytes(path));
    arg
}

/// A tree with a bit of everything; devices and foreign owners for root only.
pub(crate) fn make_tree(root: &Path) {
    use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};
    fs::create_dir(root).unwrap();
    let file = |name: &str, bytes: &[u8]| fs::write(root.join(name), bytes).unwrap();
    file("empty", b"");
    file("small", b"small\n");
    file("name with spaces: and colon", b"x");
    fs::write(root.join(OsStr::from_bytes(b"bad\xff\xfeutf8")), b"bytes").unwrap();
    file("block", &pattern(32768, 1));
    file("indirect", &pattern(12 * 32768 + 5000, 2));
    file("large", &pattern(5 << 20, 3));
    fs::create_dir_all(root.join("dir/sub/deep")).unwrap();
    file("dir/sub/deep/leaf", b"leaf");
    fs::create_dir(root.join("emptydir")).unwrap();
    fs::create_dir(root.join("many")).unwrap();
    for n in 0..300 {
        file(
            &format!("many/file-number-{n:04}-{}", "x".repeat(n % 100)),
            &pattern(n * 7, n as u64),
        );
    }
    fs::hard_link(root.join("small"), root.join("dir/hard")).unwrap();
    fs::hard_link(root.join("small"), root.join("zz-hard")).unwrap();
    symlink("small", root.join("link")).unwrap();
    symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    symlink("y".repeat(200), root.join("longlink")).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    use std::os::unix::fs::FileExt;
    sparse.write_all_at(&pattern(4096, 4), 0).unwrap();
    sparse.write_all_at(&pattern(100_000, 5), 3 << 20).unwrap();
    sparse.set_len(9_999_999).unwrap();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
    if is_root() {
        let dev = rustix::fs::makedev(7, 44);
        let null = FileType::CharacterDevice;
        mknodat(CWD, root.join("chr"), null, Mode::from_raw_mode(0o600), dev).unwrap();
        rustix::fs::chown(
            root.join("block"),
            Some(rustix::fs::Uid::from_raw(70_000)),
            Some(rustix::fs::Gid::from_raw(80_000)),
        )
        .unwrap();
    }
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("large", 0o4751);
    mode("emptydir", 0o1777);
    mode("many", 0o2750);
    // Not every file system of a host has attributes.
    for (name, key, value) in [
        ("small", "user.note", &b"a value\0with a NUL"[..]),
        ("small", "user.empty", b""),
        ("dir", "user.on-a-directory", b"yes"),
    ] {
        if let Err(error) = setxattr(root.join(name), key, value, XattrFlags::empty()) {
            assert_eq!(error, rustix::io::Errno::NOTSUP);
        }
    }
    let mut seconds = 1_100_000_000;
    for path in walk(root).into_iter().rev() {
        seconds += 86_399;
        set_mtime(&path, seconds, 123_456_789);
    }
}

/// Pseudo-random bytes, the same for the same seed.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    ffs_testkit::rng::fill(len, seed, 0)
}

pub(crate) fn set_mtime(path: &Path, secs: i64, nanos: i64) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
    let at = Timespec { tv_sec: secs, tv_nsec: nanos as _ };
    let times = Timestamps { last_access: at, last_modification: at };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Every path below and with `root`, in order.
pub(crate) fn walk(root: &Path) -> Vec<PathBuf> {
    let mut all = vec![root.to_owned()];
    let mut at = 0;
    while at < all.len() {
        let path = all[at].clone();
        at += 1;
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            let mut below: Vec<PathBuf> =
                fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
            below.sort();
            all.extend(below);
        }
    }
    all
}

/// What a copy must keep of one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub path: PathBuf,
    mode: u32,
    owner: (u32, u32),
    size: u64,
    mtime: (i64, i64),
    nlink: u64,
    rdev: u64,
    target: Option<PathBuf>,
    content: Option<Vec<u8>>,
    /// The first path of the same inode.
    first: PathBuf,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Everything a copy must keep of a tree, except the names in `without`.
pub(crate) fn see(root: &Path, without: &[&str]) -> Vec<Seen> {
    let mut firsts = std::collections::BTreeMap::new();
    let mut all = Vec::new();
    let mut paths = walk(root);
    paths.sort();
    for path in paths {
        let relative = path.strip_prefix(root).unwrap().to_owned();
        if without.iter().any(|name| relative.starts_with(name)) {
            continue;
        }
        let m = fs::symlink_metadata(&path).unwrap();
        let file = m.is_file();
        let first = firsts.entry(m.ino()).or_insert_with(|| relative.clone()).clone();
        all.push(Seen {
            mode: m.mode(),
            owner: if is_root() { (m.uid(), m.gid()) } else { (0, 0) },
            size: if m.is_dir() { 0 } else { m.size() },
            mtime: (m.mtime(), m.mtime_nsec()),
            nlink: if m.is_dir() { 0 } else { m.nlink() },
            rdev: m.rdev(),
            target: m.is_symlink().then(|| fs::read_link(&path).unwrap()),
            content: file.then(|| fs::read(&path).unwrap()),
            first,
            xattrs: if file || m.is_dir() { xattrs(&path) } else { Vec::new() },
            path: relative,
        });
    }
    all
}

/// Extended attributes of the user's name space.
pub(crate) fn xattrs(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut names = vec![0; 4096];
    let Ok(len) = rustix::fs::listxattr(path, &mut names[..]) else { return Vec::new() };
    names.truncate(len);
    let mut all: Vec<(Vec<u8>, Vec<u8>)> = names
        .split(|&byte| byte == 0)
        .filter(|name| name.starts_with(b"user."))
        .map(|name| {
            let mut value = vec![0; 65536];
            let key = CString::new(name).unwrap();
            let len = rustix::fs::getxattr(path, key.as_c_str(), &mut value[..]).unwrap();
            value.truncate(len);
            (name.to_vec(), value)
        })
        .collect();
    all.sort();
    all
}

/// Two trees must be the same.
pub(crate) fn assert_same(a: &Path, b: &Path, without: &[&str]) {
    let (a, b) = (see(a, without), see(b, without));
    for (left, right) in a.iter().zip(&b) {
        if left != right {
            let short = |seen: &Seen| {
                let mut text = format!("{seen:?}");
                text.truncate(600);
                text
            };
            panic!("differ:\n{}\n{}", short(left), short(right));
        }
    }
    let paths = |seen: &[Seen]| seen.iter().map(|seen| seen.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&a), paths(&b));
}
