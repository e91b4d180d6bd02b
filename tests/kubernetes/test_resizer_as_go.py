"""csi-resizer: what the Go program does and what Berth does in its place."""
import time

import pytest
from lib import objects
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-resizer",)
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
MODIFIES = (*FAST, "--feature-gates=VolumeAttributesClass=true")


def grow(world, size):
    world.cluster.patch("PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": size}}}}, world.namespace)


def has_condition(kind):
    return lambda item: any(each["type"] == kind for each in item["status"].get("conditions") or [])


@pytest.fixture
def bound(world):
    """A bound claim of 1 Mi, and the name of its volume; its provisioner serves on."""
    world.make_class()
    world.start("csi-provisioner", of_go=False, elect=False)
    world.claim("data")
    _, volume = world.bound("data")
    world.names[volume["metadata"]["name"]] = "VOLUME"
    world.names[volume["spec"]["csi"]["volumeHandle"]] = "HANDLE"
    return volume["metadata"]["name"]


def test_a_claim_grows(world, bound):
    """The driver grows the volume, and the claim waits for its node."""
    world.start("csi-resizer", *FAST)
    grow(world, "2Mi")
    claim = world.wait("PersistentVolumeClaim", "data", has_condition("FileSystemResizePending"))
    world.same("claim", claim)
    world.same("volume", world.get("PersistentVolume", bound))
    world.same("events", world.events("data", "Resizing", "FileSystemResizeRequired"))
    world.same("calls", world.double.calls("ControllerExpandVolume"))


def test_a_claim_that_is_being_deleted_grows(world, bound):
    """A pod may use it for long."""
    world.cluster.patch("PersistentVolumeClaim", "data", {"metadata": {"finalizers": ["example.com/in-use"]}}, world.namespace)
    world.cluster.delete("PersistentVolumeClaim", "data", world.namespace)
    world.start("csi-resizer", *FAST)
    grow(world, "2Mi")
    claim = world.wait("PersistentVolumeClaim", "data", has_condition("FileSystemResizePending"))
    world.same("status", claim["status"])
    world.same("events", world.events("data", "Resizing", "FileSystemResizeRequired"))
    world.cluster.patch("PersistentVolumeClaim", "data", {"metadata": {"finalizers": None}}, world.namespace)


def test_the_node_has_grown_the_file_system(world, bound):
    """When the kubelet has grown the file system, nothing of the growth is left on the claim and the volume."""
    world.start("csi-resizer", *FAST)
    grow(world, "2Mi")
    world.wait("PersistentVolumeClaim", "data", has_condition("FileSystemResizePending"))
    # What a kubelet writes.
    world.cluster.patch("PersistentVolumeClaim", "data", {"status": {
        "capacity": {"storage": "2Mi"}, "conditions": None, "allocatedResources": {"storage": "2Mi"},
        "allocatedResourceStatuses": None}}, world.namespace, "status")
    volume = world.wait("PersistentVolume", bound,
                        lambda item: "volume.alpha.kubernetes.io/pre-resize-capacity" not in item["metadata"]["annotations"])
    world.same("volume", volume)


def test_the_driver_does_not_grow(world, bound):
    """An error of ControllerExpandVolume is told on the claim, in the driver's words, and asked again."""
    world.double.be_wrong("aborted-forever:ControllerExpandVolume")
    world.start("csi-resizer", *FAST)
    grow(world, "2Mi")
    world.same("events", world.events("data", "VolumeResizeFailed"))
    wait_for("a second call", lambda: len(world.double.calls("ControllerExpandVolume")) > 1)
    world.same("claim", world.get("PersistentVolumeClaim", "data"))
    world.double.be_wrong()
    claim = world.wait("PersistentVolumeClaim", "data", has_condition("FileSystemResizePending"))
    world.same("claim afterwards", claim)


def test_there_is_no_room_to_grow(world, bound):
    """A final error of ControllerExpandVolume has a condition of its own on the claim."""
    world.start("csi-resizer", *FAST)
    grow(world, "2Ti")
    world.same("events", world.events("data", "VolumeResizeFailed"))
    world.same("claim", world.wait("PersistentVolumeClaim", "data", has_condition("ControllerResizeError")))


def modify(world, name):
    world.cluster.patch("PersistentVolumeClaim", "data", {"spec": {"volumeAttributesClassName": name}}, world.namespace)


