//! The check accepts complete results, and rejects results with missing or foreign data.

use super::content::Content;
use super::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Files by path, with hard links by number.
#[derive(Default)]
struct Memory(RefCell<Tree>);

/// Paths with the number of their content, none for directories; and the contents.
type Tree = (BTreeMap<String, Option<usize>>, Vec<Vec<u8>>);

type Done = Result<(), Infallible>;

impl FileOps for Memory {
    type Error = Infallible;
    fn create(&self, path: &str) -> Done {
        let (names, files) = &mut *self.0.borrow_mut();
        files.push(Vec::new());
        assert_eq!(names.insert(path.to_owned(), Some(files.len() - 1)), None);
        Ok(())
    }
    fn write(&self, path: &str, offset: u64, bytes: &[u8], _: SyncFlag) -> Done {
        let (names, files) = &mut *self.0.borrow_mut();
        let file = &mut files[names[path].unwrap()];
        let end = offset as usize + bytes.len();
        file.resize(end.max(file.len()), 0);
        file[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }
    fn truncate(&self, path: &str, size: u64) -> Done {
        let (names, files) = &mut *self.0.borrow_mut();
        files[names[path].unwrap()].resize(size as usize, 0);
        Ok(())
    }
    fn punch_hole(&self, path: &str, offset: u64, len: u64) -> Done {
        let (names, files) = &mut *self.0.borrow_mut();
        files[names[path].unwrap()][offset as usize..(offset + len) as usize].fill(0);
        Ok(())
    }
    fn link(&self, from: &str, to: &str) -> Done {
        let (names, _) = &mut *self.0.borrow_mut();
        let file = names[from];
        assert_eq!(names.insert(to.to_owned(), file), None);
        Ok(())
    }
    fn unlink(&self, path: &str) -> Done {
        self.0.borrow_mut().0.remove(path).unwrap();
        Ok(())
    }
    fn rename(&self, from: &str, to: &str) -> Done {
        let (names, _) = &mut *self.0.borrow_mut();
        let below = format!("{from}/");
        let moved: Vec<String> =
            names.keys().filter(|n| *n == from || n.starts_with(&below)).cloned().collect();
        assert!(!moved.is_empty());
        for name in moved {
            let what = names.remove(&name).unwrap();
            names.insert(format!("{to}{}", &name[from.len()..]), what);
        }
        Ok(())
    }
    fn mkdir(&self, path: &str) -> Done {
        assert_eq!(self.0.borrow_mut().0.insert(path.to_owned(), None), None);
        Ok(())
    }
    fn rmdir(&self, path: &str) -> Done {
        self.unlink(path)
    }
    fn fsync(&self, path: &str) -> Done {
        assert!(COMMON.contains(&path) || self.0.borrow().0.contains_key(path), "{path}");
        Ok(())
    }
    fn sync(&self) -> Done {
        Ok(())
    }
}

impl Memory {
    fn found(&self) -> FoundTree {
        let (names, files) = &*self.0.borrow();
        let place = |path: &str| -> EntryPath {
            let (dir, name) = path.rsplit_once('/').unwrap();
            let dir = dir.rsplit('/').next().unwrap();
            (directory_of(dir).to_owned(), name.to_owned())
        };
        let thing = |what: &Option<usize>| match what {
            Some(file) => FoundNode::File(files[*file].clone()),
            None => FoundNode::Directory,
        };
        names.iter().map(|(path, what)| (place(path), thing(what))).collect()
    }
}

/// The tree after `done` operations of writer 1, and after one more.
fn run(seed: u64, done: usize) -> (FoundTree, FoundTree) {
    let (place, mut script) = (Memory::default(), Script::new(seed, 1, SyncCalls::Include));
    for _ in 0..done {
        script.step(&place).unwrap();
    }
    let before = place.found();
    script.step(&place).unwrap();
    (before, place.found())
}

#[test]
fn what_was_done_passes_with_or_without_the_last_operation() {
    for seed in 0..60 {
        let done = 7 * seed as usize;
        let (before, after) = run(seed, done);
        for found in [before, after] {
            check_found(seed, 1, done, SyncCalls::Include, &found).unwrap();
        }
    }
}

#[test]
fn each_sector_is_one_that_the_file_had() {
    let mut content = Content::new(1);
    content.write(2, 0, 1024, 7);
    let old = content.now().to_vec();
    content.write(3, 0, 1024, 8);
    let new = content.now().to_vec();
    assert!(content.allows(&[&old[..512], &new[512..]].concat(), 2), "two sectors");
    assert!(!content.allows(&[&old[..100], &new[100..]].concat(), 2), "a mixed sector");
    content.make_durable();
    assert!(!content.allows(&old, 3), "it was overwritten and synced");
}

#[test]
fn only_a_file_with_indirect_blocks_may_lose_zeros_at_its_end() {
    for (blocks, expected) in [(13, true), (12, false)] {
        let mut content = Content::new(1);
        content.write(2, 0, blocks * 4096, 7);
        content.make_durable();
        content.punch_hole(3, 4096, (blocks - 1) * 4096);
        let whole = content.now().to_vec();
        assert!(content.allows(&whole, 2));
        assert_eq!(content.allows(&whole[..4096], 2), expected, "{blocks} blocks");
        assert!(!content.allows(&whole[..4000], 2), "no end of a block");
    }
}

#[test]
fn a_lost_promise_is_found() {
    let (mut names, mut bytes) = (0, 0);
    for seed in 0..8 {
        let (_, all) = run(seed, 200);
        let promised = check_found(seed, 1, 200, SyncCalls::Include, &all).unwrap();
        assert!(promised.names > 0 && promised.files > 0);
        for at in all.keys() {
            let mut found = all.clone();
            let thing = found.remove(at).unwrap();
            names += u32::from(check_found(seed, 1, 200, SyncCalls::Include, &found).is_err());
            if let FoundNode::File(mut content) = thing {
                let Some(first) = content.first_mut() else { continue };
                *first ^= 0x40;
                found.insert(at.clone(), FoundNode::File(content));
                let wrong = check_found(seed, 1, 200, SyncCalls::Include, &found);
                assert!(wrong.is_err(), "{seed}: {at:?}: a foreign byte");
                bytes += 1;
            }
        }
    }
    assert!(names > 50 && bytes > 50, "{names} {bytes}");
}
