"""The block agent and its operator beside a real kubelet, which calls the agent through its Flexvolume driver."""
import pytest
from lib import block_agent, objects
from lib.kubernetes import runtimes
from lib.kubernetes.cluster import KINDS
from lib.standalone import wait_for

pytestmark = [pytest.mark.kubernetes, runtimes.BOTH]


class Site:
    """An operator and an agent, which end with the node."""

    def __init__(self, node):
        self.node = node
        self.cluster = node.cluster
        self.images = node.folder / "images"
        self.images.mkdir()
        node.run("operator", *node.block_operator_command(self.cluster.kubeconfig))
        agent = node.run("agent", *node.block_agent_command(self.cluster.kubeconfig))
        # It is XFS, because ext4 grows in use only with CAP_SYS_RESOURCE, which a container may lack (test_vm_node.py).
        block_agent.make_class(self.cluster, "block", self.images, "xfs")
        agent.wait_for("the agent's driver", lambda: "is installed in" in agent.log())

    def fences(self):
        return {item["metadata"]["name"]: [each["node"] for each in item.get("attachments") or []]
                for item in self.cluster.api.get(f"{block_agent.GROUP}/volumefences").json["items"]}


@pytest.fixture
def site(bare_node):
    return Site(bare_node)


def capacity(cluster, kind, name):
    item = cluster.get(kind, name, "default" if KINDS[kind][2] else None)
    return (item["spec"] if kind == "PersistentVolume" else item["status"])["capacity"]["storage"]


def test_a_volume_of_the_block_agent(site):
    """A claim becomes a volume, the kubelet mounts it by the agent's driver under a fence, it grows in use and keeps its data."""
    cluster, node = site.cluster, site.node
    cluster.create(objects.claim("data", "320Mi", "block"), "default")
    claim = wait_for("the claim to be bound", lambda: (
        item if (item := cluster.get("PersistentVolumeClaim", "data", "default"))["status"].get("phase") == "Bound" else None))
    volume = claim["spec"]["volumeName"]
    assert cluster.get("PersistentVolume", volume)["spec"]["flexVolume"]["driver"] == block_agent.DRIVER
    node.create_pod(objects.pod("writer", "echo kept > /data/file && sync && sleep 1000", ["data"]))
    node.wait_pod("writer", "Running")
    assert site.fences() == {volume: [node.name]}
    cluster.patch("PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": "416Mi"}}}}, "default")
    wait_for("both capacities", lambda: capacity(cluster, "PersistentVolume", volume) == "416Mi"
             and capacity(cluster, "PersistentVolumeClaim", "data") == "416Mi")
    node.delete_pod("writer")
    wait_for("the fence to be empty", lambda: not site.fences().get(volume))
    node.create_pod(objects.pod("reader", "test $(cat /data/file) = kept && test $(df -Pk /data | awk 'END {print $2}') -gt 350000", ["data"]))
    node.wait_pod("reader", "Succeeded")
    assert capacity(cluster, "PersistentVolume", volume) == "416Mi", "no other grower has set it back"
    node.delete_pod("reader")
    cluster.delete("PersistentVolumeClaim", "data", "default")
    wait_for("the image to be gone", lambda: not list(site.images.glob("pvc-*")))
    assert not block_agent.loops_of(site.images)
