//! The write-back cache (`-o writeback`): what the kernel passes on late, and how errors arrive.

use crate::Test;
use crate::harness::{Image, Mnt, as_user, errno, lost_server, pattern};
use crate::sys;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};

pub(crate) const TESTS: &[Test] = &[
    ("cached_writes_are_passed_on_at_close_and_fsync", passed_on_at_close_and_fsync),
    ("cached_appends_to_a_file_that_only_grows", cached_appends),
    ("cached_writes_of_those_who_do_not_own_the_file", cached_writes_of_others),
    ("a_close_reports_a_full_volume_once", a_close_reports_a_full_volume_once),
    ("a_killed_server_costs_what_the_kernel_holds", a_killed_server_costs_what_the_kernel_holds),
    ("root_has_the_reserve_for_cached_writes", root_has_the_reserve),
    ("a_read_only_mount_caches_attributes_for_long", read_only_caches_for_long),
];

const USER: u32 = 4711;
/// The flag "append only", as `chattr +a` sets it.
const APPEND: u32 = 0x20;

/// The server has what was written after a close or an fsync, and not before; what was changed
/// through a mapping, after msync or fsync.
fn passed_on_at_close_and_fsync() {
    let image = Image::new();
    let m = image.mount("writeback,async");
    let (mut f, other) = (m.create("f"), m.create("other"));
    let mut last = 0;
    // Whether the kernel has passed on anything since the last call.
    let mut passed = || {
        let now = m.counter("vfs.fusefs.requests.WRITE");
        std::mem::replace(&mut last, now) != now
    };
    f.write_all(&pattern(1, 100_000)).unwrap();
    fs::rename(m.path("f"), m.path("g")).unwrap();
    other.sync_all().unwrap();
    assert!(!passed(), "neither a rename nor the fsync of another file passes it on");
    f.sync_all().unwrap();
    assert!(passed());
    f.write_all(b"more").unwrap();
    assert!(!passed());
    sys::close(f).unwrap();
    assert!(passed());
    let f = File::options().read(true).write(true).open(m.path("g")).unwrap();
    let mut map = sys::Map::new(&f, 100_000).unwrap();
    for by_msync in [true, false] {
        map.bytes()[5000..5005].copy_from_slice(b"patch");
        assert!(!passed());
        if by_msync { map.sync() } else { f.sync_all() }.unwrap();
        assert!(passed());
    }
    drop(map);
    drop((f, other));
    m.end();
}

/// The kernel passes on whole pages of which only the end is new, and times, which no one may set.
fn cached_appends() {
    let image = Image::new();
    let m = image.mount("writeback,async");
    let mut content = pattern(1, 5000);
    fs::write(m.path("log"), &content).unwrap();
    sys::set_flags(&File::open(m.path("log")).unwrap(), APPEND).unwrap();
    for (n, len) in [1, 100, 3000, 4096, 200_000].into_iter().enumerate() {
        let mut log = File::options().append(true).open(m.path("log")).unwrap();
        for half in 0..2 {
            let more = pattern(n as u64 * 2 + half, len);
            log.write_all(&more).unwrap();
            content.extend(more);
            if n % 2 == 0 {
                log.sync_all().unwrap();
            }
        }
        sys::close(log).unwrap();
    }
    assert!(fs::read(m.path("log")).unwrap() == content);
    // Nothing else may be changed.
    let refused = File::options().write(true).open(m.path("log"));
    assert_eq!(errno(refused), libc::EPERM);
    let log = File::options().append(true).open(m.path("log")).unwrap();
    assert_eq!(errno(log.set_len(5)), libc::EPERM);
    assert_eq!(errno(log.set_modified(std::time::UNIX_EPOCH)), libc::EPERM);
    sys::close(log).unwrap();
    m.end();
    let m = image.mount("ro");
    assert!(fs::read(m.path("log")).unwrap() == content);
    m.end();
}

/// The server checks permissions. The kernel passes on what a user wrote, and the times of that, by
/// requests of the user, who may write the file and does not own it.
fn cached_writes_of_others() {
    let image = Image::new();
    let m = image.mount("writeback,async,nodefault_permissions");
    fs::write(m.path("f"), b"root's").unwrap();
    fs::set_permissions(m.path("f"), PermissionsExt::from_mode(0o666)).unwrap();
    let user = |script: &str| as_user(USER, &m.path(""), script).status.success();
    let modified = || fs::metadata(m.path("f")).unwrap().modified().unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    for script in [
        "dd if=/dev/zero of=f bs=1000 count=5 conv=fsync,notrunc",
        "dd if=/dev/zero of=f bs=1000 count=5 conv=notrunc",
        "echo more >> f",
        "truncate -s 100 f",
        ": > f",
        "touch f",
    ] {
        File::options().write(true).open(m.path("f")).unwrap().set_modified(old).unwrap();
        assert_eq!(modified(), old);
        assert!(user(script), "{script}");
        assert!(modified() > old, "{script}");
    }
    for script in ["touch -d @1000000 f", "touch -m -d @1000000 f"] {
        assert!(!user(script), "only the owner sets another time: {script}");
    }
    fs::set_permissions(m.path("f"), PermissionsExt::from_mode(0o644)).unwrap();
    for script in ["echo more >> f", "truncate -s 1 f", "touch f", "touch -m f"] {
        assert!(!user(script), "{script}");
    }
    m.end();
}

