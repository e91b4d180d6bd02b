"""csi-attacher: what the Go program does and what Berth does in its place."""
import time

import grpc
import pytest
from lib import objects
from lib.proto_messages import csi
from lib.kubernetes.csi_proxy import Proxied, other_capabilities
from lib.kubernetes.hostpath import group_driver
from lib.kubernetes.world import NODE, RIGHTS, rules_of
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-attacher",)
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")


class Volume:
    """A volume of the driver, and its attachment to the node."""

    def __init__(self, world, *arguments):
        """`arguments`: of the provisioner, besides."""
        self.world = world
        world.make_class()
        provisioner = world.start("csi-provisioner", *arguments, of_go=False, elect=False)
        world.claim("data")
        _, volume = world.bound("data")
        provisioner.stop()
        self.name = volume["metadata"]["name"]
        self.handle = volume["spec"]["csi"]["volumeHandle"]
        self.attachment = f"{world.namespace}-attachment"
        self.names = {self.name: "VOLUME", self.handle: "HANDLE"}

    def attach(self, node=NODE):
        self.world.create(objects.attachment(self.attachment, self.world.driver, node, self.name))

    def wait(self, condition):
        return self.world.wait("VolumeAttachment", self.attachment, lambda item: condition(item.get("status") or {}))

    def same(self, key, item):
        self.world.same(key, item, self.names)


@pytest.fixture
def volume(world):
    return Volume(world)


def test_a_volume_is_attached_and_detached(world, volume):
    """A volume is attached, the attachment and the volume get their finalizers, and a deleted attachment is detached."""
    world.start("csi-attacher", *FAST)
    volume.attach()
    volume.same("attached", volume.wait(lambda status: status.get("attached")))
    volume.same("volume", world.get("PersistentVolume", volume.name))
    assert world.double.attached() == {(volume.handle, NODE)}
    world.delete("VolumeAttachment", volume.attachment)
    world.wait_gone("VolumeAttachment", volume.attachment)
    assert world.double.attached() == set()
    volume.same("volume afterwards", world.get("PersistentVolume", volume.name))
    calls = {method: world.double.calls(method) for method in ("ControllerPublishVolume", "ControllerUnpublishVolume")}
    if world.of_go:  # which now and then makes a call twice
        calls = {method: sorted(set(made)) for method, made in calls.items()}
    volume.same("calls", calls)


def test_the_driver_does_not_attach(world, volume):
    """An error of ControllerPublishVolume stands in the attachment's status, in the driver's words."""
    world.double.be_wrong("aborted-forever:ControllerPublishVolume")
    world.start("csi-attacher", *FAST)
    volume.attach()
    volume.same("failed", volume.wait(lambda status: status.get("attachError")))
    world.double.be_wrong()
    volume.same("attached", volume.wait(lambda status: status.get("attached")))


def test_the_driver_does_not_detach(world, volume):
    """An error of ControllerUnpublishVolume stands in the attachment's status, and the attachment stays."""
    world.start("csi-attacher", *FAST)
    volume.attach()
    volume.wait(lambda status: status.get("attached"))
    world.double.be_wrong("aborted-forever:ControllerUnpublishVolume")
    world.delete("VolumeAttachment", volume.attachment)
    volume.same("failed", volume.wait(lambda status: status.get("detachError")))
    world.double.be_wrong()
    world.wait_gone("VolumeAttachment", volume.attachment)
    assert world.double.attached() == set()


def test_the_driver_is_not_on_the_node(world, volume):
    """A node without the driver is refused."""
    if world.cluster.get("Node", "node-x") is None:
        world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-x"}})
        world.create({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-x"},
                      "spec": {"drivers": []}})
    world.start("csi-attacher", *FAST)
    volume.attach("node-x")
    volume.same("failed", volume.wait(lambda status: status.get("attachError")))
    world.delete("VolumeAttachment", volume.attachment)
    world.wait_gone("VolumeAttachment", volume.attachment)


