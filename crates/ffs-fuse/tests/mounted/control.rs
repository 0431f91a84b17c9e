//! The control channel: switches, counters and gauges of a running mount.

use crate::Test;
use crate::harness::{Image, as_user};
use ffs_fuse::{Control, Entry, EntryKind, MountError};
use std::fs;
use std::os::unix::fs::PermissionsExt;

pub(crate) const TESTS: &[Test] = &[
    ("switches_turn_while_mounted", switches_turn_while_mounted),
    ("switches_can_be_mount_options", switches_can_be_mount_options),
    ("refusals_reach_the_caller", refusals_reach_the_caller),
    ("counters_count_what_is_done", counters_count_what_is_done),
    ("others_may_look_but_not_turn", others_may_look_but_not_turn),
];

fn find(control: &Control, name: &str) -> Entry {
    control.list().unwrap().into_iter().find(|e| e.name == name).unwrap()
}

fn number(control: &Control, name: &str) -> u64 {
    find(control, name).value.parse().unwrap()
}

fn switches_turn_while_mounted() {
    let image = Image::new();
    let m = image.mount("rw");
    let control = Control::open(&image.mount_point()).unwrap();
    let all = control.list().unwrap();
    assert!(all.is_sorted_by(|a, b| a.name < b.name), "sorted, and every name once");
    let names: Vec<&str> = all.iter().map(|e| e.name.as_str()).collect();
    let sampled: Vec<String> =
        control.values().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, sampled, "pages end at different places and have the same entries");
    for e in &all {
        assert!(e.meaning.ends_with('.') && !e.value.is_empty(), "{e:?}");
        assert_eq!(
            e.takes.is_empty(),
            matches!(e.kind, EntryKind::Counter | EntryKind::Gauge),
            "{e:?}"
        );
    }
    // Every switch takes its own value back.
    for e in all.iter().filter(|e| e.kind == EntryKind::Switch) {
        let changed = control.set(&e.name, &e.value).unwrap();
        assert_eq!((&changed.name, &changed.before, &changed.now), (&e.name, &e.value, &e.value));
    }
    for i in 0..50 {
        fs::create_dir(m.path(&format!("d{i}"))).unwrap();
    }
    let changed = control.set("vfs.vmiodirenable", "0").unwrap();
    assert_eq!((changed.before.as_str(), changed.now.as_str()), ("1", "0"));
    assert!(number(&control, "vfs.bufmallocspace") >= 51 * 512);
    assert_eq!(control.set("vfs.ffs.cache", "32m").unwrap().now, (32 << 20).to_string());
    assert_eq!(fs::read_dir(m.path("")).unwrap().count(), 51);
    control.set("vfs.vmiodirenable", "1").unwrap();
    assert_eq!(number(&control, "vfs.bufmallocspace"), 0);
    m.end();
}

fn switches_can_be_mount_options() {
    let image = Image::new();
    let m = image.mount("vmiodirenable=0,nodoreallocblks,dirpref=old,cache=16m,nbuf=100");
    let control = Control::open(&image.mount_point()).unwrap();
    for (name, value) in [
        ("vfs.vmiodirenable", "0"),
        ("vfs.ffs.doreallocblks", "0"),
        ("vfs.ffs.dirpref", "old"),
        ("vfs.ffs.cache", "16777216"),
        ("kern.nbuf", "100"),
    ] {
        assert_eq!(find(&control, name).value, value, "{name}");
    }
    m.end();
    let refused = |options: &str| image.try_mount(options).err().unwrap();
    assert!(refused("nbuf=1").contains("out of bounds: 16 to"));
    assert!(refused("vmiodirenable=2").contains("expected 0 or 1"));
    assert!(refused("vmiodirenabl=1").contains("did you mean 'vmiodirenable'"));
}

fn refusals_reach_the_caller() {
    let image = Image::new();
    let m = image.mount("rw");
    let control = Control::open(&image.mount_point()).unwrap();
    let say = |name: &str, value: &str| match control.set(name, value) {
        Err(MountError::Server(words)) => words,
        other => panic!("{name}={value}: {other:?}"),
    };
    assert!(say("kern.nbuf", "1").contains("16 to "));
    assert!(say("kern.nbuf", "-1").contains("expected a number or auto"));
    assert!(say("kern.nbuf", "").contains("expected"));
    assert!(say("vfs.ffs.reads", "0").contains("read-only"));
    assert!(say("vfs.numbufs", "0").contains("read-only"));
    assert!(say("vfs.fusefs.requests.LOOKUP", "0").contains("read-only"));
    assert!(say("kern.nbof", "20").contains("did you mean 'kern.nbuf'"));
    assert!(say("", "").contains("unknown"));
    assert!(say("kern.nbuf", &"9".repeat(4000)).contains("expected"));
    assert!(say("kern.nbuf", &"9".repeat(9000)).contains("too long"));
    assert!(say("kern.nbuf", "1\0").contains("too long"));
    assert!(matches!(Control::open(&image.path()), Err(MountError::NotMounted { .. })));
    m.end();
    assert!(matches!(Control::open(&image.mount_point()), Err(MountError::NotMounted { .. })));
}

fn counters_count_what_is_done() {
    let image = Image::new();
    let m = image.mount("rw");
    let control = Control::open(&image.mount_point()).unwrap();
    let before = number(&control, "vfs.ffs.writes_sync");
    for i in 0..20 {
        fs::create_dir(m.path(&format!("d{i}"))).unwrap();
    }
    assert!(number(&control, "vfs.ffs.writes_sync") >= before + 20);
    assert!(number(&control, "vfs.ffs.dirsresident") >= 20);
    assert_eq!(find(&control, "vfs.ffs.writes_sync").kind, EntryKind::Counter);
    assert_eq!(find(&control, "vfs.ffs.dirsresident").kind, EntryKind::Gauge);
    m.end();
}

fn others_may_look_but_not_turn() {
    let image = Image::new();
    let m = image.mount("rw,allow_other");
    fs::set_permissions(m.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    // This program again, as another user.
    let program = image.program_as("asker").display().to_string();
    let try_as = |id: u32, what: &str| {
        let script = format!("{program} ask {} {what}", image.mount_point().display());
        as_user(id, "/".as_ref(), &script)
    };
    assert!(try_as(4711, "list").status.success());
    let refused = try_as(4711, "set kern.nbuf 99");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && words.contains("only root and user 0, who mounted"),
        "{words}"
    );
    assert!(try_as(0, "set kern.nbuf 99").status.success());
    m.end();
    let m = image.mount("rw,noallow_other");
    let refused = try_as(4711, "list");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        words.contains("is private to user 0, who mounted it without -o allow_other"),
        "{words}"
    );
    m.end();
}
