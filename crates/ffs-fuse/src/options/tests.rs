//! Tests of the options' words.

use super::*;

#[test]
fn words_set_their_options() {
    let o = parse_options(&[
        "rw,ro,async,dirpref=old,cache=128m,noatime",
        "threads=3,attr_timeout=0.5,nodev,writeback,x-systemd.automount,_netdev,comment=a",
        "ufstype=ufs2,onerror=lock,uhelper=udisks2",
    ])
    .unwrap();
    assert!(o.core.read_only && o.writeback);
    assert_eq!(o.core.ordering, OrderingPolicy::Async);
    assert_eq!(o.core.tunables.dirpref, ffs_core::DirPref::Old);
    assert_eq!(o.core.tunables.cache, 128 << 20);
    assert_eq!(o.core.atime, Atime::Never);
    assert_eq!((o.threads, o.dev, o.suid), (3, Some(false), None));
    assert_eq!(o.timeouts(true).attr, Duration::from_millis(500));
    let ring = |words: &str| parse_options(&[words]).unwrap().io_uring;
    assert_eq!((ring("rw"), ring("io_uring=on")), (UseIoUring::Auto, UseIoUring::On));
    assert_eq!(ring("io_uring=on,io_uring=off"), UseIoUring::Off);
    let near = |words: &str| parse_options(&[words]).unwrap().sched_idle;
    assert!(near("rw") && near("no_sched_idle,sched_idle") && !near("no_sched_idle"));
    let xattr = |words: &str| parse_options(&[words]).unwrap().xattr;
    assert!(xattr("rw") && xattr("noxattr,xattr") && !xattr("noxattr"));
    let opens = |words: &str| parse_options(&[words]).unwrap();
    assert!(!opens("rw").no_open && !opens("no_open,open").no_open);
    assert!(opens("no_open").no_open && opens("no_open,atime").core.atime == Atime::Never);
    let o = parse_options(&["writeback"]).unwrap();
    assert_eq!((o.timeouts(true).attr, o.timeouts(false).attr), (SHORT, LONG));
}

#[test]
fn async_yields_to_soft_updates_and_nosoftdep_takes_them_away() {
    let ordering = |words: &str| parse_options(&[words]).unwrap().core.ordering;
    assert_eq!(ordering("rw"), OrderingPolicy::Superblock);
    assert_eq!(ordering("async"), OrderingPolicy::Async);
    assert_eq!(ordering("softdep,async"), OrderingPolicy::Journaled);
    assert_eq!(ordering("async,softdep"), OrderingPolicy::Journaled);
    assert_eq!(ordering("nosuj,async"), OrderingPolicy::SoftUpdates);
    assert_eq!(ordering("nosoftdep"), OrderingPolicy::Sync);
    assert_eq!(ordering("nosoftdep,async"), OrderingPolicy::None);
    assert_eq!(ordering("async,nosoftdep"), OrderingPolicy::None);
    assert_eq!(ordering("async,sync"), OrderingPolicy::Sync);
    assert!(parse_options(&["stable"]).unwrap().core.stable);
    assert!(parse_options(&["rw"]).unwrap().core.replace_order);
    assert!(!parse_options(&["noreplace_order"]).unwrap().core.replace_order);
}

#[test]
fn the_error_for_an_unknown_word_names_the_nearest() {
    let message = |w: &str| parse_options(&[w]).unwrap_err().to_string();
    assert_eq!(message("noatme"), "unknown mount option 'noatme'; did you mean 'noatime'?");
    assert_eq!(message("frobnicate"), "unknown mount option 'frobnicate'");
    assert_eq!(
        message("dirpref=newest"),
        "mount option 'dirpref=newest': expected old, new, new10 or depth"
    );
    assert_eq!(message("threads=0"), "mount option 'threads=0': expected 1 to 64");
    assert_eq!(message("io_uring=yes"), "mount option 'io_uring=yes': expected auto, on or off");
    assert_eq!(
        message("idmap=u:0"),
        "mount option 'idmap=u:0': expected u, g or b, and VOLUME:SHOWN:COUNT, no id twice"
    );
    assert!(message("uid=1,idmap=b:0:1:1").contains("expected u, g or b"));
    assert!(message("umask=22,fakeroot").ends_with("cannot be combined with fakeroot"));
    assert!(message("nodefault_permissions,gid=1").contains("nodefault_permissions"));
    assert!(parse_options(&["idmap=u:0:1:1,fakeroot,idmap=g:0:1:1"]).is_ok());
    assert_eq!(message("ro=1"), "mount option 'ro=1': expected no value");
    assert!(message("cache").contains("expected a size"));
    assert!(message("attr_timeout=-1").contains("expected seconds"));
    assert!(message("cache=99999999999999g").contains("expected a size"));
}
