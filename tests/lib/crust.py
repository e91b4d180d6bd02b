"""The CRUST handler, berth-oci and a containerd that has them as runtime handler `crust`."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

from lib import objects
from lib.standalone import BINARY, wait_for

RUNTIME = "crust"


class Handler:
    """`berth crust-handler` in a folder of its own, and berth-oci beside it."""

    def __init__(self, folder, flags=()):
        self.folder = pathlib.Path(folder)
        self.kubelet = self.folder / "kubelet"
        self.socket = self.folder / "crust.sock"
        self.run = self.folder / "run"
        self.oci = self.folder / "berth-oci"
        self.log = self.folder / "handler.log"
        self.flags = list(flags)
        self.process = None
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(BINARY.parent / "berth-oci", self.oci)
        (self.folder / "berth-oci.json").write_text(json.dumps(
            {"runtime": "runc", "socket": str(self.folder / "oci.sock"), "run": str(self.run)}))

    def start(self, env=None, kubelet=None):
        if kubelet is not None:
            self.kubelet = kubelet
        command = [BINARY, "crust-handler", "--socket", self.socket, "--oci-socket", self.folder / "oci.sock",
                   "--data", self.folder / "data", "--run", self.run, "--kubelet", self.kubelet, *self.flags]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=os.environ | (env or {}), start_new_session=True)
        wait_for("the handler to listen", lambda: self.socket.exists() or self.process.poll() is not None)
        return self

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.process = None

    def holders(self):
        """The namespaces that it keeps for sandboxes."""
        return sorted(path.name for path in (self.folder / "data" / "holders").glob("*"))

    def records(self):
        return sorted(path.stem for path in (self.folder / "data" / "sandboxes").glob("*.json"))

    def plans(self):
        return sorted(path.stem for path in (self.run / "plans").glob("*.json"))

    def clear(self):
        """After a failed test: nothing mounted in its folder stays."""
        self.kill()
        with open("/proc/self/mountinfo") as table:
            points = [line.split()[4] for line in table]
        for point in reversed(points):
            if point.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", point], check=False)


def runtime_class(name, socket=None):
    made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": RUNTIME}
    if socket is not None:
        made["fsMgmtSocket"] = str(socket)
    return made


def storage_class(name, fs_type="xfs", allow=True, **members):
    return objects.storage_class(name, fs_type, **members) | ({"allowRuntimeAssistedMount": True} if allow else {})


def claim(name, size="320Mi", storage_class="deferred", mode="ReadWriteOncePod"):
    made = objects.claim(name, size, storage_class)
    made["spec"]["accessModes"] = [mode]
    return made

