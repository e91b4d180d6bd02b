"""csi-provisioner: what the Go program asks of the driver, request by request, and what Berth asks in its place."""
import grpc
import pytest
from lib import protobuf
from lib.kubernetes.csi_proxy import CsiProxy, texts
from lib.kubernetes.world import NODE, OF_CAPACITY
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-provisioner",)
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
MAY_READ_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}
DELETION_SECRET = "volume.kubernetes.io/provisioner-deletion-secret-"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
OTHER_NODE = "node-b"


@pytest.fixture
def proxy(world):
    made = CsiProxy(world.folder / "proxy.sock", world.double.socket)
    yield made
    made.close()


@pytest.fixture
def other_node(world):
    """Gives a second node, in the only zone in which the double makes volumes."""
    world.cluster.write_node(OTHER_NODE, world.driver, {f"{world.driver}/zone": "here"})
    yield OTHER_NODE
    for kind in ("CSINode", "Node"):
        world.cluster.delete(kind, OTHER_NODE)


def with_secret(world, name):
    world.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"user": f"of {name}"}})
    world.make_class(parameters={"csi.storage.k8s.io/provisioner-secret-name": name,
                                 "csi.storage.k8s.io/provisioner-secret-namespace": world.namespace})


def test_a_volume_names_no_deletion_secret(world, proxy):
    """A volume without annotations for its deletion secret is deleted with the secret that its class names."""
    with_secret(world, "at-first")
    world.start("csi-provisioner", *FAST, f"--csi-address={proxy.path}", further=[MAY_READ_SECRETS])
    world.claim("data")
    _, volume = world.bound("data")
    name, handle = volume["metadata"]["name"], volume["spec"]["csi"]["volumeHandle"]
    world.delete("StorageClass", world.storage_class)
    world.wait_gone("StorageClass", world.storage_class)
    with_secret(world, "later")
    world.cluster.patch("PersistentVolume", name, {"metadata": {"annotations": {
        f"{DELETION_SECRET}name": None, f"{DELETION_SECRET}namespace": None}}})
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolume", name)
    deletions = [texts(request[2]) for request in proxy.requests("DeleteVolume") if request.get(1) == [handle.encode()]]
    # The Go program sometimes asks for a deletion twice.
    world.same("secrets", deletions[:1])
    assert deletions[0] == {"user": "of later"}


def test_capacity_is_asked_for(world, proxy):
    """GetCapacity is asked with the class's parameters, those of the sidecars too, a topology and no capability."""
    world.make_class(binding="WaitForFirstConsumer",
                     parameters={"kind": "fast", "csi.storage.k8s.io/fstype": "ext4",
                                 "csi.storage.k8s.io/node-stage-secret-name": "key",
                                 "csi.storage.k8s.io/node-stage-secret-namespace": "default"})
    world.start("csi-provisioner", *FAST, f"--csi-address={proxy.path}", "--enable-capacity", "--capacity-ownerref-level=-1",
                own_rules=OF_CAPACITY, env={"NAMESPACE": world.namespace})
    [request] = wait_for("a request", lambda: proxy.requests("GetCapacity")[:1], seconds=60)
    world.same("fields", sorted(request))
    world.same("parameters", texts(request[2]))
    [topology] = request[3]
    world.same("topology", texts(protobuf.decode(topology)[1]))


def select(world, node, claim="data"):
    """Selects a node for a claim, as the scheduler does."""
    world.cluster.patch("PersistentVolumeClaim", claim, {"metadata": {"annotations": {SELECTED_NODE: node}}}, world.namespace)


def fill_the_selected_node(world, proxy):
    """From now on the driver answers RESOURCE_EXHAUSTED. Gives the claim without the selected node."""
    proxy.codes[grpc.StatusCode.UNKNOWN] = grpc.StatusCode.RESOURCE_EXHAUSTED
    world.double.be_wrong("unknown-code:CreateVolume")
    return world.wait("PersistentVolumeClaim", "data", lambda item: SELECTED_NODE not in item["metadata"]["annotations"])


