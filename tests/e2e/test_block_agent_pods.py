"""The block agent and its I/O proxy run as pods, from the image of deploy/block-agent and the DaemonSets that the
operator makes. Their devices and mounts reach the node, and the end of one pod does not end a volume that the other
or the kernel carries."""
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from lib import block_agent, mounts, objects, pod_image
from lib.block_agent import loops_of
from lib.machine import Machine
from lib.standalone import Standalone, wait_for

pytestmark = [pytest.mark.blockagent, pytest.mark.e2e]

IMAGE = "berth.local/block-agent:1"
AGENT, PROXY = "berth-block-agent", "berth-io-proxy"
# The folders of the node that the manifests use: /run/berth, /var/lib/berth and /srv/berth.
FOLDERS = ["run", "var/lib", "srv"]
IMAGES = "/srv/berth"
PROXY_FILES = "/run/berth/io-proxy"
# Appends numbers for ever, syncs each to the device before the next, and prints errors.
WRITER = """
i=0
trap 'echo wrote $i; exit 0' TERM
while :; do
  echo $i >>/data/numbers && sync /data/numbers || echo "write $i failed"
  i=$((i + 1))
  sleep 0.05
done
"""


class Node:
    """A standalone Berth whose operator makes the DaemonSets."""

    def __init__(self, berth, machine):
        self.berth = berth
        self.machine = machine

    def pods_of(self, name):
        return [pod for pod in self.berth.items("pods", "kube-system") if pod["metadata"]["labels"].get("app") == name]

    def uid(self, name):
        """Gives the UID of the only pod of a DaemonSet once it is ready, and None before."""
        pods = self.pods_of(name)
        if len(pods) != 1 or "deletionTimestamp" in pods[0]["metadata"]:
            return None
        ready = objects.is_ready(pods[0])
        return pods[0]["metadata"]["uid"] if ready else None

    def wait_ready(self, name, other_than=None):
        return wait_for(f"a ready pod of {name}", lambda: (uid := self.uid(name)) != other_than and uid, seconds=90)

    def replace(self, name):
        """Deletes the pod of a DaemonSet, and waits for the next."""
        before = self.wait_ready(name)
        [pod] = self.pods_of(name)
        self.berth.run("delete", "pod", pod["metadata"]["name"], "-n", "kube-system", "--wait=false")
        self.wait_ready(name, other_than=before)

    def device(self, volume):
        [device] = self.berth.get("volumefences", volume)["status"]["devices"]
        return device["devicePath"]

    def claim(self, name, cluster):
        self.berth.apply([{**objects.storage_class(cluster, provisioner="block.berth.dev", binding="Immediate"),
                           "parameters": {"cluster": cluster, "csi.storage.k8s.io/fstype": "ext4"}},
                          objects.claim(name, "64Mi", cluster)])
        self.berth.wait_phase("pvc", name, "Bound")
        return self.berth.get("pvc", name)["spec"]["volumeName"]

    def write(self, name, claim):
        self.berth.apply(objects.pod(name, WRITER, [claim], mounts=[{"name": claim, "mountPath": "/data"}]))
        self.berth.wait_phase("pods", name, "Running", seconds=60)
        self.berth.wait_file(name, "/data/numbers")

    def numbers(self, name):
        return [int(line) for line in self.berth.run("exec", name, "--", "cat", "/data/numbers").stdout.split()]

    def wait_for_more(self, name):
        seen = len(self.numbers(name))
        wait_for(f"{name} to go on", lambda: len(self.numbers(name)) > seen + 5)

    def end(self, name):
        """Ends a writer. It must not have met an error, and no number may be missing."""
        numbers = self.numbers(name)
        assert numbers == list(range(len(numbers)))
        assert self.berth.run("logs", name).stdout == ""
        self.berth.run("delete", "pod", name)
        self.berth.wait_gone("pods", name)


def shown_by(device):
    """Gives the file that a loop device shows, by its file system and inode, or None. The path would prove nothing,
    because it is empty once the namespace in which it was opened is gone. The device's number would prove nothing,
    because anybody may get it once it is free."""
    listing = subprocess.run(["losetup", "--noheadings", "--output", "BACK-MAJ:MIN,BACK-INO", device],
                             capture_output=True, text=True)
    return tuple(listing.stdout.split()) or None


