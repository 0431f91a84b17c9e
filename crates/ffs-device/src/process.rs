//! Processes of the host that a program has started.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Sends `signal` to `first` and to all processes below it, those below first: a shell may have
/// started the program that is to end. Where the system does not list them, only `first` gets it.
pub fn signal_all(first: Pid, signal: Signal) {
    let mut found = vec![first];
    let mut next = 0;
    while let Some(pid) = found.get(next).map(|pid| pid.as_raw_nonzero()) {
        let below = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let below = below.unwrap_or_default();
        found.extend(below.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
        next += 1;
    }
    for pid in found.into_iter().rev() {
        // It fails only if the process has just ended.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};

    #[test]
    fn programs_below_a_shell_get_the_signal() {
        // Two levels below the shell, each with the pipe open.
        let script = "sh -c 'sleep 60 & echo started; wait' & wait";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        signal_all(Pid::from_child(&shell), Signal::KILL);
        shell.wait().unwrap();
        // The end of the pipe: no process has it open.
        if fs::exists("/proc/self/task").unwrap() {
            assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0);
        }
    }
}