/// Takes the space of the volume, until no whole block is left.
fn fill(m: &Mnt<'_>) {
    let free = rustix::fs::statvfs(m.path("")).unwrap();
    let file = File::create(m.path("full")).unwrap();
    // Some blocks are needed for addresses.
    let mut len = (free.f_bfree * free.f_frsize - (200 << 10)) as i64;
    sys::fallocate(&file, 0, 0, len).unwrap();
    // The kernel passes several writes on at once, in any order: none of them may find space.
    let block = free.f_bsize as i64;
    while sys::fallocate(&file, 0, len, block).is_ok() {
        len += block;
    }
}

/// Of several descriptors of a file, the first that is closed gets the error. `munmap` has none.
fn a_close_reports_a_full_volume_once() {
    let image = Image::new();
    let m = image.mount("writeback,async");
    fill(&m);
    let (mut f, content) = (m.create("f"), pattern(2, 1 << 20));
    f.write_all(&content).unwrap();
    assert_eq!(errno(sys::close(f)), libc::ENOSPC);
    // The kernel shows what it could not pass on, until it forgets the file.
    let size = || fs::metadata(m.path("f")).unwrap().len();
    assert_eq!(size(), 1 << 20);
    // It keeps a file until the reply to its release, for which no call waits.
    let forgotten = (0..10_000).any(|_| {
        sys::drop_caches();
        size() < 1 << 20
    });
    assert!(forgotten);
    let mut f = m.create("f");
    let other = f.try_clone().unwrap();
    f.write_all(&content).unwrap();
    assert_eq!(errno(sys::close(other)), libc::ENOSPC);
    sys::close(f).unwrap();
    // An fsync has it for each that was opened by itself.
    let mut f = m.create("f");
    let second = File::open(m.path("f")).unwrap();
    f.write_all(&content).unwrap();
    assert_eq!(errno(f.sync_all()), libc::ENOSPC);
    assert_eq!(errno(second.sync_all()), libc::ENOSPC);
    drop((f, second));
    // What is written over existing blocks needs no space.
    let full = File::options().write(true).open(m.path("full")).unwrap();
    full.write_all_at(&content, 5 << 20).unwrap();
    sys::close(full).unwrap();
    // With space again all is written.
    File::options().write(true).open(m.path("full")).unwrap().set_len(6 << 20).unwrap();
    let mut f = m.create("f");
    f.write_all(&content).unwrap();
    sys::close(f).unwrap();
    m.end();
    let m = image.mount("ro");
    assert!(fs::read(m.path("f")).unwrap() == content);
    let mut got = Vec::new();
    File::open(m.path("full")).unwrap().read_to_end(&mut got).unwrap();
    assert!(got[5 << 20..] == content);
    m.end();
}

/// What the kernel holds is lost with the server. What was synced is not.
fn a_killed_server_costs_what_the_kernel_holds() {
    let image = Image::new();
    let m = image.mount("writeback,async");
    let (mut f, mut synced) = (m.create("f"), m.create("synced"));
    synced.write_all(b"content").unwrap();
    for file in [&f, &synced, &File::open(m.path("")).unwrap()] {
        file.sync_all().unwrap();
    }
    f.write_all(&pattern(4, 100_000)).unwrap();
    assert_eq!(m.signal(rustix::process::Signal::KILL), None);
    assert!(lost_server(&f.sync_all().unwrap_err()));
    drop((f, synced));
    image.unmount().unwrap();
    image.repair();
    let m = image.mount("ro");
    assert_eq!(fs::read(m.path("f")).unwrap(), b"");
    assert_eq!(fs::read(m.path("synced")).unwrap(), b"content");
    m.end();
}

/// The reserve is for the owner of a file in place of the writer, whom the server does not know.
fn root_has_the_reserve() {
    let image = Image::new();
    let m = image.mount("writeback,async");
    fs::set_permissions(m.path(""), PermissionsExt::from_mode(0o777)).unwrap();
    let write = "head -c 80M /dev/zero | dd of=hers bs=64k conv=fsync iflag=fullblock";
    assert!(!as_user(USER, &m.path(""), write).status.success());
    let left = rustix::fs::statvfs(m.path("")).unwrap();
    let available = left.f_bavail * left.f_frsize;
    assert!(available < 1 << 20, "{available}");
    let reserve = (left.f_bfree - left.f_bavail) * left.f_frsize;
    assert!(reserve > 3 << 20, "{reserve}");
    let mut f = m.create("roots");
    f.write_all(&pattern(3, 2 << 20)).unwrap();
    f.sync_all().unwrap();
    drop(f);
    m.end();
}

/// A volume that is never written has no cached writes: the kernel needs no attributes again.
fn read_only_caches_for_long() {
    let image = Image::new();
    let m = image.mount("rw");
    fs::write(m.path("f"), b"content").unwrap();
    m.end();
    let m = image.mount("ro,writeback");
    let stat = || rustix::fs::stat(m.path("f")).unwrap().st_size;
    stat();
    let counted = |kind: &str| m.counter(&format!("vfs.fusefs.requests.{kind}"));
    let all = || ["LOOKUP", "GETATTR", "STATX"].map(counted);
    // The control itself makes some requests, the same each time. Another program of tests may drop
    // the kernel's caches meanwhile, but not each time.
    let undisturbed = (0..5).any(|_| {
        let (first, second) = (all(), all());
        std::thread::sleep(std::time::Duration::from_millis(1200));
        assert_eq!(stat(), 7);
        [second, all()] == [first, first]
    });
    assert!(undisturbed, "attributes are requested again");
    m.end();
}