def test_a_claim_gets_another_attributes_class(world, bound):
    """The driver modifies the volume, and claim and volume name the new class."""
    fast = f"fast-{world.namespace}"
    world.create(objects.attributes_class(fast, world.driver, iops="100"))
    world.start("csi-resizer", *MODIFIES)
    modify(world, fast)
    claim = world.wait("PersistentVolumeClaim", "data", lambda item: item["status"].get("currentVolumeAttributesClassName") == fast)
    world.same("claim", claim)
    world.same("volume", world.get("PersistentVolume", bound))
    world.same("events", world.events("data", "VolumeModifySuccessful"))


def test_the_driver_does_not_modify(world, bound):
    """An error of ControllerModifyVolume is told on the claim, in the driver's words."""
    fast = f"fast-{world.namespace}"
    world.create(objects.attributes_class(fast, world.driver, iops="100"))
    world.double.be_wrong("aborted-forever:ControllerModifyVolume")
    world.start("csi-resizer", *MODIFIES)
    modify(world, fast)
    world.same("events", world.events("data", "VolumeModifyFailed"))
    world.same("claim", world.wait("PersistentVolumeClaim", "data", has_condition("ModifyVolumeError")))


def test_an_attributes_class_is_missing(world, bound):
    """A claim that names a class that is not there waits for it."""
    world.start("csi-resizer", *MODIFIES)
    modify(world, f"fast-{world.namespace}")
    claim = world.wait("PersistentVolumeClaim", "data", lambda item: item["status"].get("modifyVolumeStatus"))
    world.same("status", claim["status"]["modifyVolumeStatus"]["status"])
    world.same("events", world.events("data", "VolumeModifyFailed"))


def make_attributes_classes(world):
    """Makes a class that the driver takes, and one that it refuses."""
    for name, iops in (("wrong", "many"), ("fast", "100")):
        world.create(objects.attributes_class(f"{name}-{world.namespace}", world.driver, iops=iops))


def modify_status(name):
    return lambda item: (item["status"].get("modifyVolumeStatus") or {}).get("status") == name


def test_the_driver_can_never_modify_so(world, bound):
    """A class whose parameters the driver refuses makes the claim Infeasible, until it asks for another class."""
    make_attributes_classes(world)
    world.start("csi-resizer", *MODIFIES)
    modify(world, f"wrong-{world.namespace}")
    world.same("claim", world.wait("PersistentVolumeClaim", "data", modify_status("Infeasible")))
    world.same("events", world.events("data", "VolumeModifyFailed"))
    fast = f"fast-{world.namespace}"
    modify(world, fast)
    world.same("claim afterwards", world.wait("PersistentVolumeClaim", "data", lambda item: item["status"].get(
        "currentVolumeAttributesClassName") == fast and not item["status"].get("modifyVolumeStatus")))


def test_the_old_attributes_class_after_one_that_the_driver_refuses(world, bound):
    """The driver is called with the old class again, and then nothing is left of the other one."""
    make_attributes_classes(world)
    world.start("csi-resizer", *MODIFIES)
    fast = f"fast-{world.namespace}"
    modify(world, fast)
    world.wait("PersistentVolumeClaim", "data", lambda item: item["status"].get("currentVolumeAttributesClassName") == fast)
    modify(world, f"wrong-{world.namespace}")
    world.wait("PersistentVolumeClaim", "data", modify_status("Infeasible"))
    before = len(world.double.calls("ControllerModifyVolume", "done"))
    modify(world, fast)
    world.same("claim", world.wait("PersistentVolumeClaim", "data", lambda item: not item["status"].get("modifyVolumeStatus")))
    world.same("calls", len(world.double.calls("ControllerModifyVolume", "done")) - before)


@pytest.mark.parametrize("refused", [False, True], ids=["missing", "refused"])
def test_no_attributes_class_any_more(world, bound, refused):
    """A claim that asks for its first class, which is missing or which the driver refuses, and then for none."""
    name = f"wrong-{world.namespace}"
    if refused:
        world.create(objects.attributes_class(name, world.driver, iops="many"))
    world.start("csi-resizer", *MODIFIES)
    modify(world, name)
    world.wait("PersistentVolumeClaim", "data", modify_status("Infeasible" if refused else "Pending"))
    modify(world, None)
    if refused:
        world.same("events", world.events("data", "VolumeModifyCanceled"))
    else:
        time.sleep(2)  # more than the longest pause between two tries
    world.same("claim", world.get("PersistentVolumeClaim", "data"))
