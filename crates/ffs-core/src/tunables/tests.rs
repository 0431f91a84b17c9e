//! Tests of the table and of every error.

use super::*;
use std::collections::BTreeSet;

#[test]
fn names_are_unique_defaults_in_bounds_and_meanings_sentences() {
    let mut names = BTreeSet::new();
    let defaults = TunableValues::default();
    for r in ROWS {
        assert!(names.insert(r.bsd), "{}", r.bsd);
        assert!(names.insert(r.option), "{}", r.option);
        assert!(r.bsd.contains('.') && !r.option.contains('.') && r.meaning.ends_with('.'));
        let text = r.kind.format(defaults.raw(r.id));
        assert_eq!(r.read(&text, r.bsd), Ok(defaults.raw(r.id)), "{}", r.bsd);
    }
}

#[test]
fn every_raw_value_is_read_back_unchanged() {
    let cells = Tunables::new(&TunableValues::default());
    let mut values = TunableValues::default();
    for r in ROWS {
        let raws = match r.kind {
            Kind::Flag => vec![0, 1],
            Kind::Choice(names) => (0..names.len() as u64).collect(),
            k => {
                let (min, max) = k.bounds().unwrap();
                if k.is_auto() { vec![min, max, AUTO] } else { vec![min, max] }
            }
        };
        for raw in raws {
            assert_eq!(r.read(&r.kind.format(raw), r.bsd), Ok(raw), "{}", r.bsd);
            values.set_raw(r.id, raw);
            assert_eq!(values.raw(r.id), raw, "{}", r.bsd);
            cells.cell(r.id).store(raw, Ordering::Relaxed);
        }
    }
    assert_eq!(Tunables::new(&values).dirpref(), cells.dirpref());
}

#[test]
fn refusals_say_why() {
    let t = Tunables::new(&TunableValues::default());
    let error = |name: &str, value: &str| t.set(name, value).unwrap_err().to_string();
    assert_eq!(
        error("vfs.ffs.doreallocblk", "1"),
        "unknown name 'vfs.ffs.doreallocblk'; did you mean 'vfs.ffs.doreallocblks'?"
    );
    assert_eq!(
        error("vfs.ufs.doreallocblks", "1"),
        "unknown name 'vfs.ufs.doreallocblks'; did you mean 'vfs.ffs.doreallocblks'?"
    );
    assert_eq!(error("frobnicate", "1"), "unknown name 'frobnicate'");
    assert_eq!(error("vmiodir", "1"), "unknown name 'vmiodir'; did you mean 'vmiodirenable'?");
    assert_eq!(error("alo", "1"), "unknown name 'alo'");
    assert_eq!(error("vfs.ffs.doreallocblks", "2"), "'vfs.ffs.doreallocblks=2': expected 0 or 1");
    assert_eq!(
        error("vfs.ffs.dirpref", "newest"),
        "'vfs.ffs.dirpref=newest': expected old, new, new10 or depth"
    );
    assert_eq!(
        error("kern.maxvnodes", "0"),
        "'kern.maxvnodes=0' is out of bounds: 1 to 4294967296"
    );
    for wrong in
        ["", "+1", "-1", " 1", "1x", "99999999999999999999", "18446744073709551615g", "k", "é"]
    {
        assert!(t.set("vfs.ffs.cache", wrong).is_err(), "{wrong:?}");
    }
    assert!(error("vfs.ffs.cache", "99999999999g").contains("expected a size"));
    assert!(error("vfs.ffs.cache", "1k").contains("out of bounds: 2097152 to"));
}

#[test]
fn set_returns_the_former_value() {
    let t = Tunables::new(&TunableValues::default());
    assert_eq!(t.set("vfs.ffs.dirpref", "old").unwrap().value, "new10");
    assert_eq!(t.dirpref(), DirPref::Old);
    assert_eq!(t.set("cache", "3M").unwrap().value, (64 << 20).to_string());
    assert_eq!(t.cache(), 3 << 20);
    let shown = t.list().into_iter().find(|s| s.name == "vfs.ffs.cache").unwrap();
    assert_eq!(shown.value, "3145728");
}

#[test]
fn limits_may_be_automatic() {
    let k = Kind::AutoBytes(0, HUGE);
    assert_eq!(
        (k.parse("auto"), k.parse("0"), k.parse("2m")),
        (Some(AUTO), Some(0), Some(2 << 20))
    );
    assert_eq!((k.format(AUTO), k.format(7)), ("auto".to_owned(), "7".to_owned()));
    assert_eq!(
        k.parse(&u64::MAX.to_string()),
        None,
        "the number of auto is not accepted as a limit"
    );
    assert_eq!((Limit::Auto.or(|| 5), Limit::Of(1).or(|| 5)), (5, 1));
}

#[test]
fn mount_options_of_flags_need_no_value() {
    let mut v = TunableValues::default();
    v.set("nodoreallocblks", None).unwrap();
    assert!(!v.doreallocblks);
    v.set("doreallocblks", None).unwrap();
    assert!(v.doreallocblks);
    v.set("doreallocblks", Some("off")).unwrap();
    assert!(!v.doreallocblks);
    assert!(v.set("nodoreallocblks", Some("1")).is_err());
    assert!(v.set("nocache", None).is_err());
    assert!(v.set("cache", None).is_err());
}

#[test]
fn distances() {
    for (a, b, d) in [("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3)] {
        assert_eq!(strsim::levenshtein(a, b), d);
    }
}

#[test]
fn the_manual_explains_every_switch() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/switches.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let defaults = TunableValues::default();
    for r in ROWS.iter() {
        let row = format!("| `{}`, `{}`, {} |", r.bsd, r.option, r.kind.format(defaults.raw(r.id)));
        assert!(manual.contains(&row), "docs/switches.md has no row that begins {row}");
    }
    let rows = manual.lines().filter(|l| l.starts_with("| `") && l.split('`').count() > 4);
    let rows = rows.filter(|l| l.split('|').count() == 6).count();
    assert_eq!(rows, ROWS.len(), "docs/switches.md has rows of switches that do not exist");
}

#[test]
fn every_switch_is_consulted() {
    fn sources(dir: &std::path::Path, all: &mut String) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tunables") && !path.ends_with("tests") {
                sources(&path, all);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tunables.rs")
            {
                all.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut all = String::new();
    sources(concat!(env!("CARGO_MANIFEST_DIR"), "/src").as_ref(), &mut all);
    for r in ROWS.iter() {
        assert!(
            all.contains(&format!("tunables.{:?}()", r.id))
                || all.contains(&format!(".{:?}()", r.id)),
            "{}",
            r.bsd
        );
    }
}