def test_a_deleted_volume_stays_while_it_is_attached(world, volume):
    """A PersistentVolume that is deleted while it is attached goes when it is detached."""
    world.start("csi-attacher", *FAST)
    volume.attach()
    volume.wait(lambda status: status.get("attached"))
    finalizers = world.get("PersistentVolume", volume.name)["metadata"]["finalizers"]
    world.cluster.patch("PersistentVolume", volume.name, {
        "spec": {"persistentVolumeReclaimPolicy": "Retain"},
        "metadata": {"finalizers": [name for name in finalizers if "provisioner" not in name]}})
    world.delete("PersistentVolumeClaim", "data")
    world.wait("PersistentVolume", volume.name, lambda item: item["status"]["phase"] == "Released")
    world.delete("PersistentVolume", volume.name)
    left = world.wait("PersistentVolume", volume.name, lambda item: len(item["metadata"]["finalizers"]) == 1)
    volume.same("finalizers", left["metadata"]["finalizers"])
    world.delete("VolumeAttachment", volume.attachment)
    world.wait_gone("VolumeAttachment", volume.attachment)
    world.wait_gone("PersistentVolume", volume.name)
    assert world.double.attached() == set()


def test_an_inline_volume_is_attached(world, volume):
    """An attachment whose source is an inline volume has no PersistentVolume, and is served from its own spec."""
    spec = world.get("PersistentVolume", volume.name)["spec"]
    world.start("csi-attacher", *FAST)
    world.create({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": volume.attachment},
                  "spec": {"attacher": world.driver, "nodeName": NODE, "source": {"inlineVolumeSpec": {
                      "accessModes": spec["accessModes"], "csi": spec["csi"]}}}})
    volume.same("attached", volume.wait(lambda status: status.get("attached")))
    assert world.double.attached() == {(volume.handle, NODE)}
    world.delete("VolumeAttachment", volume.attachment)
    world.wait_gone("VolumeAttachment", volume.attachment)
    assert world.double.attached() == set()


def rights_without(resource):
    """Gives the attacher's rights in deploy/csi without those to a resource."""
    rules = rules_of(*RIGHTS["csi-attacher"])
    assert any(resource in rule["resources"] for rule in rules), "there is a right to take away"
    return [rule for rule in rules if resource not in rule["resources"]]


def forbidden(world):
    """Gives the attacher's requests that the API server has refused. Berth's own API has no roles, and refuses none."""
    return world.cluster.refused_to(world.namespace, "csi-attacher") if world.cluster.real else []


def test_a_driver_that_attaches_nothing(new_world, short):
    """For a driver without PUBLISH_UNPUBLISH_VOLUME the attacher needs no right to CSINodes."""
    world = new_world(double=lambda name: Proxied(group_driver(new_world, short, name), short / "proxy.sock"), on_node=False)
    volume = Volume(world, "--feature-gates=Topology=false")
    world.start("csi-attacher", *FAST, rules=rights_without("csinodes"))
    volume.attach()
    volume.same("attached", volume.wait(lambda status: status.get("attached")))
    volume.same("finalizers", sorted(world.get("PersistentVolume", volume.name)["metadata"]["finalizers"]))
    world.delete("VolumeAttachment", volume.attachment)
    world.wait_gone("VolumeAttachment", volume.attachment)
    asked = world.double.proxy.requests
    assert asked("Probe") and not asked("ControllerPublishVolume") and not asked("ControllerUnpublishVolume")
    assert not forbidden(world), "nobody asks for CSINodes"


def test_an_error_from_when_the_driver_attached(new_world, short):
    """An error that an earlier version of a driver left goes when the volume counts as attached."""
    world = new_world(double=lambda name: Proxied(group_driver(new_world, short, name), short / "proxy.sock"), on_node=False)
    volume = Volume(world, "--feature-gates=Topology=false")
    volume.attach()
    world.cluster.patch("VolumeAttachment", volume.attachment, {"status": {"attached": False, "attachError": {
        "message": "of before", "time": "2026-01-01T00:00:00Z"}}}, subresource="status")
    world.start("csi-attacher", *FAST)
    volume.same("attached", volume.wait(lambda status: status.get("attached")))


def list_published(world, nodes):
    """Lets the driver say that its volumes are published to these nodes, whatever is true."""
    def alter(fields):
        entries = [csi.ListVolumesResponse.Entry.FromString(each) for each in fields.get(1, ())]
        for entry in entries:
            entry.status.published_node_ids[:] = nodes
        fields[1] = [entry.SerializeToString() for entry in entries]
    world.double.proxy.alter["ListVolumes"] = alter


