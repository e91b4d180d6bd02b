"""A node of a standalone Berth with its block agent and its I/O proxy, for volumes in a real storage system."""
import base64
import pathlib
import subprocess
import tempfile

from lib import mounts, objects
from lib.block_agent import BlockAgent
from lib.standalone import BINARY, wait_for

# Writes who the pod is, and stays.
STAY = "echo $HOSTNAME >> /data/who; sync /data/who; touch /written; trap 'exit 0' TERM; while :; do sleep 0.1; done"
WHO = "until [ -e /written ]; do sleep 0.1; done; cat /data/who"
NAMESPACE = "berth-block"  # of the Secrets


class Proxy:
    """`berth io-proxy` of the node."""

    def __init__(self, folder):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bp-", dir="/run"))
        self.socket = self.folder / "sock"
        self.log = folder / "io-proxy.log"
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([BINARY, "io-proxy", "--folder", self.folder], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        wait_for("the I/O proxy", self.socket.exists)
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()


class StorageSite:
    """A started Berth with an agent and a proxy. `settings` gives the back end of a StorageCluster."""

    def __init__(self, berth):
        self.berth = berth
        self.proxy = Proxy(berth.folder)
        self.agent = BlockAgent(berth, "node-a", berth.data, berth.folder,
                                flags=["--io-proxy-socket", self.proxy.socket])

    def settings(self, **more):
        raise NotImplementedError

    def start(self):
        self.berth.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.proxy.start()
        self.agent.start().wait_ready()

    def end(self):
        self.agent.kill()
        if self.proxy.process is not None:
            self.proxy.kill()
        self.berth.kill()
        mounts.unmount_below(self.berth.folder)
        mounts.detach_loops_below(self.proxy.folder)
        mounts.unmount_below(self.proxy.folder)

    def secret(self, name, **values):
        encoded = {member: base64.b64encode(value.encode()).decode() for member, value in values.items()}
        self.berth.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
                          "data": encoded})

    def cluster(self, name, fs_type="ext4", **more):
        self.berth.apply({"apiVersion": "storage.berth.dev/v1alpha1", "kind": "StorageCluster",
                          "metadata": {"name": name}, "spec": {"backend": self.settings(**more)}})
        self.berth.apply({**objects.storage_class(name, provisioner="block.berth.dev", binding="Immediate"),
                          "parameters": {"cluster": name, "csi.storage.k8s.io/fstype": fs_type}})

    def status(self, name):
        return (self.berth.get("storageclusters", name) or {}).get("status", {})

    def wait_ready(self, name):
        wait_for(f"StorageCluster {name} to be ready", lambda: self.status(name).get("phase") == "Ready")

    def claim(self, name, size, storage_class, **spec):
        """Gives the name of the PersistentVolume."""
        self.berth.apply(objects.claim(name, size, storage_class, **spec))
        self.berth.wait_phase("pvc", name, "Bound")
        return self.berth.get("pvc", name)["spec"]["volumeName"]

    def delete_claim(self, name):
        volume = self.berth.get("pvc", name)["spec"]["volumeName"]
        self.berth.run("delete", "pvc", name)
        self.berth.wait_gone("persistentvolumes", volume)

    def wait_event(self, of, reason, *words):
        return wait_for(f"an event {reason} of {of}", lambda: [
            e["message"] for e in self.berth.events(of)
            if e["reason"] == reason and all(word in e["message"] for word in words)])[-1]

    def begin(self, name, claim, script=STAY):
        self.berth.apply(objects.pod(name, script, [claim], mounts=[{"name": claim, "mountPath": "/data"}]))

    def run(self, name, claim, script=STAY):
        self.begin(name, claim, script)
        self.berth.wait_phase("pods", name, "Running", seconds=90)

    def read(self, pod):
        return self.berth.run("exec", pod, "--", "sh", "-c", WHO).stdout.split()

    def remove(self, *pods):
        for name in pods:
            self.berth.run("delete", "pod", name, "--wait=false")
        for name in pods:
            self.berth.wait_gone("pods", name)
