"""Programs that keep their data in plain files: a mail server, a package manager, editors."""
import os
import shutil
import subprocess

from common import Broken, content, fsync_dir, read_file, write_file


class Maildir:
    """A delivery a step (tmp, fsync, rename to new), and every third one is read: moved to cur."""

    def __init__(self, dirsync):
        self.dirsync = dirsync
        self.name = "maildir" if dirsync else "maildir-nodirsync"
        self.what = "maildir deliveries: write and fsync in tmp, rename to new" + (
            ", fsync of new" if dirsync else "")
        self.promise = "durable" if dirsync else "usable"

    def version(self):
        return "built in"

    def setup(self, home, seed):
        for name in ("tmp", "new", "cur"):
            os.mkdir(f"{home}/{name}")

    def start(self, home, seed):
        return MaildirRun(home, seed, self.dirsync)

    def check(self, home, seed, acked):
        found = {}
        for place in ("new", "cur"):
            for name in os.listdir(f"{home}/{place}"):
                step = int(name.split(".")[0])
                if read_file(f"{home}/{place}/{name}") != content(seed, step):
                    raise Broken(f"{place}/{name} is not the message that was delivered")
                found.setdefault(step, []).append(place)
        for step in found:
            if step > acked:
                raise Broken(f"message {step} of {acked} delivered")
        return sum(step not in found for step in range(acked))


class MaildirRun:
    def __init__(self, home, seed, dirsync):
        self.home, self.seed, self.dirsync = home, seed, dirsync

    def step(self, step):
        name = f"{step}.lab.host"
        write_file(f"{self.home}/tmp/{name}", content(self.seed, step))
        os.rename(f"{self.home}/tmp/{name}", f"{self.home}/new/{name}")
        if self.dirsync:
            fsync_dir(f"{self.home}/new")
        if step % 3 == 2:
            read = f"{step - 1}.lab.host"
            os.rename(f"{self.home}/new/{read}", f"{self.home}/cur/{read}:2,S")
            if self.dirsync:
                fsync_dir(f"{self.home}/cur")
                fsync_dir(f"{self.home}/new")


class Dpkg:
    """A package a step, as dpkg installs it: files unpacked under a temporary name, synced, renamed; then
    the status file, a list of the installed packages: written, synced, the old one kept, renamed."""
    FILES = 6

    def __init__(self, dirsync):
        self.dirsync = dirsync
        self.name = "dpkg" if dirsync else "dpkg-nodirsync"
        self.what = "dpkg-like installation: write, fsync, rename" + (
            ", fsync of directories" if dirsync else "")
        self.promise = "durable" if dirsync else "usable"

    def version(self):
        return "built in"

    def setup(self, home, seed):
        os.mkdir(f"{home}/usr")
        os.mkdir(f"{home}/var")
        write_file(f"{home}/var/status", b"0\n")

    def start(self, home, seed):
        return DpkgRun(home, seed, self.dirsync)

    def check(self, home, seed, acked):
        status = read_file(f"{home}/var/status")
        if status is None or not status.strip().isdigit():
            raise Broken(f"the status file is {status!r}")
        installed = int(status)
        if installed > acked + 1:
            raise Broken(f"{installed} packages of {acked} installed")
        # Every third package is the next version of the one before: its files are replaced.
        for package in range(installed):
            for number in range(self.FILES):
                path = f"{home}/usr/p{package - package % 3}/f{number}"
                newest = min(package - package % 3 + 2, installed)
                allowed = [content(seed, f"{version}.{number}")
                           for version in range(package, newest + 1)]
                if read_file(path) not in allowed:
                    raise Broken(f"package {package} is installed and {path[len(home):]} is not its file")
        return max(0, acked - installed)


