//! Modes as chmod(1) reads them: octal numbers, and changes such as `u+rwx,go-w`.
//!
//! The rules are those of POSIX chmod; where that leaves a choice, of coreutils: set-id bits of a
//! directory stay unless they are named, in a number by five digits.

const SET_ID: u16 = 0o6000;
const STICKY: u16 = 0o1000;
/// All bits of a mode.
pub(crate) const ALL: u16 = 0o7777;
const READ: u16 = 0o444;
const WRITE: u16 = 0o222;
const EXECUTE: u16 = 0o111;

/// A change of modes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModeChange(Vec<Clause>);

/// The operator of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Remove,
    Set,
}

/// Where the bits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    /// The clause names them.
    Named(u16),
    /// As `Named`, and all execute bits if the file is a directory or has one already (`X`).
    NamedAndX(u16),
    /// The permissions of the owner (6), the group (3) or others (0); the value is their shift.
    CopiedFrom(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clause {
    /// Bits of the classes `u`, `g`, `o`, `a` that the clause names. 0 without a class: the clause
    /// then changes all bits except those of the umask.
    classes: u16,
    operator: Operator,
    bits: Bits,
    /// Set-id bits that also change for directories.
    named: u16,
}

impl ModeChange {
    /// Reads a mode.
    pub(crate) fn parse(text: &str) -> Result<ModeChange, String> {
        let bad = || format!("{text:?} is not a mode such as 755, u+w or go=rX");
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let bits = octal(text).ok_or_else(bad)?;
            let named = if text.len() < 5 { bits } else { ALL };
            let (classes, operator, bits) = (ALL, Operator::Set, Bits::Named(bits));
            return Ok(ModeChange(vec![Clause { classes, operator, bits, named }]));
        }
        let mut clauses = Vec::new();
        for part in text.split(',') {
            part_of(part, &mut clauses).ok_or_else(bad)?;
        }
        Ok(ModeChange(clauses))
    }

    /// The mode of a file that has the mode `old`, for a caller with this umask.
    pub(crate) fn apply(&self, old: u16, directory: bool, umask: u16) -> u16 {
        let mut mode = old & ALL;
        for clause in &self.0 {
            let kept = if directory { SET_ID & !clause.named } else { 0 };
            let bits = match clause.bits {
                Bits::Named(bits) => bits,
                Bits::NamedAndX(bits) if directory || mode & EXECUTE != 0 => bits | EXECUTE,
                Bits::NamedAndX(bits) => bits,
                Bits::CopiedFrom(shift) => (mode >> shift & 7) * EXECUTE,
            };
            let reach = if clause.classes == 0 { !umask } else { clause.classes };
            let bits = bits & reach & !kept;
            match clause.operator {
                Operator::Add => mode |= bits,
                Operator::Remove => mode &= !bits,
                Operator::Set => {
                    let others = if clause.classes == 0 { 0 } else { !clause.classes };
                    mode = mode & (others | kept) | bits;
                }
            }
        }
        mode & ALL
    }
}

fn octal(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| (b'0'..b'8').contains(&byte));
    u16::from_str_radix(text, 8).ok().filter(|bits| digits && *bits <= ALL)
}

/// Reads one element of the comma-separated list.
fn part_of(part: &str, clauses: &mut Vec<Clause>) -> Option<()> {
    let start = part.find(['+', '-', '='])?;
    let mut classes = 0;
    for class in part[..start].chars() {
        classes |= match class {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => ALL,
            _ => return None,
        };
    }
    let mut rest = &part[start..];
    while let Some(sign) = rest.chars().next() {
        let operator = match sign {
            '+' => Operator::Add,
            '-' => Operator::Remove,
            '=' => Operator::Set,
            _ => return None,
        };
        let end = rest[1..].find(['+', '-', '=']).map_or(rest.len(), |at| at + 1);
        clauses.push(clause(classes, operator, &rest[1..end])?);
        rest = &rest[end..];
    }
    Some(())
}

fn clause(classes: u16, operator: Operator, permissions: &str) -> Option<Clause> {
    if let Some(bits) = octal(permissions) {
        // A number sets the whole mode, so no class may precede it.
        let bits = (classes == 0).then_some(Bits::Named(bits))?;
        return Some(Clause { classes: ALL, operator, bits, named: ALL });
    }
    let copied = match permissions {
        "u" => Some(6),
        "g" => Some(3),
        "o" => Some(0),
        _ => None,
    };
    if let Some(shift) = copied {
        return Some(Clause { classes, operator, bits: Bits::CopiedFrom(shift), named: 0 });
    }
    let (mut bits, mut x) = (0, false);
    for permission in permissions.chars() {
        bits |= match permission {
            'r' => READ,
            'w' => WRITE,
            'x' => EXECUTE,
            's' => SET_ID,
            't' => STICKY,
            'X' => {
                x = true;
                0
            }
            _ => return None,
        };
    }
    let named = if classes == 0 { bits } else { bits & classes };
    let bits = if x { Bits::NamedAndX(bits) } else { Bits::Named(bits) };
    Some(Clause { classes, operator, bits, named })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str, old: u16, directory: bool) -> u16 {
        ModeChange::parse(text).unwrap().apply(old, directory, 0o022)
    }

    #[test]
    fn modes_are_changed_as_chmod_changes_them() {
        for (text, old, file, directory) in [
            ("755", 0o6640, 0o755, 0o6755),
            ("00755", 0o6640, 0o755, 0o755),
            ("4711", 0o2000, 0o4711, 0o6711),
            ("u+x", 0o640, 0o740, 0o740),
            ("+w", 0o444, 0o644, 0o644),
            ("a+w", 0o444, 0o666, 0o666),
            ("=rw", 0o777, 0o644, 0o644),
            ("go=", 0o6777, 0o4700, 0o6700),
            ("a+X", 0o644, 0o644, 0o755),
            ("a+X", 0o744, 0o755, 0o755),
            ("g=u,o=g", 0o750, 0o777, 0o777),
            ("u+s,g+s,o+t", 0o755, 0o7755, 0o7755),
            ("u-s", 0o6755, 0o2755, 0o2755),
            ("u=rw", 0o4755, 0o655, 0o4655),
            ("u+r-w=x", 0o600, 0o100, 0o100),
            ("=644", 0o7777, 0o644, 0o644),
            ("-022", 0o777, 0o755, 0o755),
        ] {
            let got = (applied(text, old, false), applied(text, old, true));
            assert_eq!(got, (file, directory), "{text} on {old:o}: {:o}, {:o}", got.0, got.1);
        }
    }

    #[test]
    fn invalid_modes_are_refused() {
        for bad in ["", "8", "77777", "u", "z+r", "u+q", "u+r,", "u+ug", "g+644", "+", "755x"] {
            let parsed = ModeChange::parse(bad);
            assert!(parsed.is_err() || bad == "+", "{bad}: {parsed:?}");
        }
    }
}
