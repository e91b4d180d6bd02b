"""Who reads and writes a block device, as the kernel's trace events tell."""
import os
import pathlib
import re
import subprocess
import tempfile

EVENT = re.compile(r"block_bio_queue: \S+ (?P<kind>[A-Z]+) .*\[(?P<command>[^\]]*)\]")


class NoTrace(Exception):
    """This kernel tells nothing, or not here."""


class BlockTrace:
    """Follows one device while it is open as a context."""

    def __init__(self, device):
        self.device = device
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="berth-trace-"))
        self.instance = self.root / "instances" / self.root.name
        self.event = self.instance / "events" / "block" / "block_bio_queue"

    def __enter__(self):
        mounted = subprocess.run(["mount", "-t", "tracefs", "nodev", self.root], check=False, capture_output=True, text=True)
        if mounted.returncode or not (self.root / "events" / "block" / "block_bio_queue").exists():
            self._unmount()
            raise NoTrace(mounted.stderr.strip() or "the kernel has no events of block devices")
        self.instance.mkdir()
        number = os.stat(self.device).st_rdev
        (self.event / "filter").write_text(f"dev == {os.major(number) << 20 | os.minor(number)}")
        (self.event / "enable").write_text("1")
        return self

    def __exit__(self, *_):
        (self.event / "enable").write_text("0")
        self.instance.rmdir()
        self._unmount()

    def programs(self):
        """Gives the names of the programs that have read the device or written to it until now."""
        events = map(EVENT.search, (self.instance / "trace").read_text(errors="replace").splitlines())
        return {event["command"] for event in events if event}

    def _unmount(self):
        subprocess.run(["umount", self.root], check=False, capture_output=True)
        self.root.rmdir()
