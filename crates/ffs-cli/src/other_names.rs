//! Commands that other programs have under another name, for the message about an unknown command.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What people type, and the command here.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("chgrp", "ffs chown :GROUP IMAGE:/PATH"),
    ("debugfs", "ffs debug inode IMAGE:/PATH"),
    ("dir", "ffs ls IMAGE:/PATH"),
    ("export", "ffs serve nbd IMAGE"),
    ("extract", "ffs cp -a IMAGE:/PATH DIR"),
    ("fdisk", "ffs info IMAGE"),
    ("format", "ffs newfs IMAGE"),
    ("fsdb", "ffs debug inode IMAGE:/PATH"),
    ("get", "ffs cp IMAGE:/PATH FILE"),
    ("gpart", "ffs info IMAGE"),
    ("head", "ffs cat IMAGE:/PATH | head"),
    ("less", "ffs cat IMAGE:/PATH | less"),
    ("makefs", "ffs build IMAGE TREE"),
    ("mkfs", "ffs newfs IMAGE"),
    ("mkimg", "ffs disk create IMAGE"),
    ("mksnap", "ffs snapshot create IMAGE:/NAME"),
    ("more", "ffs cat IMAGE:/PATH | more"),
    ("partitions", "ffs info IMAGE"),
    ("put", "ffs cp FILE IMAGE:/PATH"),
    ("resize", "ffs growfs -s SIZE IMAGE"),
    ("resize2fs", "ffs growfs -s SIZE IMAGE"),
    ("rmdir", "ffs rm -d IMAGE:/PATH"),
    ("tail", "ffs cat IMAGE:/PATH | tail"),
    ("tune2fs", "ffs tunefs IMAGE"),
    ("unmount", "ffs umount DIR"),
];

/// The command of `ffs shell` for what people type. The image is not among its arguments.
pub(crate) fn in_shell(typed: &str, has: impl Fn(&str) -> bool) -> Option<String> {
    let fits = |here: &&str| !here.contains('|') && !here.ends_with(" DIR");
    let here = find(typed).filter(fits)?.trim_start_matches("ffs ");
    let here = here.replace("IMAGE:", "").replace(" IMAGE", "");
    has(here.split(' ').next()?).then_some(here)
}

/// Whether a command of other programs has this name.
pub(crate) fn is_known(typed: &str) -> bool {
    find(typed).is_some()
}

fn find(typed: &str) -> Option<&'static str> {
    OTHER_NAMES.iter().find(|(other, _)| *other == typed).map(|(_, here)| *here)
}

/// Replaces clap's guess at an unknown command by the command here.
pub(crate) fn suggest(error: &mut Error) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let Some(here) = find(typed) else { return };
    error.remove(ContextKind::SuggestedSubcommand);
    let tip = StyledStr::from(format!("write: {here}"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_that_is_proposed_exists() {
        for (other, here) in OTHER_NAMES {
            let line = here.split('|').next().unwrap().replace("GROUP", "0").replace("SIZE", "4g");
            let parsed = crate::app::command_line().try_get_matches_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{here}: {}", parsed.unwrap_err());
            assert!(crate::app::doc(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_shell_has_the_image() {
        let has = |command: &str| ["chown", "rm"].contains(&command);
        assert_eq!(in_shell("chgrp", has).as_deref(), Some("chown :GROUP /PATH"));
        for none in ["less", "format", "extract", "ls"] {
            assert_eq!(in_shell(none, has), None);
        }
    }
}