@pytest.fixture(scope="module")
def machine():
    """Gives a machine on which mounts are shared, as they are where systemd runs, with folders of its own."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    made = Machine(shared=True)
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
        subprocess.run(made.inside("mount", "--bind", folder / name, f"/{name}"), check=True)
    made.folder = folder
    try:
        yield made
    finally:
        made.switch_off()
        mounts.detach_loops_below(IMAGES)
        mounts.detach_loops_below(PROXY_FILES)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def node(machine):
    socket = machine.own_containerd("start", machine.folder / "c")
    berth = Standalone(machine.folder / "b", socket, inside=machine.inside, flags=["--block-agent-image", IMAGE])
    try:
        pod_image.import_into(socket, "block-agent", machine.folder / "image.tar")
        berth.start()
        made = Node(berth, machine)
        made.wait_ready(AGENT)
        made.wait_ready(PROXY)
        yield made
        berth.remove_everything(seconds=90)
        for name in AGENT, PROXY:
            berth.run("delete", "daemonset", name, "-n", "kube-system", "--wait=false")
        berth.stop()
    finally:
        berth.kill()
        machine.own_containerd("stop", machine.folder / "c")


@pytest.fixture(scope="module")
def clusters(node):
    """The kernel reads the files of cluster 'main'; the I/O proxy those of 'carried'."""
    for name, access in ("main", "Loop"), ("carried", "Proxy"):
        (node.machine.folder / "srv/berth" / name).mkdir()
        node.berth.apply(block_agent.storage_cluster(name, f"{IMAGES}/{name}", access=access))
    yield node
    node.berth.remove_everything(seconds=90)
    wait_for("all volumes to go", lambda: not node.berth.items("persistentvolumes"))
    for name in "main", "carried":
        node.berth.run("delete", "storageclusters", name)
        node.berth.wait_gone("storageclusters", name)


def test_a_volume_of_the_agents_pod_is_the_nodes(clusters):
    node, berth = clusters, clusters.berth
    volume = node.claim("data", "main")
    node.write("writer", "data")
    heading, row = berth.run("get", "volumefence").stdout.splitlines()
    assert row.split()[:3] == [volume, "node-a", "writer"]
    pod = berth.get("pods", "writer")["metadata"]["uid"]
    target = f"{berth.data}/kubelet/pods/{pod}/volumes/berth.dev~block/{volume}"
    assert target in node.machine.targets(), "the kubelet sees it"
    device = node.device(volume)
    assert loops_of(IMAGES) == {volume: [device]}
    image = shown_by(device)
    assert image

    # The agent's next pod goes on from the records of the one before, and the volume is not affected.
    node.replace(AGENT)
    node.wait_for_more("writer")
    assert node.device(volume) == device and shown_by(device) == image
    node.end("writer")
    assert target not in node.machine.targets() and shown_by(device) != image
    assert berth.get("volumefences", volume) is None
    berth.run("delete", "pvc", "data")
    berth.wait_gone("persistentvolumes", volume)


def test_a_volume_of_the_proxys_pod_outlives_the_agents(clusters):
    node, berth = clusters, clusters.berth
    volume = node.claim("data", "carried")
    node.write("writer", "data")
    assert not loops_of(IMAGES), "the kernel does not read the image"
    [[device]] = loops_of(PROXY_FILES).values()
    assert node.device(volume) == device, "but the file that shows it"
    export = shown_by(device)
    assert export
    node.replace(AGENT)
    node.wait_for_more("writer")

    # A changed template reaches the agent, and not the proxy, because that has OnDelete.
    proxy, agent = node.wait_ready(PROXY), node.wait_ready(AGENT)
    change = {"spec": {"template": {"metadata": {"annotations": {"berth.dev/test": "changed"}}}}}
    for name in AGENT, PROXY:
        code, _ = berth.api.call("PATCH", f"/apis/apps/v1/namespaces/kube-system/daemonsets/{name}", change,
                                 "application/merge-patch+json")
        assert code == 200
    node.wait_ready(AGENT, other_than=agent)
    node.wait_for_more("writer")
    assert node.uid(PROXY) == proxy
    node.end("writer")
    assert shown_by(device) != export

    # Once the node's pods are gone, a person deletes the proxy's pod, and the next one carries the volume.
    node.replace(PROXY)
    node.write("again", "data")
    assert len(node.numbers("again")) > 20, "it has what was written before"
    berth.run("delete", "pod", "again")
    berth.wait_gone("pods", "again")
    berth.run("delete", "pvc", "data")
    berth.wait_gone("persistentvolumes", volume)


def test_a_proxy_that_ends_under_a_volume_is_told(clusters):
    node, berth = clusters, clusters.berth
    volume = node.claim("lost", "carried")
    node.write("writer", "lost")
    node.wait_for_more("writer")
    written = len(node.numbers("writer")) - 1  # each is flushed before the next
    node.replace(PROXY)
    # The agent checks once a minute.
    told = wait_for("the pod's event", lambda: [e["message"] for e in berth.events("writer") if e["reason"] == "VolumeQuarantined"],
                    seconds=90)
    assert "writes that were not flushed may be lost" in told[0] and "end the pods that use it" in told[0]
    _, row = berth.run("get", "volumefence").stdout.splitlines()
    assert "Quarantined" in row
    assert "write" in berth.run("logs", "writer").stdout, "the pod has met errors, and no silence"

    # The message was right: the quarantine ends with the pod, and flushed data is there.
    berth.run("delete", "pod", "writer")
    berth.wait_gone("pods", "writer")
    node.write("again", "lost")
    assert node.numbers("again")[:written] == list(range(written))
    berth.run("delete", "pod", "again")
    berth.wait_gone("pods", "again")
