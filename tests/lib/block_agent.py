"""`berth block-agent` beside a node of a standalone Berth, and functions that make its images and volumes by hand."""
import json
import os
import pathlib
import signal
import subprocess
import time

import yaml
from lib import objects
from lib.standalone import ROOT, Failure, wait_for

DRIVER = "berth.dev/block"
GROUP = "/apis/storage.berth.dev/v1alpha1"
CRDS = sorted((ROOT / "deploy" / "crds").glob("storage.berth.dev_*.yaml"))


def with_token(kubeconfig, token, path):
    """Writes a kubeconfig for the same API, which has the token as its only credentials."""
    document = yaml.safe_load(pathlib.Path(kubeconfig).read_text())
    document["users"] = [{"name": user["name"], "user": {"token": token}} for user in document["users"]]
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def as_agent(node):
    """Gives the fields of a kubeconfig's user by which an administrator acts as the block agent of a node."""
    return {"as": f"berth.dev:block-agent:{node}", "as-groups": ["berth.dev:block-agents"]}


def write_socket_config(path, socket, node):
    """Writes a kubeconfig by which the agent of a node reaches the API at a UNIX socket."""
    path.write_text(yaml.safe_dump({
        "clusters": [{"name": "c", "cluster": {"server": f"unix://{socket}"}}],
        "users": [{"name": "u", "user": as_agent(node)}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}))
    return path


class BlockAgent:
    """The agent of one node: of the `berth up` itself, or of a FurtherNode. It has the rights of a block agent of that
    node, and no others, unless it is given a kubeconfig."""

    def __init__(self, berth, name, data, folder, inside=lambda *command: list(map(str, command)), flags=(),
                 kubeconfig=None):
        self.berth = berth
        self.kubeconfig = kubeconfig
        self.token = None
        self.name = name
        self.data = pathlib.Path(data)
        self.inside = inside
        self.socket = pathlib.Path(folder) / "agent.sock"
        self.log = pathlib.Path(folder) / "block-agent.log"
        self.flags = list(flags)
        self.process = None

    def credentials(self):
        if self.kubeconfig is not None:
            return self.kubeconfig
        if self.token is None:
            self.token = self.berth.run("token", "create", self.name, "--role", "block-agent").stdout.strip()
        return with_token(self.berth.data / "kubeconfig", self.token, self.socket.parent / "block-agent.kubeconfig")

    def start(self, env=None):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.inside(self.berth.binary, "block-agent", "--kubeconfig", self.credentials(),
                            "--node-name", self.name, "--data", self.data, "--socket", self.socket,
                            "--kubelet-dir", self.data / "kubelet", "--volume-plugin-dir",
                            self.data / "volume-plugins", *self.flags),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | (env or {}), start_new_session=True)
        return self

    def wait_ready(self):
        def made():
            if self.process.poll() is not None:
                raise Failure(f"'berth block-agent' ended with {self.process.returncode}:\n{self.log_tail()}")
            return "made its handshake" in self.log.read_text()
        wait_for(f"the handshake of {self.name}'s driver", made)
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(30) != 0:
            raise Failure(f"'berth block-agent' ended with {self.process.returncode}:\n{self.log_tail()}")

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def records(self):
        return sorted(path.stem for path in (self.data / "block-agent" / "volumes").glob("*.json"))

    def size_of(self, volume):
        """Gives the device's size as recorded, or None if the volume is not mapped."""
        try:
            record = json.loads((self.data / "block-agent" / "volumes" / f"{volume}.json").read_text())
        except FileNotFoundError:
            return None
        return (record.get("mapping") or {}).get("sizeBytes")

    def log_tail(self, lines=60):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def define_kinds(berth):
    for file in CRDS:
        berth.apply(file)
    wait_for("the kinds to be served", lambda: all(
        berth.run("get", kind, check=False).returncode == 0
        for kind in ("volumefences", "nodecleanups", "storageclusters")))


def storage_cluster(name, folder, **backend):
    return {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "StorageCluster", "metadata": {"name": name},
            "spec": {"backend": {"images": {"folder": str(folder), **backend}}}}


def make_class(cluster, name, images, fs_type):
    """Makes the StorageCluster "main" in a Cluster whose operator defines the kinds, and a StorageClass of it."""
    wait_for("the kinds", lambda: all(cluster.api.get(f"{GROUP}/{kind}").code == 200
                                      for kind in ("storageclusters", "volumefences", "nodecleanups")))
    reply = cluster.api.post(f"{GROUP}/storageclusters", storage_cluster("main", images))
    assert reply.code == 201, reply
    cluster.create(objects.storage_class(name, provisioner="block.berth.dev", binding="Immediate") | {
        "parameters": {"cluster": "main", "csi.storage.k8s.io/fstype": fs_type}})


def make_image(folder, name, size):
    """Makes an image as `berth` does (src/block/images/image_record.h)."""
    folder = pathlib.Path(folder)
    (folder / ".berth").mkdir(parents=True, exist_ok=True)
    path = folder / name
    with open(path, "wb") as image:
        image.truncate(size)
    os.chmod(path, 0o600)
    info = path.stat()
    record = {"version": 1, "name": name, "state": "ready", "sizeBytes": size, "createdUnixNanos": time.time_ns(),
              "image": {"device": info.st_dev, "inode": info.st_ino,
                        "bootId": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()}}
    (folder / ".berth" / f"{name}.json").write_text(json.dumps(record))
    return path


def volume(name, cluster, modes=("ReadWriteOnce",), fs_type="ext4", size="64Mi", **source):
    """Gives a PersistentVolume and the claim that is bound to it."""
    return [{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
             "spec": {"capacity": {"storage": size}, "accessModes": list(modes), "storageClassName": "",
                      "persistentVolumeReclaimPolicy": "Retain",
                      "claimRef": {"namespace": "default", "name": name},
                      "flexVolume": {"driver": DRIVER, "fsType": fs_type,
                                     "options": {"cluster": cluster, "image": name}, **source}}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
             "spec": {"accessModes": list(modes), "storageClassName": "", "volumeName": name,
                      "resources": {"requests": {"storage": size}}}}]


def loops_of(folder):
    """Gives the loop devices of a folder's files, by the file's name."""
    listing = subprocess.run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"],
                             capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listing.splitlines():
        name, _, backing = line.partition(" ")
        if backing.strip().startswith(str(folder) + "/"):
            found.setdefault(pathlib.Path(backing.strip()).name, []).append(name)
    return found
