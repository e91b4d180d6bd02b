"""Volumes of a driver that attaches (the double): fail-over between nodes, faults and a crash on the way."""

import pytest
from lib import csi_bed, objects
from lib.csi_double import NAME
from lib.standalone import Failure, wait_for

pytestmark = [pytest.mark.csi, pytest.mark.e2e]

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


@pytest.fixture(scope="module")
def module_bed():
    with csi_bed.made() as bed:
        # This is a second node, whose driver registered before the node went silent.
        bed.berth.apply({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-b"},
                         "spec": {"drivers": [{"name": NAME, "nodeID": "node-b", "topologyKeys": []}]}})
        yield bed


@pytest.fixture
def bed(module_bed):
    yield module_bed
    module_bed.double.be_wrong()
    for item in module_bed.berth.items("volumeattachments"):
        module_bed.berth.run("delete", "volumeattachments", item["metadata"]["name"], "--wait=false", check=False)
    module_bed.berth.run("delete", "nodes", "node-b", "--wait=false", check=False)
    module_bed.calm()


def attachment(volume, node, name=None):
    """Gives a VolumeAttachment as somebody makes it by hand; the attach-detach controller leaves it alone."""
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name or f"by-hand-{node}"},
            "spec": {"attacher": NAME, "nodeName": node, "source": {"persistentVolumeName": volume}}}


def status(bed, name):
    return (bed.berth.get("volumeattachments", name) or {}).get("status", {})


def attached_nodes(bed):
    return {item["spec"]["nodeName"] for item in bed.berth.items("volumeattachments")
            if item.get("status", {}).get("attached")}


def explain(bed, subject):
    return bed.berth.explain(subject)


def test_a_volume_moves_from_a_dead_node_once_somebody_vouches_for_that(bed):
    bed.claim("data")
    volume = bed.bound("data")
    bed.berth.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b", "annotations": {
        "volumes.kubernetes.io/controller-managed-attach-detach": "true"}}})
    bed.berth.apply(objects.pod("lost", "true", ["data"], nodeName="node-b"))
    wait_for("the volume to be attached to node-b", lambda: attached_nodes(bed) == {"node-b"})
    item, = bed.berth.items("volumeattachments")
    assert item["metadata"]["finalizers"] == ["external-attacher/double-csi-example-com"]
    assert item["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"] == "node-b"
    assert "external-attacher/double-csi-example-com" in bed.berth.get("pv", volume["metadata"]["name"])["metadata"]["finalizers"]

    bed.mount_fails("data", "--node-name", "node-a")
    bed.says(bed.host_mount("data"), "Multi-Attach error")
    assert attached_nodes(bed) == {"node-b"}
    bed.berth.run("delete", "pods", "lost", "--wait=false")
    assert attached_nodes(bed) == {"node-b"}, "detached from a node of which nothing is known"

    bed.berth.apply(bed.berth.get("nodes", "node-b") | {"spec": {"taints": [OUT_OF_SERVICE]}})
    # The driver refuses to publish a volume that is published elsewhere, so a mount proves that the volume was
    # unpublished.
    bed.wait_mounted("data")
    assert attached_nodes(bed) == {"node-a"}
    bed.berth.run("delete", "nodes", "node-b")
    bed.umount("data")
    wait_for("the volume to be detached", lambda: not bed.berth.items("volumeattachments"))


def test_what_the_driver_answers_stands_on_the_attachment_until_it_is_cured(bed):
    bed.claim("data")
    name = bed.bound("data")["metadata"]["name"]
    bed.double.be_wrong("loses-answers:ControllerPublishVolume")
    bed.berth.apply(attachment(name, "node-b"))
    error = wait_for("the error", lambda: status(bed, "by-hand-node-b").get("attachError"))
    assert error["message"].startswith("rpc error: code = Unavailable") and error["errorCode"] == 14
    assert status(bed, "by-hand-node-b")["attached"] is False
    bed.says("by-hand-node-b", "rpc error: code = Unavailable")
    assert explain(bed, "volumeattachment/by-hand-node-b")["verdict"] == "blocked"

    bed.double.be_wrong("loses-answers:ControllerUnpublishVolume")
    wait_for("the attachment", lambda: status(bed, "by-hand-node-b").get("attached"))
    assert "attachError" not in status(bed, "by-hand-node-b")
    bed.berth.run("delete", "volumeattachments", "by-hand-node-b", "--wait=false")
    error = wait_for("the error", lambda: status(bed, "by-hand-node-b").get("detachError"))
    assert error["message"].startswith("rpc error: code = Unavailable") and "errorCode" not in error, "as Go's attacher"
    bed.double.be_wrong()
    bed.berth.wait_gone("volumeattachments", "by-hand-node-b")


def test_an_inline_volume_is_attached(bed):
    bed.claim("data")
    csi = bed.bound("data")["spec"]["csi"]
    by_hand = attachment("", "node-b")
    by_hand["spec"]["source"] = {"inlineVolumeSpec": {
        "accessModes": ["ReadWriteOnce"], "csi": {"driver": NAME, "volumeHandle": csi["volumeHandle"]}}}
    bed.berth.apply(by_hand)
    wait_for("the attachment", lambda: status(bed, "by-hand-node-b").get("attached"))
    bed.berth.run("delete", "volumeattachments", "by-hand-node-b")
    assert len(bed.double.calls("ControllerUnpublishVolume", "done")) == 1


class Survivor:
    """Starts Berth again, without faults, whenever it has ended."""

    def __init__(self, bed):
        self.bed = bed
        self.crashes = 0

    def step(self, what, probe):
        def attempt():
            if self.bed.berth.process.poll() is not None:
                assert self.bed.berth.process.returncode == -9, self.bed.berth.log_tail()
                self.crashes += 1
                self.bed.start_berth()
            try:
                return probe()
            except Failure:
                return False
        return wait_for(what, attempt, 60)


@pytest.mark.parametrize("point", ["rpc.csi.ControllerPublishVolume.after"])
def test_a_crash_at_a_step_leaves_nothing_attached(bed, point):
    bed.claim("data")
    name = bed.bound("data")["metadata"]["name"]
    bed.berth.stop()
    which, _, passage = point.partition("@")
    bed.berth.start(env={"BERTH_FAULTS": f"{which}=crash@{passage or 1}"}, wait=False)
    survivor = Survivor(bed)
    survivor.step("the API", bed.berth.answers)
    for node in ("node-b", "node-a"):
        # The driver refuses the second node as long as the first one has the volume.
        survivor.step("the request", lambda: bed.berth.apply(attachment(name, node)))
        survivor.step("the attachment", lambda: status(bed, f"by-hand-{node}").get("attached"))
        survivor.step("the deletion", lambda: bed.berth.run("delete", "volumeattachments", f"by-hand-{node}",
                                                            "--wait=false", check=False).returncode == 0
                      or bed.berth.get("volumeattachments", f"by-hand-{node}") is None)
        survivor.step("its end", lambda: bed.berth.get("volumeattachments", f"by-hand-{node}") is None)
    assert survivor.crashes == 1, "the point was not passed"