@pytest.fixture
def listed(new_world):
    """A volume of a driver that says to which nodes its volumes are published, and whose answers can be changed."""
    world = new_world(proxy=Proxied)
    world.double.proxy.alter["ControllerGetCapabilities"] = other_capabilities(
        csi.ControllerServiceCapability, add=["LIST_VOLUMES_PUBLISHED_NODES"])
    return Volume(world)


def test_the_driver_lost_a_volume_while_no_attacher_ran(listed):
    """What the driver lists is compared with the attachments at the start. A volume that it lost is attached again, with one try
    for each comparison."""
    world = listed.world
    first = world.start("csi-attacher", *FAST, "--reconcile-sync=1h")
    listed.attach()
    listed.wait(lambda status: status.get("attached"))
    first.stop()
    publications = len(world.double.proxy.requests("ControllerPublishVolume"))
    list_published(world, [])
    world.double.proxy.failures["ControllerPublishVolume"] = (grpc.StatusCode.INTERNAL, "not so")
    world.start("csi-attacher", *FAST, "--reconcile-sync=1h")
    listed.same("failed", listed.wait(lambda status: status.get("attachError")))
    time.sleep(2)  # more than the longest pause between two tries
    world.same("tries", len(world.double.proxy.requests("ControllerPublishVolume")) - publications)


def test_the_driver_lists_a_volume_that_it_failed_to_attach(listed):
    """A list that says that a volume is attached ends the wait after an error."""
    world = listed.world
    list_published(world, [])
    world.double.proxy.failures["ControllerPublishVolume"] = (grpc.StatusCode.ABORTED, "not yet")
    world.start("csi-attacher", "--timeout=5s", "--retry-interval-start=5m", "--retry-interval-max=5m", "--reconcile-sync=500ms")
    listed.attach()
    listed.same("failed", listed.wait(lambda status: status.get("attachError")))
    world.double.proxy.failures.clear()
    list_published(world, [NODE])
    listed.same("attached", listed.wait(lambda status: status.get("attached")))


def test_the_volume_of_an_attachment_is_gone(world, volume):
    """A deleted attachment whose PersistentVolume is gone is let go. Go keeps it with an error."""
    world.start("csi-attacher", *FAST)
    volume.attach()
    volume.wait(lambda status: status.get("attached"))
    world.delete("PersistentVolume", volume.name)
    world.cluster.patch("PersistentVolume", volume.name, {"metadata": {"finalizers": None}})
    world.wait_gone("PersistentVolume", volume.name)
    world.delete("VolumeAttachment", volume.attachment)
    if world.of_go:
        failed = volume.wait(lambda status: status.get("detachError"))
        assert volume.name in failed["status"]["detachError"]["message"]
        world.cluster.patch("VolumeAttachment", volume.attachment, {"metadata": {"finalizers": None}})
    else:
        [(kind, _, message)] = world.events(volume.attachment, "FailedDetachVolume")
        assert kind == "Warning" and volume.name in message and f'node "{NODE}"' in message
    world.wait_gone("VolumeAttachment", volume.attachment)
    # Without its handle nobody can detach the volume: the event names the node for the person who does.
    assert world.double.attached() == {(volume.handle, NODE)}
    assert world.double.calls("ControllerUnpublishVolume") == []


@pytest.mark.parametrize("may", ["may", "may-not"])
def test_events_need_no_right_of_another_role(new_world, may):
    """The attacher writes events with rights of its own, and attaches without them, too. Go writes none."""
    world = new_world()
    volume = Volume(world)
    world.double.be_wrong("aborted-forever:ControllerPublishVolume")
    world.start("csi-attacher", *FAST, rules=rights_without("events") if may == "may-not" else None)
    volume.attach()
    volume.wait(lambda status: status.get("attachError"))
    if world.of_go:
        assert world.events(volume.attachment) == []
    elif may == "may" or not world.cluster.real:
        [(kind, _, message)] = world.events(volume.attachment, "FailedAttachVolume")
        assert kind == "Warning" and "a call is pending" in message, "the driver's words"
    else:
        wait_for("the event to be refused", lambda: forbidden(world))
    world.double.be_wrong()
    volume.wait(lambda status: status.get("attached"))
    # Go's election writes an event about its lease.
    assert set(forbidden(world)) <= (set() if may == "may" else {("create", "events", 403)})
