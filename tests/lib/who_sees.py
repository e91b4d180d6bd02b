"""Finds by the mount tables of all processes and threads which of them have a device's file system mounted."""
import glob
import os
import pathlib
import re
import threading


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""  # it ended meanwhile


def _namespace(task):
    try:
        return os.readlink(f"{task}/ns/mnt")
    except OSError:
        return ""


class Sighting:
    """A thread in whose mount namespace the device is mounted."""

    def __init__(self, task, namespace, points):
        self.task = task
        self.namespace = namespace
        self.points = points
        self.command = _read(f"{task}/cmdline").replace("\0", " ").strip()
        self.cgroups = _read(f"{task}/cgroup")

    def __str__(self):
        return f"{self.task} ({self.command}) has it at {', '.join(self.points)}"


def sightings(device):
    """Gives the sightings of the device with this number ("7:3")."""
    tables = {}
    for task in glob.glob("/proc/[0-9]*/task/[0-9]*"):
        namespace = _namespace(task)
        if not namespace:
            continue
        if namespace not in tables:
            tables[namespace] = [line.split()[4] for line in _read(f"{task}/mountinfo").splitlines()
                                 if line.split()[2] == device]
        if tables[namespace]:
            yield Sighting(task, namespace, tables[namespace])


def is_of_sandbox(sighting, handler, containers):
    """Tells whether the thread may see a volume of a sandbox: it is in a container, whose cgroup matches `containers`, or in a program
    that makes containers. A process that is ending has no command line."""
    program = pathlib.Path(sighting.command.partition(" ")[0]).name
    return bool(re.search(containers, sighting.cgroups)) or program in ("", "runc") \
        or str(handler.oci) in sighting.command or str(handler.socket) in sighting.command


class Watch:
    """Looks again and again, from a thread, and keeps each sighting that `allowed` does not accept."""

    def __init__(self, devices, allowed):
        self._devices = devices
        self._allowed = allowed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.looks = 0
        self.seen = 0
        self.strange = {}

    def _run(self):
        while not self._stop.is_set():
            for device in self._devices():
                for sighting in sightings(device):
                    self.seen += 1
                    if not self._allowed(sighting):
                        self.strange.setdefault((sighting.command, tuple(sighting.points)), str(sighting))
            self.looks += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
