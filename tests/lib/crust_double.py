"""The double of a CRUST handler (tests/doubles/crust_double.py) as a process of its own: it mounts volumes, and breaks rules on
command."""
import os
import pathlib
import subprocess
import sys

from lib import mounts
from lib.standalone import ROOT, wait_for

PROGRAM = ROOT / "tests" / "doubles" / "crust_double.py"
SANDBOXES = PROGRAM.with_name("crust_sandboxes.py")


def rules():
    """Gives the switches."""
    listing = subprocess.run([sys.executable, PROGRAM, "--list"], capture_output=True, text=True, check=True).stdout
    return [line.partition("\t")[0] for line in listing.splitlines()]


class CrustDouble:
    def __init__(self, folder, flags=()):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.socket = self.folder / "crust.sock"
        # The command by which a suite makes pods and sandboxes.
        self.command = f"{sys.executable} -ISB {SANDBOXES} {self.folder}"
        self.flags = list(flags)
        self.process = None

    def start(self):
        for path in (self.socket, self.folder / "control.sock"):
            path.unlink(missing_ok=True)
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", PROGRAM, "--folder", self.folder,
                   "--host-pid", str(os.getpid()), *self.flags]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for("the double to serve", lambda: self.socket.exists() or not self.alive())
            assert self.alive(), (self.folder / "log").read_text()
            mounts.let_go_of_others(self.process.pid, own=self.folder)
        except BaseException:
            self.stop()
            raise
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def be_wrong(self, *switches):
        """Sets the switches from the next call on. Without switches the handler keeps to the rules again."""
        new = self.folder / "switches.new"
        new.write_text("".join(f"{switch}\n" for switch in switches))
        new.rename(self.folder / "switches")

    def calm(self):
        """Lets it keep to the rules again, and unmounts what it kept although it should not have. If it died, it starts again;
        tells whether it did."""
        self.be_wrong()
        died = subprocess.run([*self.command.split(), "reset"], check=False, capture_output=True).returncode != 0
        if died:
            self.process.wait(30)
            self.start()
        return died
