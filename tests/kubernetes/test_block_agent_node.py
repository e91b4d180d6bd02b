"""The block agent and its operator beside a real kubelet, which calls the agent through its Flexvolume driver. Both have the accounts
of deploy/block-agent, with its rights and under its policies, and no others."""
import pytest
from lib import block_agent, objects
from lib.kubectl import render
from lib.kubernetes import runtimes
from lib.kubernetes.cluster import KINDS
from lib.standalone import ROOT, wait_for

pytestmark = [pytest.mark.kubernetes, runtimes.BOTH]

NAMESPACE = "berth-block"
OPERATOR, AGENT = "berth-block-operator", "berth-block-agent"


class Site:
    """An operator and an agent, which end with the node."""

    def __init__(self, node):
        self.node = node
        self.cluster = node.cluster
        self.images = node.folder / "images"
        self.images.mkdir()
        for item in render(ROOT / "deploy" / "block-agent").values():
            if item["kind"] not in ("Deployment", "DaemonSet"):
                self.cluster.create(item, item["metadata"].get("namespace"))
        self.processes = [node.run("operator", *node.block_operator_command(self.operator_account())),
                          agent := node.run("agent", *node.block_agent_command(self.agent_account()))]
        # It is XFS, because ext4 grows in use only with CAP_SYS_RESOURCE, which a container may lack (test_vm_node.py).
        block_agent.make_class(self.cluster, "block", self.images, "xfs")
        agent.wait_for("the agent's driver", lambda: "is installed in" in agent.log())

    def operator_account(self):
        return self.cluster.write_token(self.node.folder / "operator.config", NAMESPACE, OPERATOR)

    def agent_account(self):
        """Writes the kubeconfig of a pod of the agent on the node, because the policies ask for the node in the token."""
        pod = self.cluster.create({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": NAMESPACE},
            "spec": {"serviceAccountName": AGENT, "nodeName": self.node.name, "automountServiceAccountToken": False, "hostNetwork": True,
                     "containers": [{"name": "agent", "image": "nothing.invalid/agent", "imagePullPolicy": "Never"}]}}, NAMESPACE)
        return self.cluster.write_token(self.node.folder / "agent.config", NAMESPACE, AGENT, pod)

    def refused(self):
        """Gives the lines by which the two say that the API refused something to them."""
        return [line for process in self.processes for line in process.log().splitlines()
                if "forbidden" in line.lower() or "PERMISSION_DENIED" in line]

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
    """A claim becomes a volume, the kubelet mounts it by the agent's driver under a fence, it grows in use and keeps its data. Nothing
    is refused to the accounts of deploy/block-agent."""
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
    assert not site.refused()
