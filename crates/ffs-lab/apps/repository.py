"""git: commits, branches, and from time to time gc."""
import os
import subprocess

from common import Broken, content, read_file, write_file


class Git:
    """A commit a step; every fourth makes a branch, every eighth packs and prunes."""

    def __init__(self, fsync):
        self.fsync = fsync
        self.name = "git-all" if fsync else "git-default"
        self.what = "git commits, branches and gc, " + (
            f"core.fsync={fsync}" if fsync else "default core.fsync")
        # git never syncs a directory: where names need that, the last steps may be lost. Without
        # core.fsync=all it does not sync references and the index either, and promises nothing.
        self.promise = "usable" if fsync else "none"

    def version(self):
        try:
            result = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True)
        except FileNotFoundError:
            raise RuntimeError("no git on this machine") from None
        return result.stdout.split()[2]

    def git(self, home, *words):
        environment = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null",
                           GIT_AUTHOR_NAME="lab", GIT_AUTHOR_EMAIL="lab@localhost",
                           GIT_COMMITTER_NAME="lab", GIT_COMMITTER_EMAIL="lab@localhost",
                           GIT_AUTHOR_DATE="1000000000 +0000", GIT_COMMITTER_DATE="1000000000 +0000")
        result = subprocess.run(["git", *words], cwd=f"{home}/repo", env=environment,
                              capture_output=True, text=True)
        if result.returncode:
            words = [word for word in result.stderr.splitlines() + result.stdout.splitlines() if word]
            raise Broken("; ".join(words[:3]) or f"git ended with {result.returncode}")
        return result.stdout

    def setup(self, home, seed):
        os.mkdir(f"{home}/repo")
        self.git(home, "init", "-q", "-b", "main")
        settings = [("gc.auto", "0"), ("maintenance.auto", "false"), ("gc.pruneExpire", "now")]
        if self.fsync:
            settings.append(("core.fsync", self.fsync))
        for name, value in settings:
            self.git(home, "config", name, value)
        write_file(f"{home}/repo/file", b"begin\n", sync=False)
        self.git(home, "add", "file")
        self.git(home, "commit", "-q", "-m", "begin")

    def start(self, home, seed):
        return GitRun(self, home, seed)

    def check(self, home, seed, acked):
        for name in ("HEAD", "config"):
            if not read_file(f"{home}/repo/.git/{name}"):
                raise Broken(f".git/{name} is empty or missing")
        self.git(home, "fsck", "--full", "--strict", "--no-dangling")
        there = 0
        for line in self.git(home, "log", "--format=%s", "main").splitlines():
            there = max(there, int(line) + 1) if line.isdigit() else there
        if there > acked + 1:
            raise Broken(f"{there} commits of {acked} made")
        if there:
            shown = self.git(home, "show", f"main:f{(there - 1) % 5}")
            if shown.encode() != content(seed, there - 1, 2000):
                raise Broken(f"commit {there - 1} has another content")
        self.git(home, "status", "--porcelain")
        branches = self.git(home, "for-each-ref", "--format=%(refname:short)").split()
        lost = [step for step in range(3, acked, 4)
                if f"b{step}" not in branches and step < there]
        return max(0, acked - there) + len(lost)


class GitRun:
    def __init__(self, git, home, seed):
        self.kind, self.home, self.seed = git, home, seed

    def step(self, step):
        write_file(f"{self.home}/repo/f{step % 5}", content(self.seed, step, 2000), sync=False,
                   exclusive=False)
        self.kind.git(self.home, "add", f"f{step % 5}")
        self.kind.git(self.home, "commit", "-q", "-m", str(step))
        if step % 4 == 3:
            self.kind.git(self.home, "branch", f"b{step}")
        if step % 8 == 7:
            self.kind.git(self.home, "gc", "-q")


PROGRAMS = [Git("all"), Git("")]
