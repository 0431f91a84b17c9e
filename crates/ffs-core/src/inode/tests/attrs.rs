//! Extended attributes and symbolic links.

use super::*;
use crate::Error;
use crate::types::{XattrNamespace, XattrSet};
use std::collections::BTreeMap;

const USER: XattrNamespace = XattrNamespace::User;

#[test]
fn attributes_are_a_map_that_fits_two_blocks() {
    for frag in [1, 8] {
        let b = Bench::new((Format::Ufs2, Endian::Big, 8192, frag), 16 << 20);
        let before = b.t.ump.alloc.totals();
        let ip = b.file("a");
        b.write(&ip, 0, &[1; 3000]).unwrap();
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut numbers = ffs_testkit::rng::SplitMix64::new(u64::from(frag));
        let mut refused = 0;
        for step in 0..400 {
            let name = format!("name{}", numbers.below(9)).into_bytes();
            let mut inode = b.lock(&ip);
            if numbers.one_in(3) {
                let r = inode.xattr_remove(USER, &name);
                assert_eq!(r.is_ok(), model.remove(&name).is_some());
                assert!(r.is_ok() || matches!(r, Err(Error::NoAttr)));
            } else {
                let n = numbers.below(5000) as usize;
                let value = numbers.bytes(n);
                let how = [XattrSet::Any, XattrSet::Create, XattrSet::Replace][step % 3];
                let key = (USER, &name[..]);
                match inode.xattr_set(key, &value, how, Reserve::Denied) {
                    Ok(()) => {
                        model.insert(name, value);
                    }
                    Err(Error::Exists) => assert!(model.contains_key(&name)),
                    Err(Error::NoAttr) => assert!(!model.contains_key(&name)),
                    Err(Error::AttributesFull(limit)) => {
                        assert_eq!(limit, 2 * b.g().bsize as usize);
                        refused += 1;
                    }
                    Err(e) => panic!("{e}"),
                }
            }
            let mut names = inode.view().xattr_list().unwrap();
            names.sort();
            assert!(names.iter().map(|(_, n)| n).eq(model.keys()));
            for (name, value) in &model {
                assert_eq!(&inode.view().xattr_get(USER, name).unwrap(), value);
            }
            drop(inode);
            if step % 50 == 0 {
                b.check("attributes");
            }
        }
        assert!(refused > 0, "the limit of two blocks was reached");
        let b = b.again();
        let ip = b.t.get(ip.ino).unwrap();
        for (name, value) in &model {
            assert_eq!(&b.view(&ip, &ip.read()).xattr_get(USER, name).unwrap(), value);
        }
        for name in model.keys() {
            b.lock(&ip).xattr_remove(USER, name).unwrap();
        }
        assert_eq!(ip.read().d.extsize, 0);
        b.truncate(&ip, 0).unwrap();
        assert_eq!(b.t.ump.alloc.totals().nbfree, before.nbfree);
        b.check("none left");
    }
}

#[test]
fn attributes_survive_a_full_volume_and_the_last_can_be_removed_on_it() {
    let b = Bench::new((Format::Ufs2, Endian::Little, 4096, 8), 8 << 20);
    let ip = b.file("a");
    let set = |name: &[u8], len: usize| {
        let key = (USER, name);
        b.lock(&ip).xattr_set(key, &vec![7; len], XattrSet::Any, Reserve::Allowed)
    };
    set(b"one", 900).unwrap();
    let taken = b.fill(0);
    assert!(matches!(set(b"two", 900), Err(Error::NoSpace)));
    assert_eq!(b.view(&ip, &ip.read()).xattr_get(USER, b"one").unwrap(), vec![7; 900]);
    // They are not rewritten in place, although the area has space: a loss of power could leave
    // a part of them.
    assert!(matches!(set(b"one", 10), Err(Error::NoSpace)));
    assert_eq!(b.view(&ip, &ip.read()).xattr_get(USER, b"one").unwrap(), vec![7; 900]);
    b.lock(&ip).xattr_remove(USER, b"one").unwrap();
    b.unfill(&taken);
    b.check("full");
}

#[test]
fn ufs1_has_no_attributes() {
    let b = Bench::new((Format::Ufs1, Endian::Little, 4096, 8), 8 << 20);
    let ip = b.file("a");
    assert!(matches!(b.view(&ip, &ip.read()).xattr_list(), Err(Error::NotSupported(_))));
}

/// Devices have their number where other files have their first block pointer. The number is not
/// used as a pointer.
#[test]
fn devices_have_attributes_and_keep_their_number() {
    let b = Bench::new((Format::Ufs2, Endian::Little, 4096, 8), 8 << 20);
    let ip = b.node("null", 0o020_666);
    ip.write().d.db[0] = 0x103;
    b.lock(&ip).update(InodeChange::Attr).unwrap();
    let name = (XattrNamespace::System, &b"x"[..]);
    for len in [10, 5000] {
        let value = vec![7; len];
        let how = XattrSet::Any;
        b.lock(&ip).xattr_set(name, &value, how, Reserve::Denied).unwrap();
        assert_eq!(b.view(&ip, &ip.read()).xattr_get(name.0, name.1).unwrap(), value);
        assert_eq!(ip.read().d.db[0], 0x103);
        b.check("device with attributes");
    }
    b.lock(&ip).xattr_remove(name.0, name.1).unwrap();
    assert_eq!((ip.read().d.db[0], ip.read().d.blocks), (0x103, 0));
    b.check("device");
}

#[test]
fn links_are_in_the_inode_or_in_a_block() {
    for shape in SHAPES {
        let b = Bench::new(shape, 16 << 20);
        let before = b.t.ump.alloc.totals();
        let limit = b.g().maxsymlinklen as usize;
        for len in [1, limit - 1, limit, limit + 1, 1023] {
            let ip = b.nameless(0o120_777);
            let text = ffs_testkit::rng::fill(len, 3, 0);
            b.lock(&ip).set_symlink(&text, Reserve::Denied).unwrap();
            b.lock(&ip).update(InodeChange::Init).unwrap();
            assert_eq!(ip.read().d.blocks > 0, len >= limit, "{len}");
            b.enter("l", &ip);
            b.check("link");
            let again = b.again();
            let ip2 = again.t.get(ip.ino).unwrap();
            assert_eq!(again.view(&ip2, &ip2.read()).readlink().unwrap(), text);
            // Removes the name.
            let root = b.t.get(Ino::ROOT).unwrap();
            let buf = b.view(&root, &root.read()).read_block(Lbn(0)).unwrap().unwrap();
            let fmt = DirFormat::of(&b.g());
            let offs: Vec<_> = dir::records(fmt, &buf.read().bytes[..512])
                .map(|r| r.unwrap())
                .map(|r| (r.off, r.reclen))
                .collect();
            let [.., (prev, prev_len), (_, last_len)] = offs[..] else { panic!() };
            dir::set_reclen(fmt, &mut buf.write().bytes[..512], prev, prev_len + last_len);
            b.t.ump.cache.mark_dirty(&buf);
            ip.write().d.nlink = 0;
            b.t.release(&ip).unwrap();
        }
        let ip = b.nameless(0o120_777);
        let set = |text: &[u8]| b.lock(&ip).set_symlink(text, Reserve::Denied);
        assert!(matches!(set(&[b'x'; 1024]), Err(Error::NameTooLong)));
        assert!(matches!(set(b""), Err(Error::Invalid(_))));
        ip.write().d.nlink = 0;
        b.t.release(&ip).unwrap();
        assert_eq!(b.t.ump.alloc.totals(), before, "{shape:?}");
        b.check("links");
    }
}
