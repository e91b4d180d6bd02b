"""A standalone Berth with one foreign driver beside it, and the steps that tests take on them."""
import contextlib
import os
import pathlib
import shutil
import signal
import tempfile
import time

from lib import leaks, mounts, objects
from lib.drivers.driver import CLAIMS, CLASS, SECRET, SNAPSHOTS
from lib.ended_pods import judge_end
from lib.kubernetes.programs import Process
from lib.standalone import Standalone, wait_for

SNAPSHOT_CLASS = CLASS
# How long a step may take whose process was killed on its way: the driver may ask for patience, and Berth backs off.
SECONDS = 120
FUSE_SERVERS = ("ceph-fuse", "s3fs")


class Bed:
    """A Berth and a driver, from start() to end()."""

    def __init__(self, kind, runtime):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
        self.driver = kind(self._folder / "driver")
        self.berth = Standalone(self._folder / "b", runtime)
        self.kubelet = self.berth.data / "kubelet"
        self.socket = self.kubelet / "plugins" / kind.name / "csi.sock"
        self.berth.flags = ["--csi-driver", self.socket] if CLAIMS in kind.offers else []
        self._process = None
        self._before = None

    def start(self):
        self.driver.begin()
        self.berth.start()
        self.berth.keep_port()
        # Berth makes the CSIDriver object of a driver that it runs and that has none.
        for each in [self._objects(), *self.driver.more_objects()]:
            self.berth.apply(each)
        self.start_driver()
        self.wait_registered()
        self._before = leaks.Snapshot(self.berth)
        return self

    def _objects(self):
        name = self.driver.name
        secrets = {f"csi.storage.k8s.io/{step}-secret-{what}": value for step in (
            "provisioner", "controller-publish", "controller-expand", "node-stage", "node-publish", "node-expand")
            for what, value in (("name", SECRET), ("namespace", "default"))} if self.driver.secrets() else {}
        snapshots = {f"csi.storage.k8s.io/snapshotter-secret-{what}": value
                     for what, value in (("name", SECRET), ("namespace", "default"))} if self.driver.secrets() else {}
        made = [{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": self.driver.csi_driver()}]
        if CLAIMS in self.driver.offers:
            made.append(objects.storage_class(CLASS, provisioner=name, binding="Immediate",
                                              parameters=self.driver.parameters() | secrets))
        if self.driver.secrets():
            made.append({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": self.driver.secrets()})
        if SNAPSHOTS in self.driver.offers:
            made.append(objects.snapshot_class(SNAPSHOT_CLASS, name) | {"parameters": self.driver.snapshot_parameters() | snapshots})
        return made

    # -- the driver's process

    def start_driver(self):
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self._process = Process(self._folder / "driver.log", self.driver.command(self.socket, self.kubelet), self.driver.environment())
        self._process.wait_for("the driver to serve", lambda: self.socket.exists())

    def wait_registered(self):
        wait_for("the driver to be registered", lambda: any(
            each["name"] == self.driver.name for node in self.berth.items("csinodes") for each in node["spec"].get("drivers") or []))

    def kill_driver(self):
        self._process.kill()

    def kill_driver_after(self, seconds):
        """Kills the driver some seconds from now, at whatever point it is then, and waits for that."""
        time.sleep(seconds)
        self.kill_driver()

    def restart_berth_after(self, seconds):
        """Kills Berth some seconds from now, at whatever point it is then, and starts it again."""
        time.sleep(seconds)
        self.berth.kill()
        self.berth.start()

    def restart_driver(self):
        """Kills the driver, and starts it again as a container of a pod is."""
        self.kill_driver()
        self.socket.unlink(missing_ok=True)
        self.start_driver()

    def driver_log(self):
        return self._process.log()

    # -- steps that a person takes

    def claim(self, name, size="64Mi", **fields):
        self.berth.apply(objects.claim(name, size, CLASS, **fields))

    def volume_of(self, claim):
        return self.berth.get("pv", self.berth.get("pvc", claim)["spec"]["volumeName"])

    def run(self, name, script, claims=("data",), **fields):
        """Runs a pod to its end, deletes it, and gives its output."""
        self.berth.apply(objects.pod(name, script, list(claims), **fields))
        return self.end_of(name)

    def end_of(self, name):
        """Waits until a pod has succeeded, deletes it, and gives its output."""
        _, output = judge_end(self.berth, name, seconds=SECONDS)
        self.delete_pod(name)
        return output

    def delete_pod(self, name):
        self.berth.run("delete", "pod", name, "--wait=false", check=False)
        self.berth.wait_gone("pods", name, seconds=SECONDS)

    def grow(self, claim, size):
        self.berth.apply(objects.claim(claim, size, CLASS))

    def wait_capacity(self, claim, size):
        def grown():
            status = self.berth.get("pvc", claim)["status"]
            left = [key for key in ("conditions", "allocatedResourceStatuses") if status.get(key)]
            return status["capacity"]["storage"] == size and not left
        wait_for(f"claim {claim} to have {size}", grown, SECONDS)

    def ask_snapshot(self, name, claim):
        self.berth.apply(objects.snapshot(name, claim, SNAPSHOT_CLASS))

    def take_snapshot(self, name, claim):
        self.ask_snapshot(name, claim)
        self.wait_snapshot(name)

    def wait_snapshot(self, name):
        wait_for(f"snapshot {name} to be ready",
                 lambda: (self.berth.get("volumesnapshots", name).get("status") or {}).get("readyToUse"), SECONDS)

    # -- the end

    def remove_everything(self):
        """Removes all that a test made, and checks that nothing of it is left: with Berth, in the kernel, in the driver's storage."""
        self.berth.remove_everything(seconds=SECONDS)
        wait_for("the driver's storage to be empty", lambda: not self.driver.left(), 30)
        # An ended pod leaves the API at once, and its node registers a restarted driver after some seconds only.
        left = self._before.leaked_since(SECONDS)
        assert not left, "left behind:\n" + "\n".join(left)

    def kill_fuse(self):
        """Kills the FUSE servers whose mounts are below the kubelet's folder, as the end of a driver's container does. Gives how many
        they were."""
        servers = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if pathlib.Path(words[0]).name in FUSE_SERVERS and any(word.startswith(f"{self.kubelet}/") for word in words):
                    servers.append(int(folder.name))
        for pid in servers:
            os.kill(pid, signal.SIGKILL)
        return len(servers)

    def end(self):
        try:
            self.berth.kill()
            if self._process is not None:
                self._process.kill()
            self.kill_fuse()
            mounts.unmount_below(self._folder)
            mounts.detach_loops_below(self._folder)
        finally:
            self.driver.end()
            shutil.rmtree(self._folder, ignore_errors=True)
