"""A fence hits exactly the clients that it is for."""
import errno

import pytest
from lib.rbd import MIB, CallError, letters
from lib.rbd_unrecorded import Unrecorded

pytestmark = pytest.mark.storage


def targets(ceph, image, node):
    return ceph.call("fenceTargets", node="n2", image=image, target=node)["addresses"]


def fence(ceph, image, node, **only):
    return ceph.call("fence", node="n2", image=image, target=node, **only)["addresses"]


def test_a_late_fence_leaves_a_client_that_came_after_it_was_listed(ceph, image, serve):
    """The one who fences was frozen after its look; meanwhile the node has got the volume back by right."""
    first = serve("n1").start()
    listed = targets(ceph, image, "n1")
    assert [holder["address"] for holder in ceph.call("holders", node="n2", image=image)["holders"]] == listed
    assert targets(ceph, image, "n2") == []
    first.stop()
    second = serve("n1").start()
    second.write_block(0, b"a")
    [newer] = targets(ceph, image, "n1")
    assert newer not in listed
    fence(ceph, image, "n1", addresses=listed)
    fence(ceph, image, "n1", addresses=[])
    fence(ceph, image, "n3", addresses=[newer])
    assert newer not in ceph.blocklist()
    second.write_block(1, b"b")
    [holder] = ceph.call("holders", node="n2", image=image)["holders"]
    assert (holder["address"], holder["node"]) == (newer, "n1")
    assert "'n1'" in serve("n2").failure()["message"]
    assert newer in fence(ceph, image, "n1", addresses=[newer])
    with pytest.raises(OSError) as raised:
        second.write_block(2, b"c")
    assert raised.value.errno in (errno.ESHUTDOWN, errno.EIO)
    assert letters(ceph, image, 3) == "ab."
    assert targets(ceph, image, "n1") == []


def test_a_list_that_is_none_fences_nobody(ceph, image, serve):
    served = serve("n1").start()
    for addresses in ("10.0.0.1:0/1", [1], {"a": "b"}):
        with pytest.raises(CallError) as raised:
            fence(ceph, image, "n1", addresses=addresses)
        assert raised.value.code == "INVALID_ARGUMENT"
    served.write_block(0, b"a")
    assert targets(ceph, "absent", "n1") == []


def intend(ceph, image, node):
    """A node is about to map the image by its kernel."""
    return ceph.call("noteHolder", node=node, image=image, program="krbd", address="")["address"]


@pytest.fixture
def kernel(ceph, image):
    """Gives a function that uses the test's image as the kernel does, which records nothing."""
    ceph.call("create", image=image, size=8 * MIB)
    made = []

    def start():
        made.append(Unrecorded(ceph, image))
        return made[-1]

    yield start
    for client in made:
        client.kill()


def refused(ceph, *arguments, **members):
    with pytest.raises(CallError) as raised:
        ceph.call(*arguments, **members)
    assert raised.value.code == "FAILED_PRECONDITION"
    return raised.value.message


def test_a_kernel_client_that_was_noted_is_fenced_and_forgotten(ceph, image, kernel):
    intend(ceph, image, "n1")
    client = kernel()
    for _ in range(2):
        assert ceph.call("noteHolder", node="n1", image=image, program="krbd", address=client.address) == {}
    assert targets(ceph, image, "n1") == [client.address]
    assert client.write(0, "a") == "written"
    assert fence(ceph, image, "n1") == [client.address]
    assert client.write(1, "a") != "written"
    assert letters(ceph, image, 2) == "a."
    assert targets(ceph, image, "n1") == []


def test_a_kernel_client_whose_agent_died_before_its_note_is_found(ceph, image, kernel):
    intent = intend(ceph, image, "n1")
    client = kernel()
    [holder] = ceph.call("holders", node="n2", image=image)["holders"]
    assert (holder["node"], holder["address"]) == ("n1", client.address)
    listed = targets(ceph, image, "n1")
    assert sorted(listed) == sorted([client.address, intent])
    assert targets(ceph, image, "n2") == []
    assert fence(ceph, image, "n1", addresses=listed) == [client.address]
    assert client.write(0, "a") != "written"
    # The agent comes back, and is told that it must not use what it mapped.
    assert "was fenced" in refused(ceph, "noteHolder", node="n1", image=image, program="krbd", address=client.address)
    assert targets(ceph, image, "n1") == []


def test_a_kernel_client_that_cannot_be_told_from_others_moves_no_volume(ceph, image, kernel):
    intend(ceph, image, "n1")
    intend(ceph, image, "n2")  # the same host, as behind NAT
    client = kernel()
    for call in ("fenceTargets", "fence"):
        assert client.address in refused(ceph, call, node="n3", image=image, target="n1")
    assert client.write(0, "a") == "written"
    assert client.address not in ceph.blocklist()


def test_a_map_that_failed_or_ended_is_forgotten(ceph, image, kernel):
    intent = intend(ceph, image, "n1")
    assert targets(ceph, image, "n1") == [intent]
    ceph.call("noteHolder", node="n1", image=image, program="", address=intent)
    assert targets(ceph, image, "n1") == []
    intend(ceph, image, "n1")
    address = "10.0.0.1:0/7"
    ceph.call("noteHolder", node="n1", image=image, program="krbd", address=address)
    ceph.call("noteHolder", node="n2", image=image, program="", address=address)
    assert targets(ceph, image, "n1") == [address]
    ceph.call("noteHolder", node="n1", image=image, program="", address=address)
    assert targets(ceph, image, "n1") == []


def test_the_kernel_neither_grows_an_image_nor_makes_snapshots_for_others(ceph, image, kernel):
    intend(ceph, image, "n1")
    client = kernel()
    ceph.call("noteHolder", node="n1", image=image, program="krbd", address=client.address)
    assert client.write(0, "a") == "written"
    for call in ({"call": "grow", "size": 16 * MIB}, {"call": "snapshot", "snapshot": f"{image}-monday"}):
        said = refused(ceph, call.pop("call"), node="n2", image=image, **call)
        assert "in use by the kernel's driver of node 'n1'" in said and "by the proxy" in said
    assert client.write(1, "a") == "written"
    assert {one["name"]: one["size"] for one in ceph.call("list")["images"]}[image] == 8 * MIB
    client.kill()
    ceph.call("fence", node="n2", image=image, target="n1")
    ceph.call("grow", node="n2", image=image, size=16 * MIB)
    ceph.call("snapshot", node="n2", image=image, snapshot=f"{image}-monday")


def test_nothing_is_to_be_mapped_by_the_kernel_while_another_has_the_lock(ceph, image, serve):
    serve("n1").start()
    assert "'n1'" in refused(ceph, "noteHolder", node="n2", image=image, program="krbd", address="")
    assert targets(ceph, image, "n2") == []
