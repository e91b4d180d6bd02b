"""A volume moves between two whole nodes, each with an agent and an I/O proxy, because the storage fences the one that is
lost: switched off under a pod that writes, or frozen, and woken up when its volume is in use elsewhere."""
import contextlib

import pytest
from lib import ceph, tgt
from lib.iscsi_site import iscsi_site
from lib.rbd_site import rbd_site
from lib.standalone import wait_for
from lib.storage_site import CutNetwork, FurtherStorageNode

pytestmark = [pytest.mark.storage, pytest.mark.e2e]

# Counts up, and counts only what the storage has. It goes on after a failure, as many programs do.
COUNT = ("n=0; trap 'exit 0' TERM; while :; do n=$((n+1)); echo $HOSTNAME $n >> /data/log && sync /data/log && echo $n > /new && mv /new /synced;"
         " touch /written; sleep 0.02; done")


@pytest.fixture(scope="module", params=["rbd", "iscsi"])
def module_site(request, runtime):
    try:
        with (rbd_site if request.param == "rbd" else iscsi_site)(runtime) as made:
            yield made
    except (ceph.Missing, tgt.Missing) as missing:
        pytest.skip(str(missing))


@pytest.fixture
def site(module_site):
    module_site.prepare("ext4")  # a kernel mounts no two XFS with one UUID, and both nodes have the same kernel
    yield module_site
    module_site.clean()


@contextlib.contextmanager
def second_node(site, network=None):
    made = FurtherStorageNode(site.berth, network=network)
    try:
        made.start()
        yield made
    finally:
        if network is not None:
            network.heal()
        made.remove()
        site.berth.run("delete", "node", made.name, check=False)


@pytest.fixture
def further(site):
    """A second node, which is there at the start of the test."""
    with second_node(site) as made:
        yield made


@pytest.fixture
def cut_node(site):
    """The same, with a network that can be cut."""
    network = CutNetwork(site.berth, site.ceph, "node-b")
    try:
        with second_node(site, network) as made:
            yield made
    finally:
        network.close()


def count_of(site, pod):
    """Gives the number up to which the storage has what the pod wrote."""
    return int(site.berth.run("exec", pod, "--", "sh", "-c", "until [ -s /synced ]; do sleep 0.1; done; cat /synced").stdout)


def log_of(site, pod):
    """Gives what the volume's log says: {pod: the numbers it wrote}. Nothing is torn, doubled or out of order."""
    found = {}
    for line in site.berth.run("exec", pod, "--", "cat", "/data/log").stdout.splitlines():
        writer, number = line.split()
        found.setdefault(writer, []).append(int(number))
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in found.values()), found
    return found


def give_up(site, further, pod):
    """What an administrator, or a controller, does with a node that is lost."""
    site.berth.run("delete", "pod", pod, "--grace-period=0", "--wait=false")
    site.berth.wait_gone("pods", pod)
    site.berth.run("delete", "node", further.name)


def move_here(site, further):
    """Has the volume of pod `one` move to pod `two` on this node. Gives how many lines of `one` it has."""
    give_up(site, further, "one")
    site.run("two", "data", COUNT)
    count_of(site, "two")
    return len(log_of(site, "two")["one"])


def write_once_more(site, node):
    """Has pod `three` write in the place of `two`. Gives what log_of gives."""
    site.remove("two")
    site.run("three", "data", COUNT, node=node)
    count_of(site, "three")
    return log_of(site, "three")


def wait_clean(site, further):
    """Waits until the node that came back has taken off what it lost, and the storage's fences of it are lifted."""
    wait_for("the node to be clean", lambda: not further.node.agent.records()
             and site.berth.get("nodecleanups", further.name) is None, seconds=120)


def test_a_node_is_switched_off_under_a_pod_that_writes(site, further):
    name = site.claim("data", site.size, site.storage_class)
    site.run("one", "data", COUNT, node=further.name)
    assert site.holders(name) == [further.name]
    durable = count_of(site, "one")
    further.switch_off()
    assert move_here(site, further) >= durable
    assert site.holders(name) == ["node-a"]
    # The node comes back without its pods, and gets the volume again by right.
    further.start()
    wait_clean(site, further)
    assert set(write_once_more(site, further.name)) == {"one", "two", "three"}
    assert site.holders(name) == [further.name]


def test_a_frozen_node_wakes_up_and_writes_nothing_more(site, further):
    name = site.claim("data", site.size, site.storage_class)
    site.run("one", "data", COUNT, node=further.name)
    durable = count_of(site, "one")
    further.freeze()
    before = move_here(site, further)
    assert before >= durable
    # Its container has written on, into the page cache. All of that is refused when the node wakes up.
    further.thaw()
    wait_for("the node to be back", further.further.ready, seconds=120)
    wait_clean(site, further)
    assert site.holders(name) == ["node-a"]
    seen = write_once_more(site, further.name)
    assert set(seen) == {"one", "two", "three"} and len(seen["one"]) == before


@pytest.mark.parametrize("module_site", ["rbd"], indirect=True)
def test_a_node_that_is_cut_off_writes_nothing_once_its_volume_has_moved(site, cut_node):
    name = site.claim("data", site.size, site.storage_class)
    site.run("one", "data", COUNT, node=cut_node.name)
    durable = count_of(site, "one")
    cut_node.cut_off()
    before = move_here(site, cut_node)
    assert before >= durable and site.holders(name) == ["node-a"]
    # What it wrote meanwhile was on its way, and is refused.
    cut_node.reconnect()
    wait_clean(site, cut_node)
    seen = write_once_more(site, "node-a")
    assert set(seen) == {"one", "two", "three"} and len(seen["one"]) == before
