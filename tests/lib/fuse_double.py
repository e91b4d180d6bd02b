"""The file system that fails on command (tests/doubles/fuse_double.cc)."""
import os
import pathlib
import subprocess

from lib.standalone import ROOT, wait_for

PROGRAM = ROOT / "build" / "bin" / "fuse_double"


class FuseDouble:
    """Passes FOLDER/below through at `mount_point`."""

    def __init__(self, folder, mount_point):
        self.folder = pathlib.Path(folder)
        self.below = self.folder / "below"
        self.mount_point = pathlib.Path(mount_point)
        self.process = None

    def start(self):
        self.below.mkdir(parents=True, exist_ok=True)
        self.mount_point.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen([PROGRAM, "--folder", self.below, "--mount-point", self.mount_point,
                                         "--switches", self.folder / "switches"], stdin=subprocess.DEVNULL)
        wait_for("the file system to be mounted", lambda: os.path.ismount(self.mount_point))
        return self

    def be_wrong(self, *switches):
        new = self.folder / "switches.new"
        new.write_text("".join(f"{switch}\n" for switch in switches))
        new.rename(self.folder / "switches")

    def stop(self):
        if self.process is None:
            return
        self.be_wrong()
        subprocess.run(["umount", "--lazy", self.mount_point], check=False)
        self.process.kill()
        self.process.wait()
        self.process = None
