"""Two nodes, each under a real kubelet with a containerd of its own: volumes that move from one to the other, and volumes that stay."""
import pytest
from lib import objects
from lib.csi_double import CsiDouble
from lib.kubernetes import node, programs, runtimes
from lib.kubernetes.control_plane import NODE, SECOND_NODE
from lib.kubernetes.programs import Sidecar
from lib.standalone import wait_for

pytestmark = [pytest.mark.kubernetes, runtimes.BOTH]

SHARED = "shared.csi.example.com"  # its volumes can be attached to each node


@pytest.fixture(scope="module")
def nodes(bare_node):
    """Gives both nodes, by name."""
    second = node.Node(bare_node.cluster, SECOND_NODE, bare_node.containerd)
    try:
        yield {NODE: bare_node, SECOND_NODE: second.start()}
    finally:
        second.end()


@pytest.fixture(scope="module")
def drivers(nodes):
    """Gives the driver double of each node, by the node's name; both have the same volumes."""
    folder = nodes[NODE].folder / "shared"
    made = {}
    try:
        for name, each in nodes.items():
            others = [name, *(other for other in nodes if other != name)]
            made[name] = CsiDouble(each.kubelet_folder / "plugins" / SHARED, name=SHARED, nodes=others, data=folder,
                                   registration_folder=each.kubelet_folder / "plugins_registry").start()
            wait_for(f"the driver on {name}", lambda each=each: each.lists(SHARED))
        nodes[NODE].cluster.create(objects.storage_class("shared", binding="Immediate", provisioner=SHARED))
        yield made
    finally:
        for each in made.values():
            each.stop()


@pytest.fixture(params=["go", "berth"])
def attacher(request, nodes, drivers):
    """The attacher of a side, and Berth's provisioner."""
    of_go = request.param == "go"
    if of_go and programs.missing("csi-attacher"):
        pytest.skip(programs.missing("csi-attacher"))
    first = nodes[NODE]
    started = [Sidecar(first.folder / f"{program}-{request.param}.log", program,
                       [f"--kubeconfig={first.cluster.kubeconfig}", f"--csi-address={drivers[NODE].socket}"], real,
                       f"{program}-{request.param}")
               for program, real in (("csi-provisioner", False), ("csi-attacher", of_go))]
    yield
    for each in started:
        each.stop()


def on(name):
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


def events_of(cluster, name):
    return [event["message"] for event in cluster.items("Event", "default") if event["involvedObject"].get("name") == name]


def test_a_volume_moves_to_the_other_node(nodes, drivers, attacher):
    """A pod that waits on another node for an attached volume starts there when the volume has been detached, with its data."""
    first, second = nodes[NODE], nodes[SECOND_NODE]
    cluster = first.cluster
    cluster.create(objects.claim("data", storage_class="shared"), "default")
    wait_for("the claim to be bound",
             lambda: cluster.get("PersistentVolumeClaim", "data", "default")["status"].get("phase") == "Bound")
    # The other node's driver reads at its start which volumes there are.
    drivers[SECOND_NODE].stop()
    drivers[SECOND_NODE].start()
    first.create_pod(objects.pod("writer", "echo kept > /data/file && sync && sleep 1000", ["data"], **on(NODE)))
    first.wait_pod("writer", "Running")
    assert {node for _, node in drivers[NODE].attached()} == {NODE}
    second.create_pod(objects.pod("reader", "test $(cat /data/file) = kept && sleep 1000", ["data"], **on(SECOND_NODE)))
    wait_for("the reader to wait for the volume",
             lambda: any(message.startswith("Multi-Attach error") for message in events_of(cluster, "reader")))
    assert {node for _, node in drivers[NODE].attached()} == {NODE}
    first.delete_pod("writer")
    second.wait_pod("reader", "Running")
    assert {node for _, node in drivers[NODE].attached()} == {SECOND_NODE}
    second.delete_pod("reader")
    wait_for("the volume to be detached", lambda: drivers[NODE].attached() == set() and not cluster.items("VolumeAttachment"))
    cluster.delete("PersistentVolumeClaim", "data", "default")
    wait_for("the volume to be gone", lambda: drivers[NODE].volumes() == [])


@pytest.fixture
def shipped(nodes):
    """The shipped driver on both nodes."""
    for each in nodes.values():
        each.start_shipped_driver()


def test_each_node_has_its_own_volumes(nodes, shipped):
    """The shipped driver of a node makes the volumes of its own pods alone, and a pod does not start where its volume is not."""
    cluster = nodes[NODE].cluster
    for name, each in nodes.items():
        cluster.create(objects.claim(f"of-{name}", storage_class="local"), "default")
        each.create_pod(objects.pod(f"on-{name}", f"echo {name} > /of-{name}/file && sync", [f"of-{name}"], **on(name)))
    for name, each in nodes.items():
        each.wait_pod(f"on-{name}", "Succeeded")
        assert len(list((each.folder / "pool").rglob("*.img"))) == 1, "each pool has the volume of its node"
    stranger = nodes[SECOND_NODE].create_pod(objects.pod("stranger", "true", [f"of-{NODE}"], **on(SECOND_NODE)))
    wait_for("the pod to have no node", lambda: any(
        each.get("reason") == "Unschedulable"
        for each in cluster.get("Pod", "stranger", "default")["status"].get("conditions") or []))
    assert "nodeName" not in stranger["spec"]
    for name in ("stranger", *(f"on-{name}" for name in nodes)):
        nodes[NODE].delete_pod(name)
    for name in nodes:
        cluster.delete("PersistentVolumeClaim", f"of-{name}", "default")
    wait_for("the volumes to be gone", lambda: not any(list((each.folder / "pool").rglob("*.img")) for each in nodes.values()))
