"""Hangs a FUSE mount, a driver and an mkfs at the same time, and measures how long other volumes take meanwhile.

Berth runs in a mount namespace of its own, where mkfs.xfs is a stand-in that waits, so that nothing of the machine is
changed. Its mounts are seen only there.
"""
import pathlib
import shutil
import statistics
import subprocess
import time

from lib import csi_bed, fuse_double, mounts, objects, standalone
from lib.standalone import wait_for

UTILITY = pathlib.Path("/usr/sbin/mkfs.xfs")


class Hangs:
    def __init__(self, folder, binary=standalone.BINARY):
        self.folder = pathlib.Path(folder)
        self.flag = self.folder / "mkfs-hangs"
        self.reached = self.folder / "mkfs-reached"
        self.bed = csi_bed.Bed(self.folder)
        self.bed.berth.binary = self._program(binary)
        self.fuse = fuse_double.FuseDouble(self.folder / "fuse", self.folder / "on-fuse")

    def _program(self, berth):
        shutil.copy(UTILITY, self.folder / "mkfs-real")
        self._script("mkfs", f"""for word; do [ "$word" = -V ] && exec {self.folder}/mkfs-real "$@"; done
: > {self.reached}
while [ -e {self.flag} ]; do sleep 0.05; done
exec {self.folder}/mkfs-real "$@"
""")
        return self._script("berth", f"""[ "$1" = up ] || exec {berth} "$@"
exec unshare --mount sh -c 'mount --bind {self.folder}/mkfs {UTILITY.resolve()} && exec {berth} "$@"' berth "$@"
""")

    def _script(self, name, text):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def start(self):
        self.fuse.start()
        self.bed.start()
        mounts.let_go_of_others(self.bed.berth.process.pid, own=self.folder)
        self.bed.berth.apply([objects.storage_class("of-ext4", "ext4", binding="Immediate"),
                              objects.storage_class("of-xfs", "xfs", binding="Immediate")])
        return self

    def stop(self):
        self.flag.unlink(missing_ok=True)
        self.fuse.be_wrong()
        self.bed.stop()
        self.fuse.stop()
        # The mounts ended with the namespace, but loop devices of a failed run may be left.
        listing = subprocess.run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"],
                                 capture_output=True, text=True, check=True).stdout
        for line in listing.splitlines():
            name, _, backing = line.partition(" ")
            if backing.strip().startswith(str(self.folder)):
                subprocess.run(["losetup", "--detach", name], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- one life after the other

    def life(self, name):
        """Gives the seconds from a claim to its mount, and then deletes everything."""
        path = self.folder / name
        begin = time.monotonic()
        self.bed.berth.apply(objects.claim(name, "64Mi", "of-ext4"))
        self.bed.berth.run("mount", name, path, "--timeout", "60", timeout=90)
        seconds = time.monotonic() - begin
        self.bed.berth.run("umount", path, "--timeout", "60", timeout=90)
        self.bed.berth.run("delete", "pvc", name, "--no-wait")
        return seconds

    def lives(self, prefix, count):
        return [self.life(f"{prefix}-{i}") for i in range(count)]

    # -- the three

    def hang(self):
        """Returns when each of the three is stuck in what hangs."""
        berth = self.bed.berth
        self.bed.double.be_wrong("hangs:NodeStageVolume")
        self.fuse.be_wrong("hangs")
        self.flag.touch()
        berth.apply([objects.claim("on-driver", "64Mi", csi_bed.CLASS), objects.claim("on-mkfs", "320Mi", "of-xfs"),
                     objects.claim("on-fuse", "64Mi", "of-ext4")])
        for claim, path in self.targets().items():
            berth.run("mount", claim, path, "--timeout", "1", check=False)
        wait_for("the driver to hang", lambda: self.bed.double.calls("NodeStageVolume"))
        wait_for("mkfs to hang", self.reached.exists)

    def targets(self):
        return {"on-driver": self.folder / "from-driver", "on-mkfs": self.folder / "from-mkfs",
                "on-fuse": self.fuse.mount_point / "inside"}

    def messages(self):
        """Gives the messages of the three host mounts, by claim."""
        return {item["spec"]["claimName"]: (item.get("status") or {}) for item in self.bed.berth.items("hostmounts")}

    def cure(self):
        self.flag.unlink()
        self.fuse.be_wrong()
        self.bed.double.be_wrong()


def describe(seconds):
    return f"median {statistics.median(seconds) * 1000:.0f} ms, longest {max(seconds) * 1000:.0f} of {len(seconds)}"
