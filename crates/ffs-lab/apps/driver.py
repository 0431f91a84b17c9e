"""Runs one program on a directory, and afterwards its check of the data.

usage: driver.py list
       driver.py setup PROGRAM DIR SEED
       driver.py work PROGRAM DIR SEED STEPS
       driver.py check PROGRAM SEED

`list` prints one JSON line for each program. `work` prints `ack` after each step that the program
has acknowledged, and continues when it reads a line: in between the harness marks the moment in its
recording. `check` reads lines `ACKED DIR` and prints a JSON line for each: how many of the first ACKED
steps are lost, and the reason if the data cannot be used. Each check runs in its own process, so that
a program that crashes has an answer, too.
"""
import json
import os
import resource
import signal
import sys

import databases
import files
import repository

PROGRAMS = {program.name: program
            for module in (databases, files, repository) for program in module.PROGRAMS}
# A check that takes longer than this many seconds is stuck.
CHECK_SECONDS = 120


def list_programs():
    for name, program in PROGRAMS.items():
        version, missing = None, None
        try:
            version = program.version()
        except Exception as error:
            missing = describe(error)
        print(json.dumps({"name": name, "promise": program.promise, "what": program.what,
                          "version": version, "missing": missing}))


def work(program, home, seed, steps):
    run = program.start(home, seed)
    for step in range(steps):
        run.step(step)
        print("ack", flush=True)
        if not sys.stdin.readline():
            return


def describe(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


def examine(program, home, seed, acked):
    """What `check` answers, computed in a child."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        signal.alarm(CHECK_SECONDS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            answer = {"lost": program.check(home, seed, acked), "broken": None}
        except BaseException as error:
            answer = {"lost": 0, "broken": describe(error)}
        os.write(theirs, json.dumps(answer).encode())
        # No destructor may touch the directory any more.
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if text:
        return json.loads(text)
    why = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "no answer"
    return {"lost": 0, "broken": f"the program died: {why}"}


def main():
    action, *words = sys.argv[1:]
    if action == "list":
        list_programs()
        return
    program = PROGRAMS[words[0]]
    if action == "setup":
        program.setup(words[1], int(words[2]))
    elif action == "work":
        work(program, words[1], int(words[2]), int(words[3]))
    elif action == "check":
        for line in sys.stdin:
            acked, home = line.rstrip("\n").split(" ", 1)
            print(json.dumps(examine(program, home, int(words[1]), int(acked))), flush=True)


if __name__ == "__main__":
    main()
