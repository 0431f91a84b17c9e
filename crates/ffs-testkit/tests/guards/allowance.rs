//! What each guard still allows: a line `GUARD AREA COUNT` in `allowances.txt`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::{env, fs};

use ffs_testkit::repository;

const PATH: &str = "crates/ffs-testkit/tests/guards/allowances.txt";
/// The most findings that a failure prints.
const SHOWN: usize = 60;

/// Findings of one guard by area.
pub(crate) type Findings = BTreeMap<String, Vec<String>>;

/// The allowed counts by guard and area.
type Allowed = BTreeMap<(String, String), usize>;

fn parse(text: &str) -> Allowed {
    let mut allowed = Allowed::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut fields = line.split(' ');
        let mut field = || fields.next().unwrap_or_else(|| panic!("{PATH}: {line}"));
        let key = (field().to_owned(), field().to_owned());
        let count = field().parse().unwrap_or_else(|_| panic!("{PATH}: {line}"));
        assert!(allowed.insert(key, count).is_none(), "{PATH}: twice: {line}");
    }
    allowed
}

/// What exceeds its allowance.
fn excess(guard: &str, findings: &Findings, allowed: &Allowed) -> Vec<String> {
    let mut bad = Vec::new();
    for (area, found) in findings {
        let allowance = allowed.get(&(guard.to_owned(), area.clone())).copied().unwrap_or(0);
        if found.len() > allowance {
            bad.push(format!("{guard}: {} in {area}, {allowance} allowed", found.len()));
            bad.extend(found.iter().take(SHOWN).cloned());
            if found.len() > SHOWN {
                bad.push(format!("... and {} more", found.len() - SHOWN));
            }
        }
    }
    bad
}

/// Lowers the allowances of a guard to what was found. A new guard starts with what was found.
fn lower(guard: &str, findings: &Findings, allowed: &mut Allowed) {
    let new = !allowed.keys().any(|(of, _)| of == guard);
    for (area, found) in findings.iter().filter(|_| new) {
        allowed.insert((guard.to_owned(), area.clone()), found.len());
    }
    for ((of, area), count) in allowed.iter_mut() {
        if of == guard {
            *count = (*count).min(findings.get(area).map_or(0, Vec::len));
        }
    }
    allowed.retain(|_, count| *count > 0);
}

fn render(allowed: &Allowed) -> String {
    let head = "# What each guard still allows: guard, area, count. Counts only fall.\n";
    let lines = allowed.iter().map(|((guard, area), count)| format!("{guard} {area} {count}\n"));
    head.to_owned() + &lines.collect::<String>()
}

/// Fails if an area has more findings than allowed. With `FFS_ALLOWANCES=lower` in the environment
/// it lowers the allowances to the findings first. With `FFS_ALLOWANCES=none` it allows none, so
/// that everything is listed.
pub(crate) fn check(guards: &[(&str, &Findings)]) {
    // Tests run in several threads, and each may write the file.
    static FILE: Mutex<()> = Mutex::new(());
    let lock = FILE.lock();
    let mut allowed = parse(&repository::read(PATH));
    let mode = env::var("FFS_ALLOWANCES").unwrap_or_default();
    for (guard, findings) in guards {
        match mode.as_str() {
            "lower" => lower(guard, findings, &mut allowed),
            "none" => allowed.retain(|(of, _), _| of != guard),
            _ => {}
        }
    }
    if mode == "lower" {
        fs::write(repository::root().join(PATH), render(&allowed)).unwrap();
    }
    drop(lock);
    let bad = guards.iter().flat_map(|(guard, findings)| excess(guard, findings, &allowed));
    let bad: Vec<String> = bad.collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn a_count_may_fall_and_not_rise() {
    let findings = |count| Findings::from([("a".to_owned(), vec!["x".to_owned(); count])]);
    let mut allowed = parse("# comment\nwords a 2\nlines a 1\n");
    assert!(excess("words", &findings(2), &allowed).is_empty());
    assert_eq!(excess("words", &findings(3), &allowed).len(), 4);
    assert_eq!(excess("files", &findings(1), &allowed).len(), 2, "no line: none allowed");
    lower("words", &findings(3), &mut allowed);
    assert_eq!(allowed, parse("words a 2\nlines a 1\n"));
    lower("words", &findings(0), &mut allowed);
    assert_eq!(allowed, parse("lines a 1\n"));
    lower("files", &findings(4), &mut allowed);
    assert_eq!(parse(&render(&allowed)), parse("lines a 1\nfiles a 4\n"));
}
