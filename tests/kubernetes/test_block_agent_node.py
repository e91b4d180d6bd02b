"""The block agent and its operator beside a real kubelet, which calls the agent through its Flexvolume driver. Both have the accounts
of deploy/block-agent, with its rights and under its policies, and no others."""
import itertools

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
        return [line for process in self.processes for line in process.refusals()]

    def fences(self):
        return {item["metadata"]["name"]: [each["node"] for each in item.get("attachments") or []]
                for item in self.cluster.api.get(f"{block_agent.GROUP}/volumefences").json["items"]}


    def make_claim(self, name, size, **spec):
        self.cluster.create(objects.claim(name, size, "block", **spec), "default")

    def bound(self, name):
        """Waits until a claim is bound, and gives the claim."""
        def look():
            claim = self.cluster.get("PersistentVolumeClaim", name, "default")
            return claim if claim["status"].get("phase") == "Bound" else None
        return wait_for(f"claim {name} to be bound", look)

    def delete_claim(self, name):
        """Deletes a claim, and waits until its volume's image is gone."""
        image = self.images / self.bound(name)["spec"]["volumeName"]
        self.cluster.delete("PersistentVolumeClaim", name, "default")
        wait_for("the image to be gone", lambda: not image.exists())


@pytest.fixture(scope="module")
def site(bare_node):
    made = Site(bare_node)
    yield made
    assert not block_agent.loops_of(made.images)
    assert not made.refused()


def capacity_of(item):
    return (item["spec"] if item["kind"] == "PersistentVolume" else item["status"])["capacity"]["storage"]


class Capacities:
    """The capacities that an object has one after the other, as a watch shows them."""

    def __init__(self, cluster, kind, name, since):
        self.cluster = cluster
        self.object = (kind, name, "default" if KINDS[kind][2] else None)
        self._watch = cluster.api.watch(cluster.path(kind, self.object[2]), resourceVersion=since, fieldSelector=f"metadata.name={name}")
        assert self._watch.code == 200

    def now(self):
        return capacity_of(self.cluster.get(*self.object))

    def until_now(self):
        kind, name, namespace = self.object
        last = self.cluster.patch(kind, name, {"metadata": {"annotations": {"seen-until": "now"}}}, namespace)
        seen = []

        def is_last(_, item):
            seen.append(capacity_of(item))
            return item["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]
        with self._watch:
            self._watch.until(is_last, 60)
        return [capacity for capacity, _ in itertools.groupby(seen)]


def test_a_volume_of_the_block_agent(site):
    """A claim becomes a volume, the kubelet mounts it by the agent's driver under a fence, it grows in use and keeps its data. Nothing
    is refused to the accounts of deploy/block-agent."""
    cluster, node = site.cluster, site.node
    site.make_claim("data", "320Mi")
    claim = site.bound("data")
    volume = claim["spec"]["volumeName"]
    assert cluster.get("PersistentVolume", volume)["spec"]["flexVolume"]["driver"] == block_agent.DRIVER
    node.create_pod(objects.pod("writer", "echo kept > /data/file && sync && sleep 1000", ["data"]))
    node.wait_pod("writer", "Running")
    assert site.fences() == {volume: [node.name]}
    since = claim["metadata"]["resourceVersion"]
    capacities = [Capacities(cluster, "PersistentVolume", volume, since), Capacities(cluster, "PersistentVolumeClaim", "data", since)]
    cluster.patch("PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": "416Mi"}}}}, "default")
    wait_for("both capacities", lambda: [each.now() for each in capacities] == ["416Mi", "416Mi"])
    node.delete_pod("writer")
    wait_for("the fence to be empty", lambda: not site.fences().get(volume))
    node.create_pod(objects.pod("reader", "test $(cat /data/file) = kept && test $(df -Pk /data | awk 'END {print $2}') -gt 350000", ["data"]))
    node.wait_pod("reader", "Succeeded")
    # Beside another grower, such as that of kube-controller-manager, a capacity may go back.
    for each in capacities:
        assert each.until_now() in (["320Mi", "416Mi"], ["416Mi"])
    assert not [event for event in cluster.items("Event", "default") if "object has been modified" in event.get("message", "")]
    node.delete_pod("reader")
    site.delete_claim("data")


def test_a_snapshot_of_a_volume_of_the_block_agent(site):
    """A snapshot waits until no pod uses the volume, and a claim that is restored from it has the data of then."""
    cluster, node = site.cluster, site.node
    site.make_claim("data", "320Mi")
    site.bound("data")
    node.create_pod(objects.pod("writer", "echo before > /data/file && sync && sleep 1000", ["data"]))
    node.wait_pod("writer", "Running")
    cluster.create(objects.block_snapshot("monday", "data"), "default")
    site.make_claim("restored", "416Mi", **objects.restored_from("monday"))
    wait_for("the reason", lambda: any(event["reason"] == "SnapshotFailed" and "default/writer" in event["message"]
                                       for event in cluster.items("Event", "default")))
    node.delete_pod("writer")
    site.bound("restored")
    status = cluster.get("BlockSnapshot", "monday", "default")["status"]
    assert status["readyToUse"] and (site.images / status["snapshot"]).exists()
    node.create_pod(objects.pod("changer", "echo after > /data/file && sync", ["data"]))
    node.wait_pod("changer", "Succeeded")
    node.create_pod(objects.pod("reader", "test $(cat /restored/file) = before", ["restored"]))
    node.wait_pod("reader", "Succeeded")
    for name in ("changer", "reader"):
        node.delete_pod(name)
    for name in ("restored", "data"):
        site.delete_claim(name)
    cluster.delete("BlockSnapshot", "monday", "default")
    wait_for("the snapshot to be gone", lambda: cluster.get("BlockSnapshot", "monday", "default") is None)
    assert not (site.images / status["snapshot"]).exists()
