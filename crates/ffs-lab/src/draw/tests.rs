//! Drawings of volumes of the crash laboratory, and of arbitrary bytes.

use super::*;
use crate::crash::Updates;
use crate::crash::geometry::find;
use crate::crash::raw::Use;
use crate::headless::Browser;

fn image(shape: &str) -> Vec<u8> {
    let base = find(shape).unwrap().base(Updates::Soft, true).unwrap();
    base.image.to_vec()
}

#[test]
fn every_fragment_has_a_use_and_files_have_their_blocks() {
    for shape in ["ufs2-2m", "ufs1-1m"] {
        let image = image(shape);
        let map = VolumeMap::of(&image).unwrap();
        assert_eq!(map.uses.len() as u64, map.shape.size, "{shape}");
        let all: u64 = (0..map.shape.groups).map(|g| map.counts(g).iter().sum::<u64>()).sum();
        assert_eq!(all, map.shape.size, "{shape}: each fragment is in one group");
        let of = |wanted: Use| map.uses.iter().filter(|(found, _)| *found == wanted).count();
        for wanted in [Use::Superblock, Use::Group, Use::Inodes, Use::Directory, Use::File] {
            assert!(of(wanted) > 0, "{shape}: {wanted:?}");
        }
        assert_eq!(of(Use::Leaked), 0, "{shape}");
        let foo = map.inodes.iter().find(|(_, inode)| inode.path == "/A/foo").unwrap();
        let own = map.uses.iter().filter(|use_| **use_ == (Use::File, *foo.0)).count() as u64;
        assert_eq!(own, foo.1.size.div_ceil(map.shape.fsize), "{shape}: {foo:?}");
        assert_eq!(map.violations, [""; 0], "{shape}");
    }
}

#[test]
fn a_file_is_made_renamed_lost_in_a_crash_and_the_volume_repaired() {
    let image = image("ufs2-2m");
    let drawing = Drawing::of("x", &image).unwrap();
    let steps = &drawing.story.as_ref().unwrap().steps;
    let title = |n: usize| steps[n].title.as_str();
    assert_eq!(
        [title(0), title(1), title(2)],
        ["Mount", "Create /ffs-drawn", "Rename to /ffs-renamed"]
    );
    assert_eq!(title(steps.len() - 2), "Crash");
    assert!(title(steps.len() - 1).starts_with("Repair"));
    // The operations return before anything is written; the engine has events of them.
    for step in &steps[1..3] {
        assert!(step.written.is_empty() && !step.events.is_empty(), "{step:?}");
        assert_eq!(step.map.uses, drawing.map.uses);
    }
    let writes = steps.iter().filter(|step| step.title.starts_with("Write ")).count();
    assert!(writes > 0 && steps.iter().all(|step| step.map.violations.is_empty()), "{steps:?}");
    let last = &steps[steps.len() - 1];
    assert!(!last.events.is_empty(), "the check repairs something");
    let leaked = last.map.uses.iter().filter(|(found, _)| *found == Use::Leaked).count();
    assert_eq!(leaked, 0, "after the repair");
    let again = Drawing::of("x", &image).unwrap();
    assert_eq!(again.html().unwrap(), drawing.html().unwrap(), "the same bytes");
}

#[test]
fn arbitrary_bytes_are_drawn_or_refused() {
    let sound = image("ufs1-1m");
    let mut seed = 20_u64;
    let mut drawn = 0;
    for _ in 0..40 {
        let mut image = sound.clone();
        for _ in 0..30 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 16) as usize % (image.len() / 4);
            image[at] ^= (seed >> 8) as u8;
        }
        if let Ok(drawing) = Drawing::of("damaged", &image) {
            drawn += 1;
            assert!(drawing.html().unwrap().ends_with("</html>"), "seed {seed}");
        }
    }
    assert!(drawn > 0, "some of the damage is in places that a drawing survives");
    let error = Drawing::of("zeros", &vec![0; 1 << 20]).unwrap_err().to_string();
    assert_eq!(error, "zeros: no superblock; expected an image of a UFS1 or UFS2 volume");
}

#[test]
fn the_drawing_is_stepped_through_in_a_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("draw.html");
    let drawing = Drawing::of("disk <1>", &image("ufs2-2m")).unwrap();
    std::fs::write(&file, drawing.html().unwrap()).unwrap();
    let story = "document.getElementById('story').innerText";
    for (width, dark) in [(390, false), (1280, true)] {
        browser.window(width, 900, dark);
        browser.open(&file, "");
        let over = "document.documentElement.scrollWidth - innerWidth";
        assert!(browser.value(over).as_f64().unwrap() <= 0.0, "{width}: wider than the window");
        assert!(browser.text("document.querySelector('h1').innerText").contains("disk <1>"));
        browser.press("ArrowRight");
        browser.press("ArrowRight");
        assert!(browser.text(story).contains("Create /ffs-drawn"), "{}", browser.text(story));
    }
    let last = drawing.story.as_ref().unwrap().steps.len();
    browser.open(&file, &format!("#step={last}"));
    assert!(browser.text(story).contains("fsck -p"), "{}", browser.text(story));
    browser.value("document.querySelector('#groups canvas').focus()");
    browser.press("ArrowRight");
    let words = browser.text("document.getElementById('tip').innerText");
    assert!(words.contains("superblock"), "{words}");
    let chosen = "(() => {
      document.getElementById('find').value = '/A/foo';
      document.getElementById('find').dispatchEvent(new Event('input'));
      document.querySelector('#inodes button').click();
      return document.querySelector('#inodes tr.chosen').innerText;
    })()";
    assert!(browser.text(chosen).contains("/A/foo"));
    assert_eq!(browser.complaints, [""; 0]);
}
