"""The Go hostpath driver as a process, for the cases that need what the driver double lacks, such as groups of snapshots."""
import os
import signal

import pytest

from lib.kubernetes import programs
from lib.kubernetes.programs import Process
from lib.shipped_driver import ShippedDriver
from lib.standalone import wait_for


def group_driver(new_world, folder, name):
    """Gives a driver that attaches nothing and takes snapshots of groups: the hostpath driver, or in a world of Berth's own API,
    where no Go program has to be, the driver that Berth ships."""
    if new_world.on_own_api:
        return ShippedDriver(folder / "shipped", name)
    if programs.missing("hostpathplugin"):
        pytest.skip(programs.missing("hostpathplugin"))
    return Hostpath(folder / "hostpath", name)


class Hostpath:
    """Its node has no topology, so that no kubelet has to register it. stop() ends it; it keeps its volumes."""

    def __init__(self, folder, name):
        self.name = name
        self.folder = folder
        self.socket = folder / "csi.sock"
        self._state = folder / "state"
        self._process = None

    def start(self):
        self._state.mkdir(parents=True, exist_ok=True)
        self._process = Process(self.folder / "log", [
            programs.find("hostpathplugin"), f"--endpoint=unix://{self.socket}", "--nodeid=node-a", f"--drivername={self.name}",
            f"--statedir={self._state}", "--enable-topology=false", "--v=5"])
        wait_for("the hostpath driver", self.socket.exists)
        return self

    def stop(self):
        if self._process is not None:
            self._process.process.send_signal(signal.SIGCONT)
            self._process.stop()

    def halt(self):
        """Stops it so that it answers nothing, until go_on()."""
        self._process.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self._process.process.send_signal(signal.SIGCONT)

    def snapshots(self):
        """Gives the files of all snapshots."""
        return sorted(name for name in os.listdir(self._state) if name.endswith(".snap"))

    def calls(self, method):
        """Tells how many calls of a method have come."""
        return self._process.log().count(f"/{method}\"")
