//! What a guard found, by area: a crate, or a top-level folder.

use std::collections::BTreeMap;

/// The most findings of an area that a failure prints.
const SHOWN: usize = 60;

/// Findings of one guard by area.
pub(crate) type Findings = BTreeMap<String, Vec<String>>;

/// The lines of a failure.
fn report(guard: &str, findings: &Findings) -> Vec<String> {
    let mut lines = Vec::new();
    for (area, found) in findings.iter().filter(|(_, found)| !found.is_empty()) {
        lines.push(format!("{guard}: {} in {area}", found.len()));
        lines.extend(found.iter().take(SHOWN).cloned());
        if found.len() > SHOWN {
            lines.push(format!("... and {} more", found.len() - SHOWN));
        }
    }
    lines
}

/// Fails if a guard found anything.
pub(crate) fn check(guards: &[(&str, &Findings)]) {
    let lines: Vec<String> =
        guards.iter().flat_map(|(guard, findings)| report(guard, findings)).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn findings_are_reported_up_to_a_limit() {
    let findings = |count| Findings::from([("a".to_owned(), vec!["x".to_owned(); count])]);
    assert!(report("words", &findings(0)).is_empty());
    assert_eq!(report("words", &findings(1)), ["words: 1 in a", "x"]);
    assert_eq!(report("words", &findings(SHOWN + 2)).len(), SHOWN + 2);
}
