//! The objects that a command without ordering must not damage.
//!
//! The offline commands (`ffs cp`, `rm`, `tunefs` and so on) write without ordering. They mark the
//! volume as in need of a full check while they run. After an interruption the objects that they
//! changed may be in any state. All other files keep their content, and they keep their names if
//! the command did not change their directory either.
//!
//! Reference: `spec/fsck-and-crash.md` §9 G25; `docs/soft-updates.md` (offline commands).

use std::cell::Cell;

use super::super::history::{ObjId, ObjKind, ROOT, Violation};
use super::super::image::ImageBytes;
use super::super::raw::Found;
use super::Expectation;
use super::content::Seen;

impl Expectation {
    /// Adds to `out` the violations, after a full repair, of objects that the command did not
    /// change.
    pub(crate) fn judge_untouched(
        &self,
        image: &dyn ImageBytes,
        found: &Found,
        out: &mut Vec<Violation>,
    ) {
        let (model, tree) = (&self.model, &found.tree);
        for (life, &obj) in model.lives.iter().filter(|(_, obj)| !model.touched.contains(obj)) {
            let inode = tree.inode(life.ino);
            let inode = inode.filter(|inode| inode.generation == life.generation && inode.reached);
            let Some(inode) = inode else {
                let what = format!("{obj} is missing, though the command did not change it");
                out.push(Violation::new("X1", what));
                continue;
            };
            let Some(object) = model.objects.get(&obj) else { continue };
            if object.kind == ObjKind::File {
                let older = &Cell::new(false);
                let seen = Seen { image, tree, inode, obj, lenient: false, older };
                object.content.judge(&seen, out);
            }
        }
        let ino = |obj: ObjId| match obj {
            ROOT => Some(ffs_ondisk::Ino(2)),
            obj => model.lives.iter().find(|(_, known)| **known == obj).map(|(life, _)| life.ino),
        };
        for cell in model.names.cells.iter().filter(|cell| !model.touched.contains(&cell.dir)) {
            let Some(obj) = cell.durable() else { continue };
            let there = ino(cell.dir).and_then(|dir| tree.lookup(dir, &cell.name));
            if there.is_none() || there != ino(obj) {
                let name = String::from_utf8_lossy(&cell.name);
                let what = format!(
                    "{name} in {} is missing, though the command did not change that directory",
                    cell.dir
                );
                out.push(Violation::new("X4", what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Promise;
    use super::super::tests::story::Story;
    use super::*;
    use crate::crash::raw::Checker;

    fn broken(story: &Story, image: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        let expected = Expectation::new(&story.history, story.now(), Promise::Async);
        expected.judge_untouched(&image, Checker::new().check(&image), &mut out);
        out.into_iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn only_what_a_command_worked_on_may_be_lost() {
        let mut s = Story::new();
        let (d, e) = (s.mkdir(ROOT, "d"), s.mkdir(ROOT, "e"));
        let (f, g) = (s.file(d, "f"), s.file(e, "g"));
        s.write(g, 0, 600);
        s.synced();
        s.write(f, 0, 600);
        s.history.steps.iter_mut().rev().take(1).for_each(|step| step.op = Some(0));
        assert_eq!(broken(&s, &s.image()), [""; 0]);
        s.hidden_truncate(f, 0);
        assert_eq!(broken(&s, &s.image()), [""; 0]);
        s.hidden_truncate(g, 0);
        assert_eq!(broken(&s, &s.image()), ["G1"]);
        s.hidden_unlink(e, "g");
        assert_eq!(broken(&s, &s.image()), ["X1", "X4"]);
    }
}
