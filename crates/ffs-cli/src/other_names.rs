//! Commands that other programs have under another name, for the message about an unknown command.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What people type, and what does the same here.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("chgrp", "ffs chown :GROUP IMAGE:/PATH"),
    ("debugfs", "ffs debug IMAGE"),
    ("dir", "ffs ls IMAGE:/PATH"),
    ("export", "ffs serve nbd IMAGE"),
    ("extract", "ffs cp -a IMAGE:/PATH DIR"),
    ("fdisk", "ffs info IMAGE"),
    ("format", "ffs newfs IMAGE"),
    ("fsdb", "ffs debug IMAGE"),
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

/// Replaces clap's guess at an unknown command by the command that does the same.
pub(crate) fn suggest(error: &mut Error) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let Some((_, here)) = OTHER_NAMES.iter().find(|(other, _)| other == typed) else { return };
    error.remove(ContextKind::SuggestedSubcommand);
    let tip = StyledStr::from(format!("here it is: {here}"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_that_is_proposed_exists() {
        for (other, here) in OTHER_NAMES {
            let mut words = here.split(' ').skip(1);
            let command = words.next().unwrap();
            assert!(crate::app::doc(command).is_some(), "{here}");
            assert!(crate::app::doc(other).is_none(), "{other}");
        }
    }
}