class DpkgRun:
    def __init__(self, home, seed, dirsync):
        self.home, self.seed, self.dirsync = home, seed, dirsync

    def step(self, step):
        place = f"{self.home}/usr/p{step - step % 3}"
        if step % 3 == 0:
            os.mkdir(place)
        names = [f"{place}/f{number}" for number in range(Dpkg.FILES)]
        for number, name in enumerate(names):
            write_file(f"{name}.dpkg-new", content(self.seed, f"{step}.{number}"), sync=False)
        for name in names:
            fd = os.open(f"{name}.dpkg-new", os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        for name in names:
            os.rename(f"{name}.dpkg-new", name)
        if self.dirsync:
            fsync_dir(place)
            fsync_dir(f"{self.home}/usr")
        status = f"{self.home}/var/status"
        write_file(f"{status}-new", b"%d\n" % (step + 1))
        if os.path.exists(f"{status}-old"):
            os.unlink(f"{status}-old")
        os.link(status, f"{status}-old")
        os.rename(f"{status}-new", status)
        if self.dirsync:
            fsync_dir(f"{self.home}/var")


class Editor:
    """A save a step. Each leaves the old text or the new one, whole, under the name or that of the backup."""

    def __init__(self, name, what, promise, backup):
        self.name, self.what, self.promise, self.backup = name, what, promise, backup

    def version(self):
        return "built in"

    def setup(self, home, seed):
        write_file(f"{home}/text", self.text(seed, -1))

    @staticmethod
    def text(seed, step):
        return b"%06d\n" % (step + 1) + content(seed, step) + b"\n"

    def start(self, home, seed):
        return EditorRun(self, home, seed)

    def step(self, home, text):
        getattr(self, "save_" + self.name.split("-", 1)[1])(f"{home}/text", text)

    def save_rename(self, path, text, sync=True):
        write_file(f"{path}.tmp", text, sync)
        os.rename(f"{path}.tmp", path)

    def save_rename_dirsync(self, path, text):
        self.save_rename(path, text)
        fsync_dir(os.path.dirname(path))

    def save_rename_nofsync(self, path, text):
        self.save_rename(path, text, sync=False)

    def save_backup(self, path, text):
        """As Emacs: the old file becomes the backup, the new one is made under its name."""
        os.rename(path, f"{path}~")
        write_file(path, text)
        fsync_dir(os.path.dirname(path))

    def save_link(self, path, text):
        """The backup is a second name of the old file, the new one is renamed over the first."""
        if os.path.exists(f"{path}~"):
            os.unlink(f"{path}~")
        os.link(path, f"{path}~")
        self.save_rename_dirsync(path, text)

    def save_inplace(self, path, text):
        """As vim with backupcopy=yes: the old text is copied to the backup, the file written over."""
        shutil.copyfile(path, f"{path}~")
        fd = os.open(f"{path}~", os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        fsync_dir(os.path.dirname(path))
        write_file(path, text, exclusive=False)

    def check(self, home, seed, acked):
        names = ["text"] + (["text~"] if self.backup else [])
        found = {name: self.which(read_file(f"{home}/{name}"), seed, acked) for name in names}
        best = found["text"]
        if best is None and self.backup:
            # The save was interrupted: the backup must have the content of the save before.
            best = found["text~"]
        if best is None:
            shown = ", ".join(f"{name} {self.show(f'{home}/{name}')}" for name in names)
            raise Broken(f"no whole text: {shown}")
        return max(0, acked - best)

    @staticmethod
    def show(path):
        data = read_file(path)
        return "is missing" if data is None else f"has {len(data)} bytes ({data[:7]!r})"

    def which(self, data, seed, acked):
        """How many saves the text has, or nothing if it is no saved text."""
        if not data or not data[:6].isdigit():
            return None
        saves = int(data[:6])
        if saves > acked + 1 or data != self.text(seed, saves - 1):
            return None
        return saves


class EditorRun:
    def __init__(self, editor, home, seed):
        self.editor, self.home, self.seed = editor, home, seed

    def step(self, step):
        self.editor.step(self.home, self.editor.text(self.seed, step))


class Vim(Editor):
    """vim itself, without its configuration, with the fsync that is its default."""

    def __init__(self, copy):
        super().__init__(f"vim-backupcopy-{copy}", f"vim, set backup fsync backupcopy={copy}",
                         "usable", True)
        self.copy = copy

    def version(self):
        try:
            result = subprocess.run(["vim", "--version"], capture_output=True, text=True, check=True)
        except FileNotFoundError:
            raise RuntimeError("no vim on this machine") from None
        return result.stdout.split("(")[0].strip()

    def step(self, home, text):
        # A text has two lines; the new ones are handed over in a file outside and replace the old.
        source = f"/tmp/ffs-lab-vim.{os.getpid()}"
        write_file(source, text, sync=False, exclusive=False)
        try:
            command = ["vim", "-u", "NONE", "-i", "NONE", "-n", "-es", "-c",
                       f"set nocompatible backup fsync backupcopy={self.copy}",
                       "-c", f"0r {source}", "-c", "3,$d _", "-c", "w!", "-c", "qa!",
                       f"{home}/text"]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        finally:
            os.unlink(source)
        if read_file(f"{home}/text") != text:
            raise RuntimeError("vim did not write its input")


PROGRAMS = [
    Maildir(True), Maildir(False), Dpkg(True), Dpkg(False),
    Editor("editor-rename", "editor: write, fsync, rename", "usable", False),
    Editor("editor-rename_dirsync", "editor: write, fsync, rename, fsync of the directory", "durable",
           False),
    Editor("editor-rename_nofsync", "editor: write, rename", "usable", False),
    Editor("editor-backup", "editor: rename to backup, write, fsync, fsync of the directory",
           "durable", True),
    Editor("editor-link", "editor: link as backup, write, fsync, rename, fsync of the directory",
           "durable", True),
    Editor("editor-inplace", "editor: copy to backup, fsync, write over, fsync", "durable", True),
    Vim("no"), Vim("yes"),
]