def test_the_selected_node_is_full(world, proxy):
    """RESOURCE_EXHAUSTED after a timeout for a selected node removes the selection, so that the pod can go elsewhere."""
    world.make_class(binding="WaitForFirstConsumer")
    world.double.be_wrong("hangs:CreateVolume")
    world.start("csi-provisioner", "--timeout=1s", *FAST[1:], f"--csi-address={proxy.path}")
    world.claim("data")
    select(world, NODE)
    heard = world.events("data", "ProvisioningFailed", seconds=60)
    assert any("DeadlineExceeded" in message for _, _, message in heard)
    world.same("claim", fill_the_selected_node(world, proxy))
    wait_for("the event", lambda: any("ResourceExhausted" in message for _, _, message in world.events("data")), seconds=60)


def test_the_selected_node_is_gone(world, proxy, other_node):
    """A final failure ends the try, also after a timeout: when the selected node is deleted then, the pod can go elsewhere."""
    world.make_class(binding="WaitForFirstConsumer")
    world.double.be_wrong("hangs:CreateVolume")
    world.start("csi-provisioner", "--timeout=1s", *FAST[1:], f"--csi-address={proxy.path}")
    world.claim("data")
    select(world, other_node)
    wait_for("a timeout", lambda: any("DeadlineExceeded" in text for _, _, text in world.events("data")), seconds=60)
    proxy.codes[grpc.StatusCode.UNKNOWN] = grpc.StatusCode.INTERNAL
    world.double.be_wrong("unknown-code:CreateVolume")
    wait_for("the failure", lambda: any("Internal" in text for _, _, text in world.events("data")), seconds=60)
    for kind in ("CSINode", "Node"):
        world.cluster.delete(kind, other_node)
    world.same("claim", world.wait("PersistentVolumeClaim", "data",
                                   lambda item: SELECTED_NODE not in item["metadata"]["annotations"]))


@pytest.fixture
def late_volume(world, proxy):
    """The driver has made the volume of a claim on the selected node after the call for it had ended, and then answered that there
    is no room: the claim waits for another node. Gives that volume's folder."""
    world.make_class(binding="WaitForFirstConsumer")
    world.double.be_wrong("late:CreateVolume")
    world.start("csi-provisioner", "--timeout=1s", *FAST[1:], f"--csi-address={proxy.path}")
    world.claim("data")
    select(world, NODE)
    wait_for("the late volume", lambda: world.double.calls("CreateVolume", "done"))
    fill_the_selected_node(world, proxy)
    world.double.be_wrong()
    [made] = world.double.volumes()
    return made


def check_settled(world):
    """Looks whether Berth knows that nothing is left of what it asked for."""
    if not world.of_go:
        wait_for("nothing to be recorded any more", lambda: world.intents() == {})


def test_a_late_volume_of_a_full_node(world, late_volume, other_node):
    """After RESOURCE_EXHAUSTED another node of the same zone is selected, and the driver has made the volume late: the same request
    finds it."""
    select(world, other_node)
    _, volume = world.bound("data")
    assert world.double.volumes() == [late_volume]
    assert late_volume.name == volume["spec"]["csi"]["volumeHandle"]
    assert not world.double.calls("DeleteVolume")
    check_settled(world)


def test_a_late_volume_of_another_request(world, late_volume):
    """After RESOURCE_EXHAUSTED the class gets other parameters, and the driver has made the volume late. Go asks by the same name and
    takes what the driver finds; Berth deletes that volume before."""
    world.delete("StorageClass", world.storage_class)
    world.wait_gone("StorageClass", world.storage_class)
    world.make_class(binding="WaitForFirstConsumer", parameters={"kind": "fast"})
    select(world, NODE)
    _, volume = world.bound("data")
    [left] = world.double.volumes()
    assert left.name == volume["spec"]["csi"]["volumeHandle"]
    if world.of_go:
        assert left == late_volume and not world.double.calls("DeleteVolume")
    else:
        assert world.double.calls("DeleteVolume") == [late_volume.name]
    check_settled(world)


def test_a_late_volume_of_a_deleted_claim(world, late_volume):
    """After RESOURCE_EXHAUSTED the claim is deleted, and the first node has made the volume late. Go leaves that volume in the
    driver; Berth deletes it."""
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolumeClaim", "data")
    world.claim("further")
    select(world, NODE, "further")
    world.bound("further")
    if world.of_go:
        assert len(world.double.volumes()) == 2
    else:
        wait_for("the late volume to be deleted", lambda: len(world.double.volumes()) == 1)
    check_settled(world)
