"""Flows of volumes that are attached to nodes, and that only one node at a time may have."""
from data import check, stay, write
from survivor import DRIVER, beside_double
from lib import csi_double, objects

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
HERE = {"kubernetes.io/hostname": "node-a"}


def dead_node(s, claim):
    """Makes a node whose agent does not answer, and which has reported that it uses the claim's volume."""
    s.create({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "node-b", "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}})
    csi = s.volume_of(claim)["spec"]["csi"]
    in_use = [f"kubernetes.io/csi/{csi['driver']}^{csi['volumeHandle']}"]
    silent = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    status = {"status": {"volumesInUse": in_use, "conditions": silent}}
    s.done("node-b to have gone silent", lambda: s.api.patch("nodes", "node-b", status, "status"))


def attached_to(s, node):
    return any(item["spec"]["nodeName"] == node and item.get("status", {}).get("attached")
               for item in s.api.items("volumeattachments"))


def move_from_a_dead_node(s, claim):
    """A pod's node dies. Its volume stays attached until a person vouches for the death (by the out-of-service
    taint). Then it is detached by force, and a pod on the living node finds its data."""
    dead_node(s, claim)
    s.create(objects.pod("lost", "true", [claim], nodeName="node-b"))
    s.step("the volume to be attached to the dead node", lambda: attached_to(s, "node-b"))
    s.create(objects.pod("heir", check(f"/{claim}"), [claim], nodeSelector=HERE))
    s.delete_soon("pods", "lost")
    s.step("the volume to be where it was", lambda: attached_to(s, "node-b") and not attached_to(s, "node-a"))
    agree(s)
    s.done("node-b to be out of service", lambda: s.api.patch("nodes", "node-b", {"spec": {"taints": [OUT_OF_SERVICE]}}))
    s.gone("pods", "lost")
    s.step("the volume to be detached from it", lambda: not attached_to(s, "node-b"))
    s.succeeded("heir")
    s.gone("pods", "heir")
    s.gone("nodes", "node-b")


def agree(s):
    """Checks that the driver double has attached what the VolumeAttachments say, and that the attacher's finalizer is
    on both objects."""
    if s.double is None:
        return
    finalizer = f"external-attacher/{csi_double.NAME.replace('.', '-')}"

    def told():
        pairs = set()
        for item in s.api.items("volumeattachments"):
            volume = s.api.get("persistentvolumes", item["spec"]["source"]["persistentVolumeName"])
            if item.get("status", {}).get("attached"):
                assert finalizer in item["metadata"]["finalizers"], item
                assert finalizer in volume["metadata"]["finalizers"], volume
                pairs.add((volume["spec"]["csi"]["volumeHandle"], item["spec"]["nodeName"]))
        return pairs

    s.step("the driver to have attached what it should", lambda: told() == s.double.attached())


def fail_over(s):
    """Moves a volume whose driver does not attach from a dead node."""
    s.create(objects.claim("data"))
    s.run(objects.pod("writer", write("/data"), ["data"]))
    s.gone("pods", "writer")
    move_from_a_dead_node(s, "data")
    s.gone("persistentvolumeclaims", "data")
    s.nothing_left()


def modify(s, claim, name):
    """Gives the claim's volume the attributes of another class."""
    wanted = {"spec": {"volumeAttributesClassName": name}}
    s.done(f"the claim to ask for {name}", lambda: s.api.patch("persistentvolumeclaims", claim, wanted))
    s.step("the claim to have it", lambda: s.api.get("persistentvolumeclaims", claim)["status"].get(
        "currentVolumeAttributesClassName") == name)
    s.step("the volume to have it", lambda: s.volume_of(claim)["spec"].get("volumeAttributesClassName") == name)


@beside_double
def attach(s):
    """Uses a driver that attaches, knows two nodes, and modifies volumes in use. At the end its registrar is
    removed."""
    s.create(objects.storage_class("attaching", provisioner=csi_double.NAME))
    for name, speed in (("slow", "1"), ("fast", "9")):
        s.create(objects.attributes_class(name, csi_double.NAME, speed=speed))
    s.create({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-b"},
              "spec": {"drivers": [{"name": csi_double.NAME, "nodeID": "node-b"}]}})
    s.create(objects.claim("data", storage_class="attaching", volumeAttributesClassName="slow"))
    s.running(objects.pod("writer", stay(write("/data")), ["data"], nodeSelector=HERE))
    agree(s)
    modify(s, "data", "fast")
    s.gone("pods", "writer")
    s.step("the volume to be detached", lambda: not s.api.items("volumeattachments"))
    agree(s)
    move_from_a_dead_node(s, "data")
    s.gone("persistentvolumeclaims", "data")
    for plural, name in (("volumeattributesclasses", "slow"), ("volumeattributesclasses", "fast"),
                         ("csinodes", "node-b"), ("storageclasses", "attaching")):
        s.gone(plural, name)
    s.nothing_left()
    s.double.announcement().unlink(missing_ok=True)
    s.step("the driver to be gone from the node", lambda: s.drivers() == {DRIVER})
