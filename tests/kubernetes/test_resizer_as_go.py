"""csi-resizer: what the Go program does and what Berth does in its place."""
import time

import grpc
import pytest
from lib import objects
from lib.proto_messages import csi
from lib.kubernetes.cluster import Cluster
from lib.kubernetes.csi_proxy import Proxied, other_capabilities
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-resizer",)
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
SELDOM = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=5m")
MODIFIES = (*FAST, "--feature-gates=VolumeAttributesClass=true")
NOT_REQUIRED = "volume.kubernetes.io/node-expansion-not-required"


def grow(world, size):
    world.cluster.patch("PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": size}}}}, world.namespace)


def has_condition(kind):
    return lambda item: any(each["type"] == kind for each in item["status"].get("conditions") or [])


def resize_status(name, allocated):
    """Gives the condition that a claim has a status of its growth to a size."""
    wanted = {"allocatedResourceStatuses": {"storage": name}, "allocatedResources": {"storage": allocated}}
    return lambda item: wanted.items() <= item["status"].items()


def say_infeasible(world):
    """Does what a kubelet does whose node cannot grow a volume."""
    world.cluster.patch("PersistentVolumeClaim", "data", {"status": {
        "allocatedResourceStatuses": {"storage": "NodeResizeInfeasible"}}}, world.namespace, "status")


def drop_growth(world, controller=True, node=True):
    """Lets the driver say that its controller, or its node, does not grow volumes."""
    for wanted, name in ((controller, "Controller"), (node, "Node")):
        if wanted:
            world.double.proxy.alter[f"{name}GetCapabilities"] = other_capabilities(
                getattr(csi, f"{name}ServiceCapability"), drop=["EXPAND_VOLUME"])


def bind(world):
    """Makes a bound claim of 1 Mi, and gives the name of its volume; its provisioner serves on."""
    world.make_class()
    world.start("csi-provisioner", of_go=False, elect=False)
    world.claim("data")
    _, volume = world.bound("data")
    world.names[volume["metadata"]["name"]] = "VOLUME"
    world.names[volume["spec"]["csi"]["volumeHandle"]] = "HANDLE"
    return volume["metadata"]["name"]


@pytest.fixture
def bound(world):
    """A bound claim of 1 Mi, and the name of its volume."""
    return bind(world)


@pytest.fixture
def proxied(new_world):
    """A world whose driver's answers can be changed, and the name of the volume of its bound claim."""
    world = new_world(proxy=Proxied)
    return world, bind(world)


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


def test_a_size_is_said_in_its_own_form(world, bound):
    """A claim that asks for 2048k, which are 2000Ki, has 2048k allocated. The volume has the bytes that the driver says."""
    world.start("csi-resizer", *FAST)
    grow(world, "2048k")
    world.same("claim", world.wait("PersistentVolumeClaim", "data", has_condition("FileSystemResizePending")))
    world.same("volume", world.get("PersistentVolume", bound))


def test_a_mark_of_an_earlier_growth(world, bound):
    """That the nodes have nothing to do for a size is not true any more when a growth begins."""
    world.cluster.patch("PersistentVolumeClaim", "data", {"metadata": {"annotations": {NOT_REQUIRED: "true"}}}, world.namespace)
    world.double.be_wrong("aborted-forever:ControllerExpandVolume")
    world.start("csi-resizer", *FAST)
    grow(world, "2Mi")
    world.events("data", "VolumeResizeFailed")
    world.same("annotations", world.get("PersistentVolumeClaim", "data")["metadata"]["annotations"])


def test_a_volume_in_use(proxied):
    """A driver that grows no volume in use is not called while a pod names the claim, and an event says why. A pod without a node
    is one. Another size that the claim asks for meanwhile is its target."""
    world, _ = proxied
    if world.cluster.real:
        world.wait("ServiceAccount", "default", lambda item: True)
    world.create(objects.pod("user", "sleep 1000", ["data"], schedulerName="nobody"))
    world.double.proxy.failures["ControllerExpandVolume"] = (grpc.StatusCode.FAILED_PRECONDITION, "the volume is published")
    world.start("csi-resizer", *FAST)
    grow(world, "2Mi")
    world.event("data", "currently in-use")
    world.same("events", world.events("data", "VolumeResizeFailed"))
    world.same("claim", world.get("PersistentVolumeClaim", "data"))
    grow(world, "3Mi")
    world.same("claim with another target", world.wait("PersistentVolumeClaim", "data", resize_status(
        "ControllerResizeInProgress", "3Mi")))
    world.same("calls", len(world.double.proxy.requests("ControllerExpandVolume")))
    world.double.proxy.failures.clear()
    world.delete("Pod", "user")
    world.same("claim afterwards", world.wait("PersistentVolumeClaim", "data", has_condition("FileSystemResizePending")))


