"""csi-provisioner with --node-deployment, once for each node: what the Go program does and what Berth does in its place."""
import pytest
from lib.kubernetes.world import OF_CAPACITY, RIGHTS, rules_of

GO_PROGRAMS = ("csi-provisioner",)
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
LONG_NODE = "a-node-whose-name-is-rather-long-as-those-of-clouds-often-are"[:60]
OF_NODES = {"nodes", "csinodes"}


def without_nodes(rules):
    """Gives the rules without the rights to read nodes and CSINodes."""
    kept = [rule | {"resources": [each for each in rule["resources"] if each not in OF_NODES]} for rule in rules]
    return [rule for rule in kept if rule["resources"]]


@pytest.fixture
def provisioner(world):
    """The provisioner of a node, which may not read nodes."""
    world.make_class(binding="WaitForFirstConsumer")
    return world.start("csi-provisioner", *FAST, "--node-deployment", "--enable-capacity", "--capacity-ownerref-level=-1",
                       rules=without_nodes(rules_of(*RIGHTS["csi-provisioner"])), own_rules=OF_CAPACITY, elect=False,
                       env={"NODE_NAME": LONG_NODE, "NAMESPACE": world.namespace})


def test_a_node_with_a_long_name(world, provisioner):
    """The capacity of a node whose name has 60 characters is managed by a shortened name."""
    assert len(LONG_NODE) == 60
    [capacity] = provisioner.wait_for("the capacity", lambda: world.cluster.items("CSIStorageCapacity", world.namespace))
    world.same("labels", capacity["metadata"]["labels"])
    world.same("topology", capacity["nodeTopology"])


def test_nodes_are_not_read(world, provisioner):
    """A claim of the own node is bound without the rights to read nodes and CSINodes, and nobody asks for them."""
    world.claim("data")
    world.cluster.patch("PersistentVolumeClaim", "data",
                        {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": LONG_NODE}}}, world.namespace)
    _, volume = world.bound("data")
    world.same("volume", volume, {volume["spec"]["csi"]["volumeHandle"]: "HANDLE"})
    if world.cluster.real:
        asked = {resource for _, resource, _ in world.cluster.requests_of(world.namespace, "csi-provisioner")}
        assert asked and not asked & OF_NODES, asked
