//! The exit codes of wrong command lines that only a command itself notices. Those of options are
//! tested in `app.rs`, for every command.

use crate::common::{Dir, fails, ffs, ok};

#[test]
fn a_command_that_finds_its_command_line_wrong_has_the_code_of_a_wrong_option() {
    let d = Dir::new();
    let image = d.image("a.img", "8m", &[]);
    let (relative, slash, none) = (format!("{image}:etc"), format!("{image}/etc"), d.str("none"));
    for (args, code) in [
        (&["ls", &relative][..], 64),
        (&["ls", &slash], 64),
        (&["cat", &relative], 64),
        (&["ln", &slash, &image], 64),
        (&["find", "-name", "x"], 64),
        (&["find", &image, "-nam", "x"], 64),
        (&["stat", "-a", &image], 64),
        (&["snapshot", "mount", &image, &none], 64),
        (&["cp", &image], 64),
        (&["setfacl", &image], 64),
        (&["lab", "stress", "--only", "nonsense"], 64),
        (&["shell", &image, "-c", "ls --no-such-option"], 64),
        (&["shell", &image, "-c", "diff --no-such-option"], 2),
        (&["diff", &none, &none], 2),
        (&["diff", &relative, &none], 2),
        (&["tunefs", &image], 2),
        (&["mount", &image], 1),
        (&["newfs", "-s", "1m", "-"], 1),
        (&["fsck", "--explain", "nonsense"], 1),
        (&["edquota"], 1),
        (&["restore", "--json", "-x", "-f", &none], 1),
    ] {
        fails(args, code, "");
    }
    let dump =
        ffs().args(["dump", "-0", "-f", &none, &image]).env("SOURCE_DATE_EPOCH", "x").output();
    assert_eq!(dump.unwrap().status.code(), Some(1));
}

#[test]
fn help_names_the_exit_code_of_a_wrong_command_line() {
    for (command, row) in [
        ("ls", "\n  64    the command line is wrong\n"),
        ("tunefs", "\n  2     the command line is wrong\n"),
        (
            "diff",
            "\n  2     trouble: something could not be compared; or the command line is wrong\n",
        ),
        ("mount", "\n  1     the command line is wrong\n"),
        ("fsck", "\n  1     the command line is wrong\n"),
    ] {
        let help = ok(&[command, "--help"]);
        assert!(help.contains(row), "{help}");
    }
    assert!(ok(&["--help"]).contains("64 if the command line is wrong"));
}