def test_a_node_could_not_grow_it(world, bound):
    """The driver is called again at once for a size that a node could not reach, and the node asked again."""
    world.start("csi-resizer", *SELDOM)
    grow(world, "2Mi")
    world.wait("PersistentVolumeClaim", "data", resize_status("NodeResizePending", "2Mi"))
    say_infeasible(world)
    world.same("claim", world.wait("PersistentVolumeClaim", "data", resize_status("NodeResizePending", "2Mi")))
    world.same("volume", world.get("PersistentVolume", bound))
    assert len(world.double.calls("ControllerExpandVolume")) > 1


def test_nodes_alone_could_not_grow_it(proxied):
    """Where nodes alone grow volumes, a smaller request takes the place of a size that a node could not reach."""
    world, name = proxied
    drop_growth(world, node=False)
    world.start("csi-resizer", *SELDOM)
    grow(world, "4Mi")
    world.same("claim", world.wait("PersistentVolumeClaim", "data", resize_status("NodeResizePending", "4Mi")))
    world.same("volume", world.get("PersistentVolume", name))
    grow(world, "2Mi")
    say_infeasible(world)
    world.same("claim afterwards", world.wait("PersistentVolumeClaim", "data", resize_status("NodeResizePending", "2Mi")))
    world.same("volume afterwards", world.get("PersistentVolume", name))
    assert not world.double.proxy.requests("ControllerExpandVolume")


def test_nobody_can_grow_it(proxied):
    """If neither the controller nor the node grows volumes, nothing is written, although the plugin says that it grows volumes. An
    event of Berth's tells of it."""
    world, name = proxied
    drop_growth(world)
    fast = f"fast-{world.namespace}"
    world.create(objects.attributes_class(fast, world.driver, iops="100"))
    world.start("csi-resizer", *MODIFIES)
    grow(world, "2Mi")
    if not world.of_go:
        world.event("data", "cannot expand volumes, neither in the controller nor on nodes")
    modify(world, fast)  # which comes later
    claim = world.wait("PersistentVolumeClaim", "data", lambda item: item["status"].get("currentVolumeAttributesClassName") == fast)
    world.same("claim", claim)
    world.same("volume", world.get("PersistentVolume", name))


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


@pytest.mark.parametrize("code", ["ABORTED", "INTERNAL"])
def test_an_attributes_class_goes_while_it_is_applied(proxied, code):
    """As long as the driver may have begun, an event says that the class is missing. After a final error the claim waits for it."""
    world, _ = proxied
    name = f"fast-{world.namespace}"
    world.create(objects.attributes_class(name, world.driver, iops="100"))
    world.double.proxy.failures["ControllerModifyVolume"] = (grpc.StatusCode[code], "not so")
    world.start("csi-resizer", *MODIFIES)
    modify(world, name)
    world.event("data", "not so")
    world.delete("VolumeAttributesClass", name)
    if world.get("VolumeAttributesClass", name) is not None:  # Kubernetes keeps it while a claim asks for it
        world.cluster.patch("VolumeAttributesClass", name, {"metadata": {"finalizers": None}})
        world.wait_gone("VolumeAttributesClass", name)
    world.event("data", "does not exist")
    world.same("claim", world.wait("PersistentVolumeClaim", "data", modify_status(
        "InProgress" if code == "ABORTED" else "Pending")))
    world.same("events", world.events("data", "VolumeModifyFailed"))


def test_a_claim_changes_while_its_volume_is_modified(proxied):
    """The driver is not called again for what it has done."""
    world, _ = proxied
    fast = f"fast-{world.namespace}"
    world.create(objects.attributes_class(fast, world.driver, iops="100"))
    other = Cluster(world.cluster.kubeconfig)  # for the thread of the answer
    world.double.proxy.alter["ControllerModifyVolume"] = lambda fields: other.patch(
        "PersistentVolumeClaim", "data", {"metadata": {"annotations": {"example.com/changed": "yes"}}}, world.namespace)
    world.start("csi-resizer", *MODIFIES)
    modify(world, fast)
    claim = world.wait("PersistentVolumeClaim", "data", lambda item: item["status"].get("currentVolumeAttributesClassName") == fast)
    world.same("claim", claim)
    world.same("calls", len(world.double.proxy.requests("ControllerModifyVolume")))


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
