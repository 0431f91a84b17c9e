//! Command lines in forms of BSD that differ from those of the commands here.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, Command};

/// The arguments of dump(8) and restore(8) in the usual form, if they have the old one from `first`
/// on: `0uaf FILE IMAGE`, letters without a dash, and their values behind them in the same order.
/// An argument with this form has at least two letters, each of an option, and is no file.
pub(crate) fn modernize(
    command: &str,
    definition: &Command,
    args: &[OsString],
    first: usize,
) -> Option<Vec<OsString>> {
    if !matches!(command, "dump" | "restore") {
        return None;
    }
    let word = args.get(first)?.to_str().filter(|word| word.len() > 1)?;
    if Path::new(word).exists() {
        return None;
    }
    let option = |letter| definition.get_arguments().find(|arg| arg.get_short() == Some(letter));
    let letters: Vec<(char, &Arg)> =
        word.chars().map(|letter| Some((letter, option(letter)?))).collect::<Option<_>>()?;
    let mut modern = args[..first].to_vec();
    let mut rest = args[first + 1..].iter().cloned();
    for (letter, arg) in letters {
        let mut option = OsString::from(format!("-{letter}"));
        let value = if arg.get_action().takes_values() { rest.next() } else { None };
        match value {
            // A value that looks like an option must be attached.
            Some(value) if value.len() > 1 && value.as_encoded_bytes().starts_with(b"-") => {
                option.push(value);
                modern.push(option);
            }
            value => modern.extend([Some(option), value].into_iter().flatten()),
        }
    }
    modern.extend(rest);
    Some(modern)
}

/// The arguments of `ffs snapshot create` for those of mksnap_ffs(8): the new snapshot, before
/// which old versions want the mount point.
pub(crate) fn of_mksnap(args: Vec<OsString>) -> Vec<OsString> {
    let is_option = |arg: &&OsString| arg.to_str().is_some_and(|arg| arg.starts_with('-'));
    let (options, mut operands): (Vec<_>, Vec<_>) = args.iter().skip(1).partition(is_option);
    if operands.len() == 2 {
        operands.remove(0);
    }
    let command = ["ffs", "snapshot", "create"].map(OsString::from);
    command.into_iter().chain(options.into_iter().chain(operands).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modern(line: &str) -> String {
        let command = ["u", "L", "0"].into_iter().fold(Command::new("dump"), |command, flag| {
            let short = flag.chars().next().unwrap();
            command.arg(Arg::new(flag).short(short).action(clap::ArgAction::SetTrue))
        });
        let command = command.arg(Arg::new("f").short('f')).arg(Arg::new("h").short('h'));
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let args = modernize("dump", &command, &args, 1).unwrap_or(args);
        args.iter().map(|arg| arg.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn values_follow_in_the_order_of_their_letters() {
        assert_eq!(modern("dump 0uf out disk.img"), "dump -0 -u -f out disk.img");
        assert_eq!(modern("dump 0hLf 2 - disk.img -u"), "dump -0 -h 2 -L -f - disk.img -u");
        assert_eq!(modern("dump 0f"), "dump -0 -f");
        for same in ["dump disk.img", "dump -0f out disk.img", "dump 0q", "dump f out", "dump"] {
            assert_eq!(modern(same), same);
        }
    }
}
