"""Nodes of a standalone Berth with their block agents and I/O proxies, for volumes in a real storage system."""
import base64
import pathlib
import shutil
import signal
import subprocess
import tempfile

from lib import mounts, objects
from lib.block_agent import BlockAgent, write_socket_config
from lib.ceph_link import Link
from lib.cut_proxy import CutProxy
from lib.further_node import FurtherNode
from lib.io_proxy import IoProxy
from lib.standalone import wait_for

# Writes who the pod is, and stays.
STAY = "echo $HOSTNAME >> /data/who; sync /data/who; touch /written; trap 'exit 0' TERM; while :; do sleep 0.1; done"
WHO = "until [ -e /written ]; do sleep 0.1; done; cat /data/who"
NAMESPACE = "berth-block"  # of the Secrets


class StorageNode:
    """The block agent and the I/O proxy of the node of `berth up`."""

    def __init__(self, berth, name, data, folder, **inside):
        self.name = name
        self.proxy = IoProxy(folder, **inside)
        self.agent = BlockAgent(berth, name, data, folder, flags=["--io-proxy-socket", self.proxy.socket], **inside)

    def start(self):
        self.proxy.start()
        self.agent.start().wait_ready()

    def kill(self):
        self.agent.kill()
        self.proxy.kill()


class CutNetwork:
    """The network of a node's agent and I/O proxy, whose ways to the API and to a Ceph cluster can be cut."""

    def __init__(self, berth, ceph, name):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="bx-", dir="/run"))
        self._api = CutProxy(self._folder / "api.sock", berth.data / "api.sock")
        self._link = Link(ceph)
        self.kubeconfig = write_socket_config(self._folder / "kubeconfig", self._api.path, name)
        self.inside = self._link.inside

    def cut(self):
        self._link.hold()
        self._api.hang()

    def heal(self):
        self._link.release()
        self._api.heal()

    def close(self):
        self._api.close()
        self._link.close()
        shutil.rmtree(self._folder)


class FurtherStorageNode:
    """A node on a machine of its own, which can be frozen and switched off, and cut off if it is given a CutNetwork."""

    def __init__(self, berth, name="node-b", network=None):
        self.berth = berth
        self.name = name
        self.network = network
        self.further = FurtherNode(berth, name, pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp")))
        self.node = None
        self.lost_loops = []  # of lives that ended: a machine would lose them with its power

    def start(self):
        """Switches the machine on."""
        self.further.start()
        wait_for(f"{self.name} to be ready", self.further.ready)
        self.node = StorageNode(self.berth, self.name, self.further.data, self.further.folder, inside=self.inside)
        if self.network is not None:
            self.node.agent.kubeconfig = self.network.kubeconfig
        self.node.start()

    def inside(self, *command):
        """Gives a command as the agent and the proxy run it."""
        return self.further.inside(*(self.network.inside if self.network is not None else []), *command)

    def cut_off(self):
        """Cuts the node off from the API and from the storage. Its containers write on."""
        self.network.cut()
        self.further.agent.send_signal(signal.SIGSTOP)  # its kubelet hears of nothing

    def reconnect(self):
        self.further.agent.send_signal(signal.SIGCONT)
        self.network.heal()

    def freeze(self):
        """Stops all that runs on the machine beside the containers, which go on to write."""
        self.further.machine.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.further.machine.send_signal(signal.SIGCONT)

    def switch_off(self):
        if self.node is None:
            return
        self.thaw()  # its containerd has to end the containers
        self.lost_loops.extend(self.node.proxy.loops().items())
        self.further.switch_off()
        self.node.kill()
        mounts.unmount_below(self.further.folder)
        self.node.proxy.remove_volumes()
        self.node = None

    def remove(self):
        self.switch_off()
        for device, attachment in self.lost_loops:
            if mounts.attachment_of(device) == attachment:
                subprocess.run(["losetup", "--detach", device], check=False)
        mounts.detach_loops_below(self.further.folder)
        shutil.rmtree(self.further.folder, ignore_errors=True)


class StorageSite:
    """A started Berth with an agent and a proxy. `settings` gives the back end of a StorageCluster."""

    def __init__(self, berth):
        self.berth = berth
        self.node = StorageNode(berth, "node-a", berth.data, berth.folder)
        self.proxy = self.node.proxy
        self.agent = self.node.agent

    def settings(self, **more):
        raise NotImplementedError

    def start(self):
        self.berth.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.node.start()

    def end(self):
        self.node.kill()
        self.berth.kill()
        mounts.unmount_below(self.berth.folder)
        self.proxy.remove_volumes()

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

    def wait_failed(self, name, said):
        """The StorageCluster says what is wrong with its back end: in its phase, its condition and an event."""
        wait_for(f"StorageCluster {name} to fail", lambda: self.status(name).get("phase") == "Failed")
        status = self.status(name)
        [ready] = [one for one in status["conditions"] if one["type"] == "Ready"]
        assert said in status["message"] and said in ready["message"] and ready["status"] == "False", status
        self.wait_event(name, "BackendFailed", said)

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

    def begin(self, name, claim, script=STAY, node="node-a"):
        self.berth.apply(objects.pod(name, script, [claim], mounts=[{"name": claim, "mountPath": "/data"}],
                                     nodeSelector={"kubernetes.io/hostname": node}))

    def run(self, name, claim, script=STAY, node="node-a"):
        self.begin(name, claim, script, node)
        self.berth.wait_phase("pods", name, "Running", seconds=90)

    def read(self, pod):
        return self.berth.run("exec", pod, "--", "sh", "-c", WHO).stdout.split()

    def remove(self, *pods):
        for name in pods:
            self.berth.run("delete", "pod", name, "--wait=false")
        for name in pods:
            self.berth.wait_gone("pods", name)
