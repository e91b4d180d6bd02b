"""Volumes of an NBD server (nbdkit), from the claim to the pod and back: with the block operator of a standalone Berth,
an agent and an I/O proxy on its node, each killed under a pod; and how such a volume does not move by itself."""
import shutil
import subprocess
import tempfile

import pytest
from lib import mounts, objects
from lib.block_agent import BlockAgent
from lib.io_proxy import IoProxy
from lib.standalone import Standalone, wait_for

pytestmark = [pytest.mark.storage, pytest.mark.e2e]

STAY = "echo $HOSTNAME >> /data/who; sync /data/who; touch /written; trap 'exit 0' TERM; while :; do sleep 0.1; done"
WHO = "until [ -e /written ]; do sleep 0.1; done; cat /data/who"
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


class NbdServer:
    def __init__(self, folder):
        self.images = folder / "exports"
        self.images.mkdir()
        self.socket = folder / "nbd.sock"
        self.process = None

    def start(self):
        self.socket.unlink(missing_ok=True)
        self.process = subprocess.Popen(["nbdkit", "--foreground", "--unix", self.socket, "file", f"dir={self.images}"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("the NBD server", self.socket.exists)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Site:
    def __init__(self, berth):
        self.berth = berth
        self.server = NbdServer(berth.folder)
        self.proxy = IoProxy(berth.folder)
        self.agent = BlockAgent(berth, "node-a", berth.data, berth.folder,
                                flags=["--io-proxy-socket", self.proxy.socket, "--node-silence", "1s"])

    def start(self):
        self.server.start()
        self.proxy.start()
        self.agent.start().wait_ready()

    def stop(self):
        self.agent.kill()
        self.proxy.kill()
        self.server.kill()

    def make_class(self):
        self.berth.apply({"apiVersion": "storage.berth.dev/v1alpha1", "kind": "StorageCluster", "metadata": {"name": "nbd"},
                          "spec": {"backend": {"nbd": {"server": f"unix:{self.server.socket}", "access": "Proxy",
                                                       "folder": str(self.server.images)}}}})
        self.berth.apply({**objects.storage_class("nbd", provisioner="block.berth.dev", binding="Immediate"),
                          "parameters": {"cluster": "nbd", "csi.storage.k8s.io/fstype": "xfs"}})

    def claim(self, name, size="320Mi"):
        self.berth.apply(objects.claim(name, size, "nbd"))
        self.berth.wait_phase("pvc", name, "Bound")
        return self.berth.get("pvc", name)["spec"]["volumeName"]

    def apply_pod(self, name, claim):
        self.berth.apply(objects.pod(name, STAY, [claim], mounts=[{"name": claim, "mountPath": "/data"}]))

    def run(self, name, claim):
        self.apply_pod(name, claim)
        self.berth.wait_phase("pods", name, "Running", seconds=90)

    def inside(self, pod, script):
        return self.berth.run("exec", pod, "--", "sh", "-c", script).stdout

    def remove(self, name):
        self.berth.run("delete", "pod", name, "--wait=false")
        self.berth.wait_gone("pods", name)


@pytest.fixture(scope="module")
def module_site(runtime):
    if shutil.which("nbdkit") is None:
        pytest.skip("nbdkit is not installed")
    berth = Standalone(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"), runtime)
    made = Site(berth)
    try:
        berth.start()
        made.start()
        yield made
        made.agent.stop()
        berth.stop()
    finally:
        made.stop()
        berth.kill()
        mounts.unmount_below(berth.folder)
        made.proxy.remove_volumes()


@pytest.fixture
def site(module_site):
    module_site.make_class()
    wait_for("the cluster to be ready", lambda: (module_site.berth.get("storageclusters", "nbd") or {}).get(
        "status", {}).get("phase") == "Ready")
    yield module_site
    module_site.berth.remove_everything(seconds=90)
    wait_for("all volumes to go", lambda: not module_site.berth.items("persistentvolumes"))
    assert [path.name for path in module_site.server.images.iterdir() if path.is_file()] == [], "an image is left"
    wait_for("no records", lambda: not module_site.agent.records())


def test_from_the_claim_to_the_pod_with_agent_proxy_and_server_killed_under_it(site):
    site.claim("data")
    site.run("one", "data")
    assert site.inside("one", WHO).split() == ["one"]
    site.agent.kill()
    site.proxy.kill()
    # Neither carries the data.
    site.inside("one", "echo more >> /data/who && sync /data/who")
    site.server.kill()
    site.server.start()
    # The daemon of the volume connects again.
    site.inside("one", "echo again >> /data/who && sync /data/who")
    site.proxy.start()
    site.agent.start().wait_ready()
    site.remove("one")
    site.run("two", "data")
    assert site.inside("two", WHO).split() == ["one", "more", "again", "two"]


def test_a_volume_grows_while_a_pod_uses_it_and_agent_and_proxy_are_killed(site):
    name = site.claim("data")
    site.run("one", "data")
    for size, kill in (("400Mi", site.agent), ("512Mi", site.proxy)):
        kill.kill()
        claim = site.berth.get("pvc", "data")
        claim["spec"]["resources"]["requests"]["storage"] = size
        site.berth.apply(claim)
        mib = int(size.removesuffix("Mi"))
        wait_for("the image to grow", lambda mib=mib: (site.server.images / name).stat().st_size == mib << 20)
        kill.start()
        # The log of XFS takes 64 MiB, which df does not count.
        wait_for("the file system to grow", lambda mib=mib: int(
            site.inside("one", "df -k /data").split()[-5]) > (mib - 72) << 10)
        wait_for("the claim to say so", lambda size=size: site.berth.get(
            "pvc", "data")["status"]["capacity"]["storage"] == size, seconds=90)
    site.inside("one", "dd if=/dev/zero of=/data/big bs=1M count=400 conv=fsync")
    assert site.inside("one", WHO).split() == ["one"]


def test_a_volume_of_a_node_that_is_gone_stays_until_a_person_says_that_the_machine_is_off(site):
    """The NBD server cannot shut the node out, so nothing but a person's word moves the volume."""
    name = site.claim("data")
    site.berth.apply({"apiVersion": "storage.berth.dev/v1alpha1", "kind": "VolumeFence", "metadata": {"name": name},
                      "attachments": [{"node": "node-b", "podNamespace": "default", "pod": "gone", "podUID": "u",
                                       "mountDir": "/m", "clusterName": "nbd"}]})
    site.apply_pod("one", "data")
    said = wait_for("the event", lambda: [e["message"] for e in site.berth.events("one") if e["reason"] == "FenceBlocked"
                                          and "cannot tell whether it still writes" in e["message"]])[-1]
    assert "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in said
    assert f"berth fence break --dangerous {name}" in said
    fence = site.berth.get("volumefences", name)
    assert [entry["node"] for entry in fence["attachments"]] == ["node-b"]
    [blocked] = [c for c in fence["status"]["conditions"] if c["type"] == "Blocked"]
    assert blocked["status"] == "True" and "cannot tell" in blocked["message"]
    assert site.berth.get("pods", "one")["status"]["phase"] == "Pending"
    # The node comes back without a word, and is cut off: that is no proof either.
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}}
    unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    site.berth.apply({**node, "spec": {"taints": [unreachable]}})
    wait_for("the other reason", lambda: any("has not confirmed that it took the volume off" in e["message"]
                                             for e in site.berth.events("one") if e["reason"] == "FenceBlocked"),
             seconds=150)
    assert [entry["node"] for entry in site.berth.get("volumefences", name)["attachments"]] == ["node-b"]
    site.berth.apply({**node, "spec": {"taints": [unreachable, OUT_OF_SERVICE]}})
    site.berth.wait_phase("pods", "one", "Running", seconds=150)
    assert [entry["node"] for entry in site.berth.get("volumefences", name)["attachments"]] == ["node-a"]
    site.berth.run("delete", "nodes", "node-b")
    site.berth.run("delete", "nodecleanups", "node-b", check=False)
