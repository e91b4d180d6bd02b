"""A fence hits exactly the clients that it is for."""
import errno

import pytest
from lib.rbd import CallError
from lib.rbd_served import letters

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
    first.kill()
    second = serve("n1").start()
    second.write(0, b"a")
    [newer] = targets(ceph, image, "n1")
    assert newer not in listed
    fence(ceph, image, "n1", addresses=listed)
    fence(ceph, image, "n1", addresses=[])
    fence(ceph, image, "n3", addresses=[newer])
    assert newer not in ceph.blocklist()
    second.write(1, b"b")
    [holder] = ceph.call("holders", node="n2", image=image)["holders"]
    assert (holder["address"], holder["node"]) == (newer, "n1")
    assert "'n1'" in serve("n2").refusal()
    assert newer in fence(ceph, image, "n1", addresses=[newer])
    with pytest.raises(OSError) as raised:
        second.write(2, b"c")
    assert raised.value.errno in (errno.ESHUTDOWN, errno.EIO)
    assert letters(ceph, image, 3) == "ab."
    assert targets(ceph, image, "n1") == []


def test_a_list_that_is_none_fences_nobody(ceph, image, serve):
    served = serve("n1").start()
    for addresses in ("10.0.0.1:0/1", [1], {"a": "b"}):
        with pytest.raises(CallError) as raised:
            fence(ceph, image, "n1", addresses=addresses)
        assert raised.value.code == "INVALID_ARGUMENT"
    served.write(0, b"a")
    assert targets(ceph, "absent", "n1") == []
